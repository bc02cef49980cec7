"""Loaders by DGL's names: the same batches whoever makes them, and what each holds."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
import halohop.dgl as dgl
from halohop.dgl.dataloading import (
    BlockSampler,
    DataLoader,
    LaborSampler,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    NodeDataLoader,
    Sampler,
)
from halohop.errors import IdError, InputError, SchemaError
from halohop.nn import relabeling
from tests.support.dgl_batches import NODES, described, epochs, plain, typed
from tests.support.forked import forkserver


class OwnBlocks(BlockSampler):
    """Document 002's class: neighbours by `sample_frontier`."""

    def __init__(self, fanouts):
        super().__init__(len(fanouts), return_eids=False)
        self.fanouts = fanouts

    def sample_frontier(self, layer_id, g, seed_nodes):
        fanout = self.fanouts[layer_id]
        return dgl.sampling.sample_neighbors(g, seed_nodes, fanout)


class Own21(BlockSampler):
    """What DGL 2.1's guide shows: blocks by hand."""

    def __init__(self, fanouts, **kwargs):
        super().__init__(**kwargs)
        self.fanouts = fanouts

    def sample_blocks(self, g, seed_nodes, exclude_eids=None):
        output_nodes, blocks = seed_nodes, []
        for fanout in reversed(self.fanouts):
            frontier = g.sample_neighbors(seed_nodes, fanout, exclude_edges=exclude_eids)
            block = dgl.to_block(frontier, seed_nodes)
            for relation in frontier.canonical_etypes:
                block.edges[relation].data[dgl.EID] = frontier.edges[relation].data[dgl.EID]
            seed_nodes = block.srcdata[dgl.NID]
            blocks.insert(0, block)
        return seed_nodes, output_nodes, blocks


class Joined(BlockSampler):
    """Several draws joined: in-edges of few nodes, neighbours of all, twice, without edges of even ids."""

    def sample_frontier(self, layer_id, g, seed_nodes):
        first, second = (dgl.sampling.sample_neighbors(g, seed_nodes, fanout) for fanout in (2, 3))
        some = {kind: ids[:3] for kind, ids in seed_nodes.items()} if isinstance(seed_nodes, dict) else seed_nodes[:3]
        whole = dgl.merge([first, second, dgl.in_subgraph(g, some)])
        for relation in whole.canonical_etypes:
            even = (whole.edges[relation].data[dgl.EID] % 2 == 0).nonzero().view(-1)
            whole = dgl.remove_edges(whole, even, etype=relation)
        return whole


def in_parts(g, folder, parts):
    """The graph divided, and opened."""
    dgl.distributed.partition_graph(g, "graph", parts, folder, part_method="random")
    return dgl.distributed.DistGraph("graph", part_config=f"{folder}/graph.json")


GRAPHS = {"plain": (plain, torch.arange(NODES)), "typed": (typed, {"user": torch.arange(35)})}
FANOUTS = {"plain": [4, 3, 2], "typed": [4, {"follows": 2, "likes": 1, "liked": 3}, 2]}


