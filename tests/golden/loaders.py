"""Every loader and sampler of halohop with its options, each as a function of a graph: the cases of `batches`."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling, NodeSamplerInput

import halohop
from tests.golden.graphs import BACK, CITES, WRITES, numbers, weights

Make = Callable[..., Any]
FEW = {"node_columns": ["x"], "edge_columns": ["edge_attr"]}
TIMES = torch.arange(60) + 20
AT = {"time_attr": "time", "input_time": TIMES}


def papers(fanouts: Any = (3, 2), **options: Any) -> Make:
    return lambda graph, **how: halohop.NeighborLoader(
        graph,
        fanouts if isinstance(fanouts, dict) else [*fanouts],
        ("paper", torch.arange(60)),
        **{"batch_size": 25, **FEW, **options, **how},
    )


def links(relation: Any = CITES, edges: Any = None, **options: Any) -> Make:
    return lambda graph, **how: halohop.LinkNeighborLoader(
        graph, [3, 2], (relation, edges), **{"batch_size": 110, **FEW, **options, **how}
    )


def plain_nodes(**options: Any) -> Make:
    return lambda graph, **how: halohop.NeighborLoader(graph, [4, 3], torch.arange(60), **{"batch_size": 25, **options, **how})


class Calls:
    """What a function returns, as a loader whose batch n of epoch e is its result for these numbers."""

    def __init__(self, call: Callable[..., Any], count: int = 2) -> None:
        self.call, self.count, self.epoch = call, count, -1

    def __iter__(self) -> Iterator[Any]:
        self.epoch += 1
        return (self.call(epoch=self.epoch, batch=number) for number in range(self.count))


def walks(*start: Any, **options: Any) -> Make:
    return lambda graph, **how: Calls(
        lambda **when: halohop.random_walk(graph, *start, seed=how.get("seed", 0), **options, **when)
    )


def from_nodes(**options: Any) -> Make:
    """PyG's loaders call a sampler; how it is called depends on PyG's version, so these cases call it."""

    def make(graph: Any, **how: Any) -> Calls:
        sampler = halohop.HalohopSampler(graph, [3, 2], seed=how.get("seed", 0), **options)

        def call(epoch: int, batch: int) -> Any:
            sampler.set_epoch(epoch)
            seeds = torch.arange(20) + 20 * batch
            return sampled(sampler.sample_from_nodes(NodeSamplerInput(input_id=None, node=seeds, input_type="paper")))

        return Calls(call)

    return make


def from_edges(**options: Any) -> Make:
    def make(graph: Any, **how: Any) -> Calls:
        sampler = halohop.HalohopSampler(graph, [3, 2], seed=how.get("seed", 0), **options)

        def call(epoch: int, batch: int) -> Any:
            sampler.set_epoch(epoch)
            rows, columns = numbers(30, 20, key=500 + batch), numbers(80, 20, key=510 + batch)
            seeds = EdgeSamplerInput(input_id=None, row=rows, col=columns, input_type=WRITES)
            return sampled(sampler.sample_from_edges(seeds, NegativeSampling("binary", 1.0)))

        return Calls(call)

    return make


def sampled(output: Any) -> dict[str, Any]:
    names = ("node", "row", "col", "edge", "batch", "num_sampled_nodes", "num_sampled_edges", "metadata")
    return {name: getattr(output, name) for name in names}


def negatives() -> Make:
    def make(graph: Any, **how: Any) -> Calls:
        sampler = halohop.HalohopSampler(graph, [], seed=how.get("seed", 0))

        def call(epoch: int, batch: int) -> Any:
            sampler.set_epoch(epoch)
            return sampler.sample_negatives(40, WRITES, batch=batch)

        return Calls(call)

    return make


def questions(draws: Any, seeds: Any) -> Data:
    """Every question that a batch of one's own can ask."""
    hop = draws.neighbors(seeds, 3)
    ids = {name: hop[edge].src.unique() for name, edge in (("paper", CITES), ("author", WRITES))}
    left_out = {CITES: hop[CITES].edge_id[::2], BACK: torch.arange(0, 300, 3)}
    further = draws.neighbors(ids, {CITES: 2, BACK: -1}, weight="weight", excluded=left_out)
    again = draws.neighbors(ids, 2, replace=True)
    labor = draws.neighbors(ids, 2, method="labor")
    ends = draws.edges({BACK: further[BACK].edge_id[:9]})[BACK]
    rows = draws.rows({"paper": (further[CITES].src, ["x", "when"]), WRITES: (hop[WRITES].edge_id, ["edge_attr", "time"])})
    some = draws.uniform(7, "paper")
    made = {"papers": some, "cited": draws.has_edges(some[:5], some[2:], CITES), "number": draws.number}
    for name, edges in {"first": hop, "second": further, "again": again, "labor": labor, "ends": {BACK: ends}}.items():
        for (_, relation, _), found in edges.items():
            made |= {f"{name}_{relation}_{key}": getattr(found, key) for key in ("src", "dst", "edge_id")}
    return Data(**made, x=rows["paper"]["x"], when=rows["paper"]["when"], **rows[WRITES])


