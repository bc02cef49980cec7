"""Padded batches: one shape for all, the same answers as without, and one compilation."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GAT, GCN, GraphSAGE, HeteroConv, SAGEConv, SimpleConv
from torch_geometric.sampler import NegativeSampling
from torch_geometric.utils import trim_to_layer

from halohop import (
    GraphSAINTNodeSampler,
    GraphSAINTRandomWalkSampler,
    HGTLoader,
    LinkNeighborLoader,
    NeighborLoader,
    PPRLoader,
    SubGraphLoader,
    World,
    partition,
)
from halohop.errors import InputError, SchemaError
from halohop.pyg.convert import tables_from_pyg
from halohop.records import Padding
from halohop.testing.worlds import hosts, partitioned

WRITES = ("author", "writes", "paper")


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    src = torch.randint(300, (2000,))
    return Data(
        x=torch.randn(300, 8),
        half=torch.randn(300, 3).bfloat16(),
        y=torch.randint(4, (300,)),
        seen=torch.rand(300) > 0.5,
        edge_index=torch.stack([src, (src + torch.randint(1, 40, (2000,)) ** 2) % 300]),
        edge_attr=torch.randn(2000, 2),
        when=torch.randint(100, (2000,)),
    )


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.randn(60, 4), torch.randn(40, 4)
    data["paper"].y, data["venue"].x = torch.randint(3, (60,)), torch.randn(5, 4)
    data[WRITES].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["paper", "rev_writes", "author"].edge_index = data[WRITES].edge_index.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    data["venue", "of", "paper"].edge_index = torch.stack([torch.randint(5, (30,)), torch.randint(60, (30,))])
    data["paper", "rev_of", "venue"].edge_index = data["venue", "of", "paper"].edge_index.flip(0)
    return data


def shapes(batch: Data | HeteroData) -> dict:
    """Everything that a compiler looks at."""
    told = {}
    for store in batch.stores:
        for key, value in store.items():
            told[store._key, key] = (value.shape, value.dtype) if isinstance(value, torch.Tensor) else value
    return told


def unpadded(batch: Data | HeteroData) -> Data | HeteroData:
    """The batch without its empty places, as an unpadded loader gives it (but for numbers by hop)."""
    out = batch.clone()
    new = {}
    for store in out.node_stores:
        mask = store.node_mask
        new[store._key] = torch.cumsum(mask, 0) - 1
        for key in [key for key in store if store.is_node_attr(key) and key != "node_mask"]:
            store[key] = store[key][mask]
    for store in out.edge_stores:
        mask, ends = store.edge_mask, (store._key or (None, None, None))[::2]
        for row, end in zip(store.edge_index, ends, strict=True):
            row[mask] = new[end][row[mask]]
        for key in [key for key in store if key != "edge_mask" and store.is_edge_attr(key)]:
            store[key] = store[key][:, mask] if key == "edge_index" else store[key][mask]
    return out


OPTIONS = [
    {},
    {"disjoint": True},
    {"replace": True},
    {"expand": "all"},
    {"subgraph_type": "induced"},
    {"subgraph_type": "bidirectional"},
    {"time_attr": "when"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("pad", ["bound", "measured", Padding(slack=1.0, batches=1)], ids=["bound", "measured", "tight"])
def test_empty_places_are_all_that_is_added(data, options, pad):
    options = options | ({"input_time": torch.arange(250) % 90} if "time_attr" in options else {})
    plan = partial(NeighborLoader, data, [5, 3], torch.arange(250), batch_size=32, shuffle=True, seed=2, **options)
    seen = set()
    loader = plan(pad=pad)
    for plain, batch in zip(plan(), loader, strict=True):
        seen.add(str(shapes(batch)))
        assert batch.batch_size == 32
        assert batch.seed_mask.sum() == plain.batch_size
        assert torch.equal(batch.input_id[batch.seed_mask], plain.input_id)
        assert (batch.input_id[~batch.seed_mask] == -1).all()
        assert torch.equal(batch.n_id[:32], torch.where(batch.seed_mask, batch.input_id, -1))
        empty = ~batch.node_mask
        assert (batch.n_id[empty] == -1).all()
        assert (batch.x[empty] == 0).all()
        assert (batch.half[empty] == 0).all()
        assert (batch.y[empty] == -100).all()
        assert not batch.seen[empty].any()
        assert (batch.e_id[~batch.edge_mask] == -1).all()
        assert empty[batch.edge_index[:, ~batch.edge_mask]].all()
        if "batch" in batch:
            assert (batch.batch[empty] == 32).all()
        if "num_sampled_edges" in batch:
            assert sum(batch.num_sampled_nodes) == batch.num_nodes
            assert sum(batch.num_sampled_edges) == batch.num_edges
        real = unpadded(batch)
        for key in ("x", "half", "y", "seen", "n_id", "edge_index", "e_id", "edge_attr", "batch"):
            if key in plain:
                assert torch.equal(real[key], plain[key]), key
    over = loader.statistics()["batches_over_caps"]
    assert len(seen) == 1 if not over else 1 < len(seen) <= 1 + over
    assert pad != "bound" or not over


@pytest.mark.parametrize("net", [GraphSAGE, GAT, GCN, partial(GraphSAGE, aggr="max"), partial(GraphSAGE, aggr="sum")])
def test_models_answer_as_without(data, net):
    torch.manual_seed(0)
    model = net(8, 16, 2, 4).eval()
    plan = partial(NeighborLoader, data, [5, 3], torch.arange(250), batch_size=32)
    for plain, batch in zip(plan(), plan(pad="measured"), strict=True):
        expected = model(plain.x, plain.edge_index)[: plain.batch_size]
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(out[batch.seed_mask], expected)
        loss, other = F.cross_entropy(out, batch.y[: batch.batch_size]), F.cross_entropy(expected, plain.y[: plain.batch_size])
        torch.testing.assert_close(loss, other)
        if net is not GCN:  # its weights count edges that trimming takes away
            hops = {"num_sampled_nodes_per_hop": batch.num_sampled_nodes, "num_sampled_edges_per_hop": batch.num_sampled_edges}
            trimmed = model(batch.x, batch.edge_index, **hops)[: batch.batch_size]
            torch.testing.assert_close(trimmed[batch.seed_mask], expected)


@pytest.mark.parametrize("aggr", ["mean", "sum", "max", "min"])
def test_sums_are_bit_for_bit_those_of_the_plain_batch(data, aggr):
    plan = partial(NeighborLoader, data, [5, 3], batch_size=32)
    for plain, batch in zip(plan(), plan(pad="measured"), strict=True):
        conv = SimpleConv(aggr)
        out = conv(batch.x, batch.edge_index)
        assert torch.equal(out[batch.node_mask], conv(plain.x, plain.edge_index))


@pytest.mark.parametrize("pad", ["bound", "measured"])
@pytest.mark.parametrize("disjoint", [False, True])
def test_several_types(hetero, pad, disjoint):
    torch.manual_seed(0)
    convs = [HeteroConv({relation: SAGEConv(4, 4) for relation in hetero.edge_types}) for _ in range(2)]
    plan = partial(NeighborLoader, hetero, [3, 2], ("paper", torch.arange(50)), batch_size=16, disjoint=disjoint)
    seen = set()
    for plain, batch in zip(plan(), plan(pad=pad), strict=True):
        seen.add(str(shapes(batch)))
        whole, trimmed, edges = plain.x_dict, batch.x_dict, batch.edge_index_dict
        for layer, conv in enumerate(convs):
            whole = conv(whole, plain.edge_index_dict)
            hops = batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict
            trimmed, edges, _ = trim_to_layer(layer, *hops, trimmed, edges)
            trimmed = conv(trimmed, edges)
        out = trimmed["paper"][: batch["paper"].batch_size][batch["paper"].seed_mask]
        torch.testing.assert_close(out, whole["paper"][: plain["paper"].batch_size])
        for relation in hetero.edge_types:
            assert torch.equal(batch[relation].e_id[batch[relation].edge_mask], plain[relation].e_id)
    assert len(seen) == 1


@pytest.mark.parametrize("mode", [None, "binary", NegativeSampling("binary", 1.5), NegativeSampling("triplet", 2), "triplet"])
@pytest.mark.parametrize("pad", ["bound", "measured"])
def test_links(data, hetero, mode, pad):
    for graph, edges, names in ((data, data.edge_index[:, :90], (None, None)), (hetero, (WRITES, None), WRITES[::2])):
        options = {"neg_sampling": mode, "batch_size": 40, "disjoint": True}
        if mode is None and graph is data:
            options["edge_label"] = torch.arange(90)
        seen = set()
        plan = partial(LinkNeighborLoader, graph, [3, 2], edges, **options)
        for plain, batch in zip(plan(), plan(pad=pad), strict=True):
            seen.add(str(shapes(batch)))
            (src, dst, link), (was_src, was_dst, was) = (
                (one, one, one) if names[0] is None else (one[names[0]], one[names[1]], one[WRITES]) for one in (batch, plain)
            )
            assert torch.equal(link.input_id[link.seed_mask], was.input_id)
            if "src_index" in src:
                pairs = ((src, was_src, "src_index"), (dst, was_dst, "dst_pos_index"), (dst, was_dst, "dst_neg_index"))
                for store, before, key in pairs:
                    assert torch.equal(store.n_id[store[key][link.seed_mask]], before.n_id[before[key]])
                    assert (store.n_id[store[key][~link.seed_mask]] == -1).all()
                continue
            for store, before, row in ((src, was_src, 0), (dst, was_dst, 1)):
                ends = link.edge_label_index[row]
                assert torch.equal(store.n_id[ends[link.edge_label_mask]], before.n_id[was.edge_label_index[row]])
                assert (store.n_id[ends[~link.edge_label_mask]] == -1).all()
            if "edge_label" in was:
                assert torch.equal(link.edge_label[link.edge_label_mask], was.edge_label)
        assert len(seen) == 1


def test_bidirectional_edges_of_several_types(hetero):
    data = hetero.clone()
    data[WRITES].weight, data["paper", "rev_writes", "author"].weight = torch.rand(150), torch.rand(150)
    plan = partial(NeighborLoader, data, [3, 2], "paper", batch_size=16, subgraph_type="bidirectional")
    for plain, batch in zip(plan(), plan(pad="bound"), strict=True):
        for store, before in zip(batch.edge_stores, plain.edge_stores, strict=True):
            for key in {"e_id", "e_flipped", "weight"} & set(before):
                assert torch.equal(store[key][store.edge_mask], before[key])
                assert (store[key][~store.edge_mask] == (-1 if key == "e_id" else 0)).all()


def test_where_the_graph_lies_makes_no_difference(data, tmp_path):
    def epoch(graph, **options) -> list[dict]:
        loader = NeighborLoader(graph, [5, 3], torch.arange(250), batch_size=32, shuffle=True, pad="measured", **options)
        return [batch.to_dict() for batch in loader]

    def same(one, other) -> None:
        for got, expected in zip(one, other, strict=True):
            assert got.keys() == expected.keys()
            for key, value in expected.items():
                assert torch.equal(got[key], value) if isinstance(value, torch.Tensor) else got[key] == value, key

    expected = epoch(data)
    for options in ({"run": "inline"}, {"run": "processes", "num_workers": 2}):
        same(epoch(data, **options), expected)
    for num_parts, shard_each in ((2, False), (3, True), (8, True)):
        same(epoch(partitioned(tables_from_pyg(data), num_parts, shard_each=shard_each)), expected)
    partition(data, tmp_path / "parts", num_parts=3)
    with hosts(tmp_path / "parts", [[0, 1], [2]]) as graphs:
        for graph in graphs:
            same(epoch(graph), expected)


def test_what_exceeds_its_places_gets_more(data):
    """Nothing is lost, and the number of shapes stays small."""
    pad = Padding(nodes=[32, 4, 4], edges=[10, 10])
    plan = partial(NeighborLoader, data, [5, 3], batch_size=32, num_workers=2)
    loader = plan(pad=pad)
    for plain, batch in zip(plan(), loader, strict=True):
        assert torch.equal(batch.n_id[batch.node_mask], plain.n_id)
        assert torch.equal(batch.e_id[batch.edge_mask], plain.e_id)
        assert batch.num_nodes < 2.5 * plain.num_nodes
    assert loader.statistics()["batches_over_caps"] == len(loader)


@pytest.mark.parametrize("pad", ["bound", "measured"])
@pytest.mark.parametrize("hops", [[], [2], [-1, 0]], ids=str)
def test_small_graphs(pad, hops):
    """One node; no edges; a seed that occurs many times."""
    lonely = Data(x=torch.ones(1, 4), edge_index=torch.empty((2, 0), dtype=torch.int64))
    (batch,) = NeighborLoader(lonely, hops, batch_size=3, pad=pad)
    assert batch.node_mask.tolist() == [True] + [False] * (batch.num_nodes - 1)
    assert len(batch.num_sampled_edges) == len(hops)
    ring = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    seeds = torch.zeros(8, dtype=torch.int64)
    for disjoint in (False, True):
        plan = partial(NeighborLoader, ring, hops, seeds, batch_size=5, disjoint=disjoint)
        for plain, batch in zip(plan(), plan(pad=pad), strict=True):
            assert torch.equal(batch.n_id[batch.node_mask], plain.n_id)
            assert torch.equal(batch.e_id[batch.edge_mask], plain.e_id)


def test_ranks_have_the_same_shapes(data):
    """Or each rank would compile its own, and wait for the others."""
    told = set()
    for rank in range(3):
        world = World(rank=rank, size=3, local_rank=rank, local_size=3)
        for batch in NeighborLoader(data, [5, 3], batch_size=20, shuffle=True, world=world, pad="measured"):
            told.add(str(shapes(batch)))
    assert len(told) == 1


def test_transforms(data):
    def seeds_only(output):
        edges = (output.row < output.num_sampled_nodes[0]) & (output.col < output.num_sampled_nodes[0])
        output.node = output.node[: output.num_sampled_nodes[0]]
        output.row, output.col, output.edge = output.row[edges], output.col[edges], output.edge[edges]
        return output

    plan = partial(
        NeighborLoader, data, [5, 3], torch.arange(250), batch_size=32, transform_sampler_output=seeds_only, transform=Data.clone
    )
    seen = set()
    for plain, batch in zip(plan(), plan(pad="measured"), strict=True):
        seen.add(str(shapes(batch)))
        real = unpadded(batch)
        assert torch.equal(real.edge_index, plain.edge_index)
        assert torch.equal(batch.n_id[: batch.batch_size][batch.seed_mask], plain.n_id)
    assert len(seen) == 1


@pytest.mark.parametrize("mode", ["binary", ("triplet", 2)])
def test_ends_among_rearranged_nodes(data, mode):
    """Where nodes are not in the order of hops, the first places are kept for ends that are nowhere in particular."""

    def backwards(output):
        output.node, last = output.node.flip(0), len(output.node) - 1
        output.row, output.col, output.num_sampled_nodes = last - output.row, last - output.col, None
        return output

    plan = partial(LinkNeighborLoader, data, [3, 2], neg_sampling=mode, batch_size=40, transform_sampler_output=backwards)
    for _, plain, batch in zip(range(4), plan(), plan(pad="measured"), strict=False):
        for key in {"edge_label_index", "src_index", "dst_pos_index", "dst_neg_index"} & set(plain.keys()):
            assert torch.equal(batch.n_id[batch[key]], plain.n_id[plain[key]])
        assert torch.equal(batch.n_id[batch.edge_index[:, batch.edge_mask]], plain.n_id[plain.edge_index])


def test_other_loaders(data, hetero):
    plan = partial(SubGraphLoader, data, [4], batch_size=32)
    for plain, batch in zip(plan(), plan(pad="measured"), strict=True):
        assert torch.equal(batch.n_id[batch.mapping][batch.seed_mask], plain.n_id[plain.mapping])
    plan = partial(HGTLoader, hetero, [6, 4], "paper", batch_size=10)
    seen = set()
    for plain, batch in zip(plan(), plan(pad="measured"), strict=True):
        seen.add(str(shapes(batch)))
        assert torch.equal(batch["author"].n_id[batch["author"].node_mask], plain["author"].n_id)
    assert len(seen) == 1
    with pytest.raises(InputError, match="use 'measured'"):
        plan(pad="bound")
    plan = partial(PPRLoader, data, 5, torch.arange(70), batch_size=20)
    seen = set()
    for plain, batch in zip(plan(), plan(pad="measured"), strict=True):
        seen.add(str(shapes(batch)))
        assert torch.equal(batch.ppr[batch.node_mask], plain.ppr)
        assert torch.equal(batch.n_id[batch.node_mask], plain.n_id)
    assert len(seen) == 1
    torch.manual_seed(0)
    plan = partial(GraphSAINTNodeSampler, data, 20, num_steps=6)  # node sets: no seeds that say how many nodes there may be
    with pytest.raises(InputError, match="use 'measured'"):
        plan(pad="bound")
    seen = set()
    for plain, batch in zip(plan(), plan(pad="measured"), strict=True):
        seen.add(str(shapes(batch)))
        assert torch.equal(batch.n_id[batch.node_mask], plain.n_id)
    assert len(seen) == 1


def test_numbers_may_come_as_arrays(data):
    for numbers in (np.array([5, 9]), torch.tensor([5, 9])):
        (batch,) = NeighborLoader(data, [1], torch.arange(5), batch_size=5, pad=Padding(nodes=numbers))
        assert batch.num_sampled_nodes == [6, 9]


@pytest.mark.parametrize("num_edges", [200, 0])
def test_norms_of_empty_places_are_zero(data, num_edges):
    some = Data(edge_index=data.edge_index[:, :num_edges], num_nodes=data.num_nodes)
    plan = partial(GraphSAINTRandomWalkSampler, some, 5, 2, num_steps=3, sample_coverage=1, log=False)
    for plain, batch in zip(plan(), plan(pad=Padding(edges=[40])), strict=True):
        assert torch.equal(batch.node_norm[batch.node_mask], plain.node_norm)
        assert torch.equal(batch.edge_norm[batch.edge_mask], plain.edge_norm)
        assert not batch.node_norm[~batch.node_mask].any()
        assert not batch.edge_norm[~batch.edge_mask].any()


def test_fill(data):
    (batch,) = NeighborLoader(
        data, [1], torch.arange(5), batch_size=5, pad=Padding(fill={"x": 7.5, "half": 2, "y": -1, "seen": True})
    )
    empty = ~batch.node_mask
    assert (batch.x[empty] == 7.5).all()
    assert (batch.half[empty] == 2).all()
    assert (batch.y[empty] == -1).all()
    assert batch.seen[empty].all()
    assert empty.any()


@pytest.mark.parametrize(
    ("pad", "error", "message"),
    [
        ("tight", InputError, "neither 'measured' nor 'bound'"),
        (True, InputError, "nor a halohop.records.Padding"),
        (Padding(nodes=[1, 2]), InputError, "give 3 whole numbers"),
        (Padding(edges=[1, -2]), InputError, "give 2 whole numbers"),
        (Padding(nodes={"paper": [1, 2, 3]}), SchemaError, "unknown node type"),
        (Padding(nodes=3), InputError, "nodes=3 is no list"),
        (Padding(fill={"z": 1}), SchemaError, "to fill"),
        (Padding(fill={"y": float("nan")}), InputError, "'y' is of int64, and cannot be filled with nan"),
        (Padding(fill={"x": "zero"}), InputError, "cannot be filled with 'zero'"),
    ],
)
def test_paddings_that_cannot_be(data, pad, error, message):
    with pytest.raises(error, match=message):
        NeighborLoader(data, [1, 1], pad=pad)


def test_paddings_that_cannot_be_anywhere(data, hetero):
    for options in ({"slack": 0.5}, {"batches": 0}, {"batches": 2.5}):
        with pytest.raises(InputError, match="at least 1"):
            Padding(**options)
    with pytest.raises(InputError, match="give a dict"):
        NeighborLoader(hetero, [1], "paper", pad=Padding(nodes=[1, 2]))
    with pytest.raises(InputError, match="needs seeds"):
        NeighborLoader(data, [1], batch_sampler=[[1, 2]], pad="measured")


@pytest.mark.full
@pytest.mark.parametrize("trim", [False, True])
def test_one_compilation_is_enough(data, trim):
    """Twenty batches through a compiled model; without padding it is compiled again for each."""
    torch.manual_seed(0)

    def compilations(**options) -> int:
        torch._dynamo.reset()
        counter = CompileCounter()
        model = torch.compile(GraphSAGE(8, 16, 2, 4), backend=counter, dynamic=False)
        loader = NeighborLoader(data, [5, 3], batch_size=16, shuffle=True, **options)
        steps = 0
        while steps < 20:
            for batch in loader:
                hops = (
                    {
                        "num_sampled_nodes_per_hop": batch.num_sampled_nodes,
                        "num_sampled_edges_per_hop": batch.num_sampled_edges,
                    }
                    if trim
                    else {}
                )
                F.cross_entropy(model(batch.x, batch.edge_index, **hops)[: batch.batch_size], batch.y[: batch.batch_size])
                steps += 1
                if steps == 20:
                    break
        return counter.frame_count

    once = compilations(pad="bound")
    assert compilations(pad="measured") == once
    with torch._dynamo.config.patch(recompile_limit=100):
        assert compilations() >= 15 * once
    torch._dynamo.reset()