@pytest.mark.parametrize("kind", ["plain", "typed"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_own_samplers_make_the_batches_of_the_built_in_one(kind, dtype):
    """The fast way (views of halohop's batches) and two general ways, over two epochs of shuffled seeds."""
    made, seeds = GRAPHS[kind]
    g, how = made(dtype=dtype), {"batch_size": 7, "shuffle": True, "ddp_seed": 5}
    built_in = epochs(DataLoader(g, seeds, NeighborSampler(FANOUTS[kind]), **how))
    assert built_in[0] != built_in[1]
    assert epochs(NodeDataLoader(g, seeds, OwnBlocks(FANOUTS[kind]), **how)) == built_in
    assert epochs(DataLoader(g, seeds, Own21(FANOUTS[kind]), **how)) == built_in


@pytest.mark.parametrize("sampler", ["built-in", "joined"])
@pytest.mark.parametrize("kind", ["plain", "typed"])
def test_batches_are_the_same_for_any_workers_and_partitions(kind, sampler, tmp_path):
    made, seeds = GRAPHS[kind]
    g, how = made(), {"batch_size": 9, "shuffle": True, "drop_last": True}
    makes = NeighborSampler([3, 4]) if sampler == "built-in" else Joined(2)
    expected = epochs(DataLoader(g, seeds, makes, num_workers=0, **how), 1)
    assert epochs(DataLoader(g, seeds, makes, num_workers=2, **how), 1) == expected
    assert epochs(DataLoader(g, seeds, makes, num_workers=2, run="processes", **how), 1) == expected
    try:
        assert epochs(DataLoader(in_parts(g, tmp_path, 3), seeds, makes, **how), 1) == expected
    finally:
        dgl.distributed.exit_client()


def test_several_types_of_seeds_are_shuffled_together():
    g = typed()
    loader = DataLoader(
        g, {"user": torch.arange(10), "item": torch.arange(7)}, NeighborSampler([2, 2]), batch_size=4, shuffle=True
    )
    met = {"user": [], "item": []}
    assert len(loader) == 5
    for input_nodes, output_nodes, blocks in loader:
        assert 0 < sum(map(len, output_nodes.values())) <= 4
        for kind, ids in output_nodes.items():
            met[kind] += ids.tolist()
            assert blocks[-1].dstnodes[kind].data[dgl.NID].tolist() == ids.tolist()
        assert described(input_nodes) == described(blocks[0].srcdata[dgl.NID])
    assert sorted(met["user"]) == list(range(10))
    assert sorted(met["item"]) == list(range(7))


def test_columns_are_read_when_they_are_asked_for_unless_they_are_prefetched():
    g = plain()
    names = {"prefetch_node_feats": ["feat"], "prefetch_labels": ["label"], "prefetch_edge_feats": ["weight"]}
    seeds = torch.arange(20)
    for sampler in (NeighborSampler([3, 2], **names), Own21([3, 2], **names)):
        for more in ({"num_workers": 0}, {"num_workers": 2, "run": "processes"}):
            for input_nodes, output_nodes, blocks in DataLoader(g, seeds, sampler, batch_size=8, **more):
                first, last = blocks[0]._own, blocks[-1]._own
                assert set(first.src["_N"]._own) == {"_ID", "feat"}
                assert set(last.dst["_N"]._own) == {"_ID", "label"}
                assert all(set(block.edges["_E"].data.data._own) == {"_ID", "weight"} for block in blocks)
                assert torch.equal(blocks[0].srcdata["feat"], g.ndata["feat"][input_nodes])
                assert torch.equal(blocks[-1].dstdata["label"], g.ndata["label"][output_nodes])
                assert torch.equal(blocks[0].edata["weight"], g.edata["weight"][blocks[0].edata[dgl.EID]])
                assert torch.equal(blocks[1].srcdata["feat"], g.ndata["feat"][blocks[1].srcdata[dgl.NID]])
    with pytest.raises(SchemaError, match="have no 'x'"):
        next(iter(DataLoader(g, seeds, NeighborSampler([1], prefetch_node_feats=["x"]), num_workers=0)))


def test_columns_of_several_types():
    g = typed()
    sampler = NeighborSampler([3, 2], prefetch_node_feats={"user": ["feat"]}, prefetch_edge_feats={"likes": ["stars"]})
    for _, _, blocks in DataLoader(g, {"item": torch.arange(9)}, sampler, batch_size=4, num_workers=0):
        assert "feat" in blocks[0]._own.src["user"]._own
        assert "feat" not in blocks[0]._own.src["item"]._own
        for block in blocks:
            ids = block.edges["likes"].data[dgl.EID]
            assert torch.equal(block.edges["likes"].data["stars"], ids)
    with pytest.raises(SchemaError, match="'cat'"):
        next(iter(DataLoader(g, {"item": [0]}, NeighborSampler([1], prefetch_node_feats={"cat": ["feat"]}), num_workers=0)))


def test_partitions_have_the_columns_too(tmp_path):
    g = plain()
    divided = in_parts(g, tmp_path, 2)
    try:
        sampler = NeighborSampler([3, 2], prefetch_node_feats=["feat"], prefetch_labels=["label"])
        for input_nodes, output_nodes, blocks in DataLoader(divided, torch.arange(30), sampler, batch_size=8):
            assert torch.equal(blocks[0].srcdata["feat"], g.ndata["feat"][input_nodes])
            assert torch.equal(blocks[-1].dstdata["label"], g.ndata["label"][output_nodes])
    finally:
        dgl.distributed.exit_client()


def test_random_numbers_of_others_are_left_alone():
    g = plain()
    torch.manual_seed(3)
    before = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()
    for sampler in (NeighborSampler([3, 2]), OwnBlocks([3, 2])):
        first = epochs(DataLoader(g, torch.arange(30), sampler, batch_size=8, shuffle=True))
        torch.manual_seed(3)
        assert epochs(DataLoader(g, torch.arange(30), sampler, batch_size=8, shuffle=True)) == first
        assert epochs(DataLoader(g, torch.arange(30), sampler, batch_size=8, shuffle=True, ddp_seed=1)) != first
    dgl.sampling.sample_neighbors(g, [1, 2], 2)
    assert (torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()) == before


def test_ranks_share_the_seeds_of_each_epoch():
    g, seeds = plain(), torch.arange(NODES)
    for sampler in (NeighborSampler([3, 2]), OwnBlocks([3, 2])):
        alone = DataLoader(g, seeds, sampler, batch_size=8, shuffle=True)
        ranks = [
            DataLoader(g, seeds, sampler, batch_size=8, shuffle=True, world=halohop.World(rank=rank, size=2)) for rank in (0, 1)
        ]
        for _ in range(2):
            met = [[output.tolist() for _, output, _ in loader] for loader in ranks]
            assert len(met[0]) == len(met[1])
            assert {seed for of_rank in met for batch in of_rank for seed in batch} == set(range(NODES))
        assert len(alone) == 8


def test_weights_and_masks_are_drawn_by():
    g = plain()
    g.edata["few"] = torch.arange(500) % 5 == 0
    for sampler in (
        NeighborSampler([-1, 2], mask="few"),
        NeighborSampler([3, 3], prob="few"),
        MultiLayerNeighborSampler([2], prob="few"),
    ):
        for _, _, blocks in DataLoader(g, torch.arange(40), sampler, batch_size=10, num_workers=0):
            assert all((block.edata[dgl.EID] % 5 == 0).all() for block in blocks)

    class Same(NeighborSampler):
        pass

    how = {"batch_size": 9, "num_workers": 0}
    weighted = [DataLoader(g, torch.arange(40), made([3, 3], prob="weight"), **how) for made in (NeighborSampler, Same)]
    assert epochs(weighted[0]) == epochs(weighted[1])
    assert epochs(weighted[0], 1) != epochs(DataLoader(g, torch.arange(40), NeighborSampler([3, 3]), **how), 1)
    with pytest.raises(InputError, match="both given"):
        NeighborSampler([1], prob="weight", mask="few")
    with pytest.raises(InputError, match="no edges have 'heavy'"):
        DataLoader(g, [0], NeighborSampler([1], prob="heavy"))


def test_other_samplers_of_neighbours():
    g, seeds = plain(), torch.arange(40)
    for _, _, blocks in DataLoader(g, seeds, MultiLayerFullNeighborSampler(2), batch_size=9):
        for block in blocks:
            assert torch.equal(block.in_degrees(), g.in_degrees(block.dstdata[dgl.NID]))

    class Same(LaborSampler):
        pass

    labor = [epochs(DataLoader(g, seeds, made([3, 3]), batch_size=20)) for made in (LaborSampler, Same)]
    assert labor[0] == labor[1]
    sizes = [
        [len(batch[0][1]) for batch in epoch]
        for epoch in (labor[0][0], epochs(DataLoader(g, seeds, NeighborSampler([3, 3]), batch_size=20))[0])
    ]
    assert sum(sizes[0]) < sum(sizes[1])
    with pytest.raises(InputError, match="importance_sampling of LaborSampler"):
        LaborSampler([1], importance_sampling=1)
    for _, _, blocks in DataLoader(g, seeds, NeighborSampler([4], replace=True), batch_size=9):
        degrees = g.in_degrees(blocks[0].dstdata[dgl.NID])
        assert torch.equal(blocks[0].in_degrees(), torch.where(degrees > 0, 4, 0))


def test_document_003_names_its_graph_and_counts_from_the_seeds():
    g, seeds = plain(), np.arange(12)
    sampler = NeighborSampler(g, [2, 5], dgl.sampling.sample_neighbors, "cpu")
    blocks = sampler.sample_blocks(seeds)
    assert blocks[-1].dstdata[dgl.NID].tolist() == seeds.tolist()
    assert int(blocks[-1].in_degrees().max()) == 2
    assert int(blocks[0].in_degrees().max()) == 5
    assert torch.equal(blocks[0].edata[dgl.EID] < 500, torch.ones(blocks[0].num_edges(), dtype=torch.bool))


class Ends(Sampler):
    """What `sample` returns is the batch."""

    def sample(self, g, indices):
        return {"seeds": indices, "sub": dgl.in_subgraph(g, indices).num_edges()}


def test_a_sampler_may_return_anything():
    g = plain()
    met = [(batch["seeds"].tolist(), batch["sub"]) for batch in DataLoader(g, torch.arange(10), Ends(), batch_size=4)]
    assert [seeds for seeds, _ in met] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [edges for _, edges in met] == [int(g.in_degrees(torch.tensor(seeds)).sum()) for seeds, _ in met]


class Astray(BlockSampler):
    def sample_frontier(self, layer_id, g, seed_nodes):
        return dgl.sampling.sample_neighbors(g, torch.arange(NODES), 1)


def test_bad_input_is_refused_by_name():
    g = plain()
    with pytest.raises(InputError, match="edge"):
        next(iter(DataLoader(g, [0, 1], Astray(1))))
    with pytest.raises(IdError, match="60"):
        DataLoader(g, [0, 60], NeighborSampler([1]))
    with pytest.raises(IdError, match="60"):
        next(iter(DataLoader(g, [0, 60], OwnBlocks([1]), batch_size=2)))
    with pytest.raises(SchemaError, match="without a type"):
        DataLoader(typed(), [0], NeighborSampler([1]))
    with pytest.raises(SchemaError, match="'cat'"):
        DataLoader(typed(), {"cat": [0]}, NeighborSampler([1]))
    with pytest.raises(InputError, match="use_uva needs a GPU"):
        DataLoader(g, [0], NeighborSampler([1]), use_uva=True)
    with pytest.raises(InputError, match="needs a GPU"):
        DataLoader(g, [0], NeighborSampler([1]), device="cuda:0")
    with pytest.raises(TypeError, match="colour"):
        DataLoader(g, [0], NeighborSampler([1]), colour=1)
    with pytest.raises(InputError, match="num_layers"):
        next(iter(DataLoader(g, [0], Joined())))
    with pytest.raises(InputError, match="edge_dir='out'"):
        NeighborSampler([1], edge_dir="out")
    with pytest.raises(InputError, match="twice"):
        next(iter(DataLoader(g, [3, 3], OwnBlocks([1]), batch_size=2)))


def test_loaders_go_on_where_they_stood():
    g = plain()
    for sampler in (NeighborSampler([3, 2]), OwnBlocks([3, 2])):
        first, second = (DataLoader(g, torch.arange(30), sampler, batch_size=8, shuffle=True) for _ in range(2))
        batches = iter(first)
        next(batches)
        second.load_state_dict(first.state_dict())
        assert [described(batch) for batch in second] == [described(batch) for batch in batches]
        assert first.batch_size == 8


class Twice(Sampler):
    """Draws from two graphs with the same edges."""

    def __init__(self, other):
        self.other = other

    def sample(self, g, indices):
        return [dgl.sampling.sample_neighbors(graph, indices, 2).edata[dgl.EID] for graph in (g, self.other)]


def test_graphs_within_a_batch_have_random_numbers_of_their_own():
    g = plain()
    loaders = [DataLoader(g, torch.arange(NODES), Twice(plain()), batch_size=30, num_workers=workers) for workers in (0, 2)]
    first, second = (epochs(loader) for loader in loaders)
    assert first == second
    assert all(one != other for epoch in first for one, other in epoch)


def _output_nodes_of_a_rank(rank: int, rendezvous: str, out: Any) -> None:
    """Begins a rank as DGL's tutorial on several GPUs does: in a process of its own, without a launcher's environment."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    g = dgl.graph(([0, 1, 2], [1, 2, 3]), num_nodes=31)
    loader = DataLoader(g, torch.arange(31), dgl.dataloading.NeighborSampler([2]), batch_size=4, shuffle=True, use_ddp=True)
    out.put([[ids.tolist() for _, ids, _ in loader] for _ in range(2)])
    torch.distributed.destroy_process_group()


def test_use_ddp_divides_the_ids_among_the_ranks_of_a_process_group(tmp_path: Path) -> None:
    context = forkserver()
    out = context.Queue()
    ranks = [context.Process(target=_output_nodes_of_a_rank, args=(rank, str(tmp_path / "meet"), out)) for rank in range(2)]
    for process in ranks:
        process.start()
    first, second = (out.get(timeout=60) for _ in ranks)
    for process in ranks:
        process.join()
    for mine, theirs in zip(first, second, strict=True):
        assert len(mine) == len(theirs) == 4
        assert {node for batch in (*mine, *theirs) for node in batch} == set(range(31))
    assert first[0] != first[1]


def test_what_the_sampler_knows_of_a_frontier_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lists of drawn edges begin is known by the tensors that were drawn: they must come to the block as they are."""

    class Frontiers(dgl.dataloading.BlockSampler):
        def sample_frontier(self, block_id: int, g: dgl.DGLGraph, seed_nodes: torch.Tensor) -> dgl.DGLGraph:
            return dgl.sampling.sample_neighbors(g, seed_nodes, 3)

    def looked_for(*_: Any) -> None:
        raise AssertionError("where edges lead was looked for")

    monkeypatch.setattr(relabeling, "_checked", looked_for)
    ends = torch.randint(40, (2, 300), generator=torch.Generator().manual_seed(0))
    loader = DataLoader(dgl.graph(tuple(ends), num_nodes=40), torch.arange(40), Frontiers(2), batch_size=8, num_workers=0)
    assert len(list(loader)) == 5


@pytest.mark.parametrize("option", [{"use_uva": True}, {"gpu_cache": {"feat": 10}}], ids=str)
def test_what_a_gpu_would_draw_or_keep_is_said_to_be_the_hosts(option, monkeypatch):
    from halohop.dgl.notes import note

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    note.cache_clear()
    with pytest.warns(UserWarning, match=f"{next(iter(option))} changes nothing here: .*halohop.graph"):
        loader = DataLoader(plain(), torch.arange(8), NeighborSampler([2]), batch_size=4, num_workers=0, **option)
    assert len(list(loader)) == 2