def marked(batch: Any) -> Any:
    batch.mark = batch["paper"].n_id.sum()
    return batch


PAIRS = torch.stack([numbers(80, 200, key=520), numbers(80, 200, key=521)])

NODES: dict[str, tuple[str, Make]] = {
    "nodes": ("typed", papers(node_columns=None, edge_columns=None)),
    "nodes, shuffled": ("typed", papers(shuffle=True)),
    "nodes, train split": (
        "typed",
        lambda graph, **how: halohop.NeighborLoader(graph, [2, 2, 2], ("paper", "train"), batch_size=20, **FEW, **how),
    ),
    "nodes, a mask": (
        "typed",
        lambda graph, **how: halohop.NeighborLoader(
            graph, [2], ("paper", numbers(2, 80, key=522) > 0), batch_size=20, **FEW, **how
        ),
    ),
    "nodes, input_id": ("typed", papers(input_id=torch.arange(60).flip(0))),
    "nodes, drop_last": ("typed", papers(drop_last=True)),
    "nodes, a sampler": ("typed", papers(sampler=list(range(59, -1, -1)))),
    "nodes, a batch_sampler": ("typed", papers(batch_size=1, batch_sampler=[[5, 3], [7], [59, 0, 1]])),
    "nodes, by relation": ("typed", papers({CITES: [3, 0], WRITES: [0, -1], BACK: [2, 2]})),
    "nodes, columns": ("typed", papers(node_columns={"paper": ["when"], "author": ["x"]}, edge_columns=[])),
    "nodes, no ids": ("typed", papers(node_columns=[], edge_columns=[], ids=["n_id"])),
    "nodes, expand=all": (
        "typed",
        lambda graph, **how: halohop.NeighborLoader(graph, [-1, 2], ("author", None), batch_size=12, expand="all", **FEW, **how),
    ),
    "nodes, replace": ("typed", papers(replace=True)),
    "nodes, replace, expand=all": ("typed", papers(replace=True, expand="all")),
    "nodes, disjoint": ("typed", papers(disjoint=True)),
    "nodes, disjoint, replace": ("typed", papers(disjoint=True, replace=True)),
    "nodes, weights": ("typed", papers(weight_attr="weight")),
    "nodes, weights, replace": ("typed", papers(weight_attr="weight", replace=True)),
    "nodes, weights, disjoint": ("typed", papers(weight_attr="weight", disjoint=True)),
    "nodes, weights are bool": ("typed", papers(weight_attr="chosen")),
    "nodes, weights are integers": ("typed", papers(weight_attr="time")),
    "nodes, times of edges": ("typed", papers(**AT)),
    "nodes, times of edges, last": ("typed", papers(temporal_strategy="last", **AT)),
    "nodes, times of edges, window": ("typed", papers(time_window=20, **AT)),
    "nodes, times of edges, weights": ("typed", papers(weight_attr="weight", **AT)),
    "nodes, times of edges, replace": ("typed", papers(replace=True, **AT)),
    "nodes, times are float64": ("typed", papers(time_attr="moment", input_time=TIMES + 0.5, time_window=30.25)),
    "nodes, times of nodes": ("typed", papers(time_attr="when")),
    "nodes, times of nodes, last": ("typed", papers(time_attr="when", temporal_strategy="last")),
    "nodes, times of nodes, window": ("typed", papers(time_attr="when", time_window=30.5)),
    "nodes, labor": ("typed", papers(method="labor")),
    "nodes, labor, disjoint, weights": ("typed", papers(method="labor", disjoint=True, weight_attr="weight")),
    "nodes, labor, layer_dependency": ("typed", papers(method="labor", layer_dependency=True)),
    "nodes, labor, times": ("typed", papers(method="labor", **AT)),
    "nodes, induced": ("typed", papers(subgraph_type="induced")),
    "nodes, induced, disjoint": ("typed", papers(subgraph_type="induced", disjoint=True)),
    "nodes, bidirectional": ("typed", papers(subgraph_type="bidirectional")),
    "nodes, transform": ("typed", papers(transform=marked, transform_sampler_output=lambda output: output)),
    "nodes, pad=bound": ("typed", papers(pad="bound", drop_last=True)),
    "nodes, pad=measured": ("typed", papers(pad="measured", drop_last=True)),
    "nodes, rank 0 of 2": ("typed", papers(world=halohop.World(rank=0, size=2))),
    "nodes, rank 1 of 2": ("typed", papers(world=halohop.World(rank=1, size=2))),
    "nodes, own seeds of rank 1 of 2": ("typed", papers(world=halohop.World(rank=1, size=2), own_seeds=True)),
    "nodes, out-edges": ("out", papers()),
    "nodes, out-edges, toward_seeds": ("out", papers(toward_seeds=True, weight_attr="weight")),
    "nodes, out-edges, times of nodes": ("out", papers(time_attr="when")),
    "nodes, out-edges, bidirectional": ("out", papers(subgraph_type="bidirectional")),
    "nodes, one type": ("plain", plain_nodes()),
    "nodes, one type, shuffled": ("plain", plain_nodes(shuffle=True)),
    "nodes, one type, weights": ("plain", plain_nodes(weight_attr="weight")),
    "nodes, one type, replace, disjoint": ("plain", plain_nodes(replace=True, disjoint=True)),
    "nodes, one type, expand=all": ("plain", plain_nodes(expand="all")),
    "nodes, one type, labor": ("plain", plain_nodes(method="labor")),
    "nodes, one type, bidirectional": ("plain", plain_nodes(subgraph_type="bidirectional")),
    "nodes, sparse features": ("sparse", plain_nodes()),
    "nodes, sparse features as CSR": ("sparse", plain_nodes(layout=torch.sparse_csr)),
}
LINKS: dict[str, tuple[str, Make]] = {
    "links": ("typed", links(node_columns=None, edge_columns=None)),
    "links, shuffled": ("typed", links(shuffle=True)),
    "links, pairs": ("typed", links(edges=PAIRS, batch_size=80)),
    "links, two types": ("typed", links(WRITES, disjoint=True)),
    "links, labels": ("typed", links(edges=PAIRS, batch_size=80, edge_label=numbers(4, 200, key=523), neg_sampling="binary")),
    "links, binary": ("typed", links(neg_sampling=NegativeSampling("binary", 1.5), exclude_seed_edges=True)),
    "links, binary, strict": ("typed", links(WRITES, neg_sampling="binary", strict_negatives=True)),
    "links, binary, weights of ends": (
        "typed",
        links(neg_sampling=NegativeSampling("binary", 1.0, src_weight=weights(80, 524), dst_weight=weights(80, 526))),
    ),
    "links, triplets": ("typed", links(neg_sampling={"mode": "triplet", "amount": 2})),
    "links, triplets, strict, disjoint": ("typed", links(neg_sampling="triplet", strict_negatives=True, disjoint=True)),
    "links, exclude both relations": ("typed", links(WRITES, exclude_seed_edges=True, reverse_relation=BACK)),
    "links, times": ("typed", links(neg_sampling="binary", time_attr="when", edge_label_time=torch.arange(300) % 90 + 100)),
    "links, times of edges, last": (
        "typed",
        links(time_attr="time", edge_label_time=torch.arange(300) % 90 + 20, temporal_strategy="last"),
    ),
    "links, weights": ("typed", links(weight_attr="weight", replace=True)),
    "links, labor": ("typed", links(method="labor")),
    "links, induced": ("typed", links(subgraph_type="induced", exclude_seed_edges=True)),
    "links, pad=bound": ("typed", links(pad="bound", neg_sampling="binary")),
    "links, out-edges": ("out", links(neg_sampling="triplet", exclude_seed_edges=True)),
    "links, one type": (
        "plain",
        lambda graph, **how: halohop.LinkNeighborLoader(graph, [3], batch_size=200, neg_sampling="binary", **how),
    ),
}
OTHERS: dict[str, tuple[str, Make]] = {
    "subgraphs": (
        "typed",
        lambda graph, **how: halohop.SubGraphLoader(graph, [2], ("paper", torch.arange(30)), batch_size=10, **FEW, **how),
    ),
    "subgraphs, all hops, disjoint": (
        "plain",
        lambda graph, **how: halohop.SubGraphLoader(graph, [-1, -1], torch.arange(30), batch_size=10, disjoint=True, **how),
    ),
    "HGT": (
        "typed",
        lambda graph, **how: halohop.HGTLoader(graph, [6, 4], ("paper", torch.arange(30)), batch_size=10, **FEW, **how),
    ),
    "HGT, max_neighbors": (
        "typed",
        lambda graph, **how: halohop.HGTLoader(
            graph,
            {"paper": [5, 5], "author": [3, 0], "venue": [0, 0]},
            ("author", None),
            max_neighbors=2,
            batch_size=10,
            **FEW,
            **how,
        ),
    ),
    "clusters, a column": ("typed", lambda graph, **how: halohop.ClusterLoader(graph, "part", batch_size=2, **FEW, **how)),
    "clusters, given, shuffled": (
        "plain",
        lambda graph, **how: halohop.ClusterLoader(graph, torch.arange(90) % 7, batch_size=3, shuffle=True, **how),
    ),
    "PageRank": ("plain", lambda graph, **how: halohop.PPRLoader(graph, 5, torch.arange(20), eps=5e-3, batch_size=8, **how)),
    "PageRank, a relation": (
        "typed",
        lambda graph, **how: halohop.PPRLoader(
            graph, 4, ("paper", torch.arange(20)), eps=1e-3, relation=CITES, batch_size=8, **FEW, **how
        ),
    ),
    "SAINT, nodes": ("plain", lambda graph, **how: halohop.GraphSAINTNodeSampler(graph, 20, num_steps=3, **how)),
    "SAINT, edges": ("plain", lambda graph, **how: halohop.GraphSAINTEdgeSampler(graph, 10, num_steps=3, **how)),
    "SAINT, walks, norms": (
        "plain",
        lambda graph, **how: halohop.GraphSAINTRandomWalkSampler(graph, 8, 3, num_steps=3, sample_coverage=3, log=False, **how),
    ),
    "a function of one's own": (
        "typed",
        lambda graph, **how: halohop.FunctionLoader(graph, questions, ("paper", torch.arange(60)), batch_size=25, **how),
    ),
}
CALLS: dict[str, tuple[str, Make]] = {
    "ppr": ("plain", lambda graph, **how: Calls(lambda **when: halohop.ppr(graph, [1, 5, 7], eps=1e-3, top=8)[:2], 1)),
    "random_walk": ("plain", walks(torch.arange(40), 5)),
    "random_walk, weights, edges": ("plain", walks(torch.arange(40), 5, weight_attr="weight", return_edge_ids=True)),
    "random_walk, p and q": ("plain", walks(torch.arange(40), 5, p=0.5, q=2.0)),
    "random_walk, metapath": ("typed", walks(("paper", torch.arange(40)), metapath=[WRITES, BACK, CITES])),
    "random_walk, out-edges": ("out", walks(("paper", torch.arange(40)), metapath=[CITES, CITES], edge_dir="out")),
    "random_walk, stop": ("plain", walks(torch.arange(90), 4, dead_end="stop")),
    "HalohopSampler, nodes": ("typed", from_nodes()),
    "HalohopSampler, nodes, disjoint": ("typed", from_nodes(disjoint=True)),
    "HalohopSampler, edges": ("typed", from_edges()),
    "HalohopSampler, negatives": ("typed", negatives()),
}
LOADERS = NODES | LINKS | OTHERS | CALLS
"""Name -> its graph, and the function."""

RANK = halohop.World(rank=1, size=2)
DIVIDED: dict[str, tuple[int, Make]] = {
    "2 partitions, gids": (2, papers(gids=True)),
    "2 partitions, locality=owner": (2, papers(locality="owner", shuffle=True)),
    "4 partitions, locality=owner": (4, papers(locality="owner", shuffle=True)),
    "4 partitions, share_near": (
        4,
        lambda graph, **how: Calls(lambda **when: halohop.placement.share_near(graph, ("paper", "train"), RANK).ids, 1),
    ),
}
"""Of "typed" in partitions by `owners`, on which these depend: name -> how many, and the function."""
