"""Loaders of partitions make the batches of loaders of the whole graph, in a defined order, on any number of processes."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop.dgl as dgl
from halohop.dgl.dataloading import BlockSampler, DataLoader, EdgeDataLoader, MultiLayerFullNeighborSampler, NeighborSampler
from halohop.dgl.distributed import (
    DistDataLoader,
    DistEdgeDataLoader,
    DistGraph,
    DistNodeDataLoader,
    EdgeCollator,
    NodeCollator,
    edge_split,
    in_subgraph,
    node_split,
    partition_graph,
    sample_etype_neighbors,
    sample_neighbors,
)
from halohop.errors import IdError, InputError
from tests.support.dgl_parts import plain_graph, typed_graph
from tests.support.dgl_ranks import folders_of_hosts, in_ranks


def opened(folder: Path) -> DistGraph:
    return DistGraph("it", part_config=folder / "it.json")


def seeds_of(g: Any) -> Any:
    ids = torch.tensor([7, 3, 11, 2, 5])
    return ids if g.is_homogeneous else {"paper": ids, "author": ids.flip(0)[:2]}


def content(value: Any) -> Any:
    """A batch in comparable numbers: ids, ends and edges. Relations without edges do not count: a DistGraph drops them."""
    if isinstance(value, dgl.DGLGraph):
        etypes = [etype for etype in value.canonical_etypes if value.num_edges(etype)]
        edges = {etype: [ends.tolist() for ends in value.edges(etype=etype)] for etype in etypes}
        ids = {
            kind: value.srcnodes[kind].data[dgl.NID].tolist() for kind in value.srctypes if dgl.NID in value.srcnodes[kind].data
        }
        named = {e: value.edges[e].data[dgl.EID].tolist() for e in etypes if dgl.EID in value.edges[e].data}
        return edges, ids, named
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: content(part) for key, part in value.items()}
    return [content(part) for part in value]


class Two(BlockSampler):
    """Draws twice, and keeps both draws' edges, each once."""

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        first, second = (dgl.sampling.sample_neighbors(g, seed_nodes, block_id + 1) for _ in range(2))
        return dgl.merge([first, second])


