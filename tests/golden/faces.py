"""Every loader and sampler of `halohop.dgl` and `halohop.glt`: cases of `batches`, as functions of a graph of the face."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import halohop.dgl as dgl
import halohop.glt as glt
from tests.golden.graphs import BACK, CITES, EDGES, RELATIONS, WRITES, floats, numbers, weights
from tests.golden.loaders import Calls

Make = Callable[..., Any]
IDS = torch.arange(50)
TYPED_IDS = {"paper": torch.arange(30), "author": torch.arange(12)}


# DGL


def dgl_plain() -> dgl.DGLGraph:
    g = dgl.graph((numbers(80, 400, key=600), numbers(80, 400, key=601)), num_nodes=90)
    g.ndata["feat"], g.ndata["label"] = floats(90, 3, key=602), torch.arange(90) % 4
    g.ndata["train_mask"] = numbers(2, 90, key=603) > 0
    g.edata["weight"] = weights(400, 604)
    return g


def dgl_typed() -> dgl.DGLGraph:
    ends = {
        relation: (numbers(num_src, EDGES, key=610 + at), numbers(num_dst, EDGES, key=620 + at))
        for at, (relation, (num_src, num_dst)) in enumerate(RELATIONS.items())
    }
    ends[BACK] = (ends[WRITES][1], ends[WRITES][0])
    g = dgl.heterograph(ends, {"paper": 80, "author": 30})
    g.nodes["paper"].data["feat"] = floats(80, 3, key=630)
    g.nodes["author"].data["age"] = numbers(90, 30, key=631)
    g.edges["cites"].data["weight"] = weights(EDGES, 632)
    return g


DGL_GRAPHS = {"plain": dgl_plain, "typed": dgl_typed}


class Mixed(dgl.dataloading.BlockSampler):
    """A sampler of a user, which joins what several functions return."""

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        some = dgl.sampling.sample_neighbors(g, seed_nodes, 2 + block_id, prob="weight")
        more = dgl.sampling.sample_neighbors(g, seed_nodes, 1, replace=True)
        return dgl.merge([some, more, dgl.in_subgraph(g, seed_nodes[:5])])


def dgl_nodes(sampler: Any, ids: Any = IDS, **options: Any) -> Make:
    def make(g: Any, **how: Any) -> Any:
        kind = dgl.distributed.DistNodeDataLoader if isinstance(g, dgl.distributed.DistGraph) else dgl.dataloading.DataLoader
        return kind(g, ids, sampler, **{"batch_size": 20, **options, **how})

    return make


def dgl_edges(make_sampler: Callable[[], Any], ids: Any, **around: Any) -> Make:
    def make(g: Any, **how: Any) -> Any:
        sampler = dgl.dataloading.as_edge_prediction_sampler(make_sampler(), **around)
        return dgl.dataloading.DataLoader(g, ids, sampler, batch_size=40, **how)

    return make


def dgl_calls(call: Callable[[Any], Any]) -> Make:
    """Outside of batches, the calls on a graph number themselves: two calls."""
    return lambda g, **how: Calls(lambda **when: call(g))


def two() -> Any:
    return dgl.dataloading.NeighborSampler([2, 3])


Uniform, GlobalUniform = dgl.dataloading.negative_sampler.Uniform, dgl.dataloading.negative_sampler.GlobalUniform
CITED = {"cites": torch.arange(100)}
DGL: dict[str, tuple[str, Make]] = {
    "dgl, nodes": ("plain", dgl_nodes(two())),
    "dgl, nodes, shuffled": ("plain", dgl_nodes(two(), shuffle=True)),
    "dgl, nodes, drop_last": ("plain", dgl_nodes(two(), drop_last=True)),
    "dgl, nodes, weights": ("plain", dgl_nodes(dgl.dataloading.NeighborSampler([2, 3], prob="weight"))),
    "dgl, nodes, replace": ("plain", dgl_nodes(dgl.dataloading.NeighborSampler([2, 3], replace=True))),
    "dgl, nodes, features": (
        "plain",
        dgl_nodes(
            dgl.dataloading.NeighborSampler(
                [2, 3], prefetch_node_feats=["feat"], prefetch_labels=["label"], prefetch_edge_feats=["weight"]
            )
        ),
    ),
    "dgl, nodes, full": ("plain", dgl_nodes(dgl.dataloading.MultiLayerFullNeighborSampler(2))),
    "dgl, nodes, labor": ("plain", dgl_nodes(dgl.dataloading.LaborSampler([2, 3]))),
    "dgl, nodes, a sampler of one's own": ("plain", dgl_nodes(Mixed(2))),
    "dgl, nodes, several types": ("typed", dgl_nodes(two(), TYPED_IDS)),
    "dgl, nodes, by relation": (
        "typed",
        dgl_nodes(dgl.dataloading.NeighborSampler([{CITES: 2, WRITES: 1, BACK: 0}, 3]), TYPED_IDS),
    ),
    "dgl, edges": ("plain", dgl_edges(two, torch.arange(100), negative_sampler=Uniform(2))),
    "dgl, edges, exclude self": ("plain", dgl_edges(two, torch.arange(100), exclude="self", negative_sampler=GlobalUniform(1))),
    "dgl, edges, several types": ("typed", dgl_edges(two, CITED, negative_sampler=Uniform(1))),
    "dgl, edges, exclude reverse_types": (
        "typed",
        dgl_edges(
            two,
            {"writes": torch.arange(100)},
            exclude="reverse_types",
            reverse_etypes={"writes": "rev_writes", "rev_writes": "writes"},
        ),
    ),
    "dgl, sample_neighbors": ("plain", dgl_calls(lambda g: dgl.sampling.sample_neighbors(g, IDS, 2))),
    "dgl, sample_neighbors, several types": ("typed", dgl_calls(lambda g: dgl.sampling.sample_neighbors(g, TYPED_IDS, 2))),
    "dgl, in_subgraph": ("plain", dgl_calls(lambda g: dgl.in_subgraph(g, IDS))),
}
"""What a graph and a `DistGraph` sample alike."""

DGL_WHOLE: dict[str, tuple[str, Make]] = {
    "dgl, sample_neighbors, out": ("plain", dgl_calls(lambda g: dgl.sampling.sample_neighbors(g, IDS, 2, edge_dir="out"))),
    "dgl, out_subgraph": ("plain", dgl_calls(lambda g: dgl.out_subgraph(g, IDS))),
    "dgl, edges, exclude reverse_id": (
        "plain",
        dgl_edges(two, torch.arange(100), exclude="reverse_id", reverse_eids=torch.arange(400).view(2, 200).flip(0).reshape(-1)),
    ),
}
"""What only a graph in memory has."""


def divide_dgl(source: str, num_parts: int, folder: Path) -> Path:
    """A folder of partitions, and its configuration file."""
    dgl.distributed.partition_graph(DGL_GRAPHS[source](), "it", num_parts, folder, part_method="random")
    return folder / "it.json"


# GLT


def glt_plain(edge_dir: str) -> Any:
    data = glt.data.Dataset(edge_dir=edge_dir)
    data.init_graph(numbers(80, 2, 400, key=700), torch.arange(400).flip(0), weights(400, 701) + 1, graph_mode="CPU")
    data.init_node_features(floats(90, 3, key=703), with_gpu=False)
    data.init_node_labels(torch.arange(90) % 7)
    data.init_edge_features(floats(400, 2, key=704))
    return data


def glt_typed(edge_dir: str) -> Any:
    edges = {
        relation: torch.stack([numbers(num_src, EDGES, key=710 + at), numbers(num_dst, EDGES, key=720 + at)])
        for at, (relation, (num_src, num_dst)) in enumerate(RELATIONS.items())
    }
    data = glt.data.Dataset(edge_dir=edge_dir)
    data.init_graph(edges, None, {relation: weights(EDGES, 730) + 1 for relation in edges}, graph_mode="CPU")
    data.init_node_features({"paper": floats(80, 3, key=732), "author": floats(30, 2, key=733)}, with_gpu=False)
    data.init_node_labels({"paper": torch.arange(80) % 5})
    return data


GLT_GRAPHS = {
    f"{name} {edge_dir}": lambda make=make, edge_dir=edge_dir: make(edge_dir)
    for name, make in {"plain": glt_plain, "typed": glt_typed}.items()
    for edge_dir in ("out", "in")
}


def glt_nodes(ids: Any, **options: Any) -> Make:
    def make(data: Any, **how: Any) -> Any:
        return glt.loader.NeighborLoader(data, [3, 2], ids, **{"batch_size": 20, **options, **how})

    return make


def glt_links(pairs: Any, **options: Any) -> Make:
    def make(data: Any, **how: Any) -> Any:
        return glt.loader.LinkNeighborLoader(data, [3, 2], edge_label_index=pairs, **{"batch_size": 30, **options, **how})

    return make


def glt_calls(call: Callable[[Any], Any], edge_dir: str = "out", **options: Any) -> Make:
    """Two calls of a sampler."""

    def make(data: Any, **how: Any) -> Calls:
        sampler = glt.sampler.NeighborSampler(data.graph, [3, 2], edge_dir=edge_dir, seed=how.get("seed", 0), **options)
        return Calls(lambda **when: call(sampler))

    return make


def glt_negatives(data: Any, **how: Any) -> Calls:
    torch.manual_seed(0)
    sampler = glt.sampler.RandomNegativeSampler(data.graph)
    return Calls(lambda **when: sampler.sample(40))


PAIRS, WRITTEN = numbers(80, 2, 70, key=740), torch.stack([numbers(30, 70, key=741), numbers(80, 70, key=742)])
PAPERS = ("paper", torch.arange(50))
GLT: dict[str, tuple[str, Make]] = {
    "glt, nodes": ("plain out", glt_nodes(IDS)),
    "glt, nodes, shuffled": ("plain out", glt_nodes(IDS, shuffle=True)),
    "glt, nodes, in, with edges": ("plain in", glt_nodes(IDS, with_edge=True)),
    "glt, nodes, weights": ("plain out", glt_nodes(IDS, with_edge=True, with_weight=True)),
    "glt, nodes, as_pyg_v1": ("plain out", glt_nodes(IDS, as_pyg_v1=True)),
    "glt, nodes, several types": ("typed out", glt_nodes(PAPERS, with_edge=True)),
    "glt, nodes, several types, in": ("typed in", glt_nodes(PAPERS)),
    "glt, links": ("plain out", glt_links(PAIRS)),
    "glt, links, binary": ("plain out", glt_links(PAIRS, neg_sampling=glt.sampler.NegativeSampling("binary", 1))),
    "glt, links, triplets": ("plain in", glt_links(PAIRS, neg_sampling=glt.sampler.NegativeSampling("triplet", 2))),
    "glt, links, several types": (
        "typed out",
        glt_links((WRITES, WRITTEN), neg_sampling=glt.sampler.NegativeSampling("binary", 1)),
    ),
    "glt, subgraphs": (
        "plain out",
        lambda data, **how: glt.loader.SubGraphLoader(data, torch.arange(30), [3], batch_size=10, with_edge=True, **how),
    ),
}
GLT_SAMPLERS: dict[str, tuple[str, Make]] = {
    "glt, NeighborSampler, one hop": ("plain out", glt_calls(lambda sampler: sampler.sample_one_hop(IDS, 3))),
    "glt, NeighborSampler, nodes": (
        "plain out",
        glt_calls(lambda sampler: sampler.sample_from_nodes(glt.sampler.NodeSamplerInput(IDS)), with_edge=True),
    ),
    "glt, NeighborSampler, subgraph": (
        "plain in",
        glt_calls(lambda sampler: sampler.subgraph(glt.sampler.NodeSamplerInput(IDS)), "in", with_edge=True),
    ),
    "glt, RandomNegativeSampler": ("plain out", glt_negatives),
}