@pytest.mark.parametrize(
    "sampler", [NeighborSampler([2, 3]), MultiLayerFullNeighborSampler(1), Two(2)], ids=["drawn", "full", "own"]
)
def test_blocks_are_those_of_the_whole_graph(sampler: Any, divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    dist = opened(folder)
    how = {"batch_size": 2, "shuffle": True, "seed": 4}
    whole, parts = DataLoader(g, seeds_of(g), sampler, **how), DistNodeDataLoader(dist, seeds_of(g), sampler, **how)
    assert [content(batch) for batch in parts] == [content(batch) for batch in whole]
    for _, _, blocks in parts:
        for kind in blocks[0].srctypes:
            columns = blocks[0].srcnodes[kind].data
            for name in g.nodes[kind].data:
                assert torch.equal(columns[name], g.nodes[kind].data[name][columns[dgl.NID]])


class Frontiers(BlockSampler):
    """The same blocks as `NeighborSampler`, by the general way."""

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        return dgl.sampling.sample_neighbors(g, seed_nodes, [2, 3][block_id])


@pytest.mark.parametrize("way", ["loader", "sampler", "frontiers"])
def test_blocks_have_the_relations_with_sampled_edges(divided: tuple[dgl.DGLGraph, Path], way: str) -> None:
    """As in DGL, whose scripts ask for the only type that the last layer gives rows of."""
    g, folder = divided
    if g.is_homogeneous:
        return
    dist, seeds = opened(folder), {"paper": torch.tensor([7, 3])}
    sampler = Frontiers(2) if way == "frontiers" else NeighborSampler([2, 3], prefetch_edge_feats={"cites": ["w"]})
    if way == "sampler":
        blocks = sampler.sample_blocks(dist, seeds)[2]
    else:
        ((_, _, blocks),) = DistNodeDataLoader(dist, seeds, sampler, batch_size=2)
    assert blocks[-1].canonical_etypes == [("author", "writes", "paper"), ("paper", "cites", "paper")]
    assert blocks[0].canonical_etypes == [("author", "likes", "author"), *blocks[-1].canonical_etypes]
    assert all(block.num_edges(etype) for block in blocks for etype in block.canonical_etypes)
    assert all(block.srctypes == block.dsttypes == g.ntypes for block in blocks)
    rows = dgl.nn.HeteroGraphConv({e: dgl.nn.GraphConv(4, 2, norm="right") for e in ("writes", "cites")})(
        blocks[-1], {kind: torch.ones(blocks[-1].num_src_nodes(kind), 4) for kind in blocks[-1].srctypes}
    )
    assert list(rows) == ["paper"]


def test_a_frontier_without_any_edge_has_all_relations(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    dist, none = opened(folder), torch.empty(0, dtype=torch.int64)
    found = sample_neighbors(dist, none if g.is_homogeneous else {"venue": torch.tensor([0])}, 2)
    assert (found.canonical_etypes, found.num_edges()) == (g.canonical_etypes, 0)


def test_frontiers_with_other_relations_are_merged(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    if g.is_homogeneous:
        return
    dist = opened(folder)
    parts = [in_subgraph(dist, {kind: torch.arange(20)}) for kind in ("author", "paper")]
    assert parts[0].canonical_etypes != parts[1].canonical_etypes
    both = dgl.merge(parts)
    for etype in both.canonical_etypes:
        wanted = torch.cat([part.edges[etype].data[dgl.EID] for part in parts if etype in part.canonical_etypes])
        assert torch.equal(both.edges[etype].data[dgl.EID], wanted)


def test_edges_are_those_of_the_whole_graph(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    dist = opened(folder)
    etype = max(g.canonical_etypes, key=g.num_edges)
    ids: Any = torch.arange(0, g.num_edges(etype), 7)
    ids = ids if g.is_homogeneous else {etype: ids}
    how = {"exclude": "self", "negative_sampler": dgl.dataloading.negative_sampler.Uniform(2), "batch_size": 6, "shuffle": True}
    whole = EdgeDataLoader(g, ids, NeighborSampler([3, 3]), **how)
    parts = DistEdgeDataLoader(dist, ids, NeighborSampler([3, 3]), **how)
    found = [content(batch) for batch in parts]
    assert found == [content(batch) for batch in whole]
    assert len(found) == len(parts) == -(-len(range(0, g.num_edges(etype), 7)) // 6)


def test_neighbours_are_those_of_the_whole_graph(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    dist, seeds = opened(folder), seeds_of(g)
    fanout = {etype: number for number, etype in enumerate(g.canonical_etypes)}
    for ours, theirs in (
        (in_subgraph(dist, seeds), dgl.in_subgraph(g, seeds)),
        (sample_neighbors(dist, seeds, 2), dgl.sampling.sample_neighbors(g, seeds, 2)),
        (sample_etype_neighbors(dist, seeds, fanout), dgl.sampling.sample_neighbors(g, seeds, fanout)),
        (dist.sample_neighbors(seeds, 3, replace=True), dgl.sampling.sample_neighbors(g, seeds, 3, replace=True)),
    ):
        assert content(ours) == content(theirs)
    out = torch.arange(40)
    left = sample_neighbors(dist, seeds, 2, exclude_edges=out if g.is_homogeneous else {g.canonical_etypes[0]: out})
    assert not torch.isin(left.edges[g.canonical_etypes[0]].data[dgl.EID], out).any()


@pytest.fixture
def graph(tmp_path: Path) -> DistGraph:
    partition_graph(plain_graph(), "it", 2, tmp_path, part_method="random")
    return opened(tmp_path)


@pytest.mark.parametrize("workers", [0, 2])
def test_items_come_in_a_defined_order(workers: int, graph: DistGraph) -> None:
    items = np.arange(10, 31)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    plain = DistDataLoader(items, 4, collate_fn=lambda ids: ids.tolist(), num_workers=workers)
    assert [*plain] == [[*range(low, min(low + 4, 31))] for low in range(10, 31, 4)]
    assert len(DistDataLoader(items, 4, drop_last=True)) == 5
    mixed = DistDataLoader(items, 4, shuffle=True, collate_fn=lambda ids: ids.tolist(), num_workers=workers)
    epochs = [[item for batch in mixed for item in batch] for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [items.tolist()] * 3
    assert all(one != other for one, other in pairwise(epochs))
    again = DistDataLoader(items, 4, shuffle=True, collate_fn=lambda ids: ids.tolist())
    assert [[item for batch in again for item in batch] for _ in range(3)] == epochs
    after = torch.get_rng_state(), np.random.get_state()[1], random.getstate()
    assert torch.equal(before[0], after[0])
    assert (before[1] == after[1]).all()
    assert before[2] == after[2]


def test_items_may_be_anything(graph: DistGraph) -> None:
    words = ["a", "b", "c", "d", "e"]
    assert [*DistDataLoader(words, 2, collate_fn="".join)] == ["ab", "cd", "e"]
    assert [*DistDataLoader(words, 2)] == [["a", "b"], ["c", "d"], ["e"]]


def test_an_error_of_a_users_function_comes_out_of_the_loader(graph: DistGraph) -> None:
    def fails(ids: Any) -> None:
        raise LookupError(f"no {ids.tolist()}")

    with pytest.raises(Exception, match="batch 0") as failure:
        next(iter(DistDataLoader(torch.arange(5), 2, collate_fn=fails)))
    assert isinstance(failure.value.__cause__, LookupError)


def test_the_guides_sampler_counts_from_the_seeds(graph: DistGraph) -> None:
    sampler = NeighborSampler(graph, [2, 5], sample_neighbors, torch.device("cpu"))
    loader = DistDataLoader(torch.arange(0, 60, 3).numpy(), 6, shuffle=True, collate_fn=sampler.sample_blocks)
    g = plain_graph()
    for inner, seeds in (blocks for blocks in loader):
        assert len(seeds.dstdata[dgl.NID]) in (2, 6)
        for block, fanout in ((seeds, 2), (inner, 5)):
            most = g.in_degrees(block.dstdata[dgl.NID]).clamp(max=fanout)
            assert torch.equal(block.in_degrees(), most)
        assert torch.equal(inner.dstdata[dgl.NID], seeds.srcdata[dgl.NID])


def test_collators_make_the_batches_of_loaders(graph: DistGraph) -> None:
    ids, sampler = torch.arange(7), NeighborSampler([3, 2])
    collator = NodeCollator(graph, ids, sampler)
    ours = [content(batch) for batch in DistDataLoader(collator.dataset, 3, collate_fn=collator.collate)]
    assert ours == [content(batch) for batch in DistNodeDataLoader(graph, ids, sampler, batch_size=3)]
    edges = EdgeCollator(graph, ids, sampler, exclude="self")
    ours = [content(batch) for batch in DistDataLoader(edges.dataset, 3, collate_fn=edges.collate)]
    assert ours == [content(batch) for batch in DistEdgeDataLoader(graph, ids, sampler, exclude="self", batch_size=3)]


def test_masks_are_divided(graph: DistGraph) -> None:
    g = plain_graph()
    wanted = g.ndata["train_mask"].nonzero().view(-1)
    for mask in (graph.ndata["train_mask"], g.ndata["train_mask"], g.ndata["train_mask"].numpy(), g.ndata["train_mask"].byte()):
        found = node_split(mask, graph.get_partition_book())
        assert torch.equal(found.sort().values, wanted)
    assert torch.equal(edge_split(torch.arange(240) % 5 == 0).sort().values, torch.arange(0, 240, 5))
    with pytest.raises((IdError, InputError)):
        node_split(torch.ones(61, dtype=torch.bool))
    with pytest.raises(InputError, match="rank=1"):
        node_split(g.ndata["train_mask"], rank=1)


def test_a_gpu_that_is_not_there_is_refused(graph: DistGraph) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(InputError, match="needs a GPU"):
        DistNodeDataLoader(graph, torch.arange(3), NeighborSampler([2]), device="cuda")


def batches_of_rank(rank: int, host: int, folders: list[Path], kind: str) -> dict[str, Any]:
    """What a rank's loaders give, of given nodes and of those that it is dealt."""
    dgl.distributed.initialize("ip_config.txt")
    dist = opened(folders[host])
    name = dist.ntypes[-2] if kind == "typed" else "_N"
    given = torch.arange(rank, dist.num_nodes(name), dist.world.size)
    loader = DistNodeDataLoader(dist, {name: given}, Two(2), batch_size=5, shuffle=True)
    batches = [content(batch) for _ in range(2) for batch in loader]
    book = dist.get_partition_book()
    even = node_split(dist.nodes[name].data["train_mask"], book, ntype=name)
    near = node_split(dist.nodes[name].data["train_mask"], book, ntype=name, force_even=False)
    share = float((book.nid2partid(near, name) == book.partid).float().mean())
    etype = dist.canonical_etypes[-1] if kind == "plain" else ("paper", "cites", "paper")
    edges = edge_split(torch.ones(dist.num_edges(etype), dtype=torch.bool), book, etype)
    dgl.distributed.exit_client()
    return {
        "batches": repr(batches),
        "even": even,
        "near": near,
        "share": share,
        "edges": edges,
        "workers": loader._loader.num_workers,
    }


@pytest.mark.full
@pytest.mark.parametrize(("kind", "size"), [("plain", 2), ("typed", 2)])
def test_ranks_make_the_same_batches_on_one_host_and_on_several(kind: str, size: int, tmp_path: Path) -> None:
    g = plain_graph() if kind == "plain" else typed_graph()
    partition_graph(g, "it", size, tmp_path / "parts", part_method="random")
    outs = [tmp_path / name for name in ("together", "apart")]
    for out in outs:
        out.mkdir()
    together = in_ranks(batches_of_rank, size, 1, outs[0], [tmp_path / "parts"], kind)
    apart = in_ranks(batches_of_rank, size, size, outs[1], folders_of_hosts(tmp_path / "parts", size), kind, DGL_NUM_SAMPLER="2")
    assert [rank["batches"] for rank in together] == [rank["batches"] for rank in apart]
    assert apart[0]["batches"] != apart[1]["batches"]
    assert [rank["workers"] for rank in apart] == [2] * size
    mask = g.nodes["_N" if kind == "plain" else "paper"].data["train_mask"]
    for ranks in (together, apart):
        for how in ("even", "near"):
            assert torch.equal(torch.cat([rank[how] for rank in ranks]).sort().values, mask.nonzero().view(-1))
        assert max(len(rank["even"]) for rank in ranks) - min(len(rank["even"]) for rank in ranks) <= 1
        assert [rank["share"] for rank in ranks] == [1.0] * size
        edges = torch.cat([rank["edges"] for rank in ranks])
        assert torch.equal(edges.sort().values, torch.arange(len(edges)))
