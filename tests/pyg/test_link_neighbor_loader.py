"""halohop.LinkNeighborLoader: PyG's arguments, PyG's batches."""

import math

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import LinkLoader
from torch_geometric.sampler import EdgeSamplerInput, HeteroSamplerOutput

from halohop import HalohopSampler, LinkNeighborLoader, partition
from halohop.errors import IdError, InputError, SchemaError
from halohop.pyg.convert import tables_from_pyg
from halohop.testing.worlds import hosts, partitioned

WRITES = ("author", "writes", "paper")


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    return Data(
        x=torch.randn(200, 8),
        edge_index=torch.randint(200, (2, 1500)),
        edge_attr=torch.randn(1500, 3),
        seen=torch.randint(100, (200,)),
        when=torch.randint(100, (1500,)),
    )


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x = torch.randn(60, 4)
    data["author"].x = torch.randn(40, 6)
    data[WRITES].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["paper", "rev_writes", "author"].edge_index = data[WRITES].edge_index.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    return data


@pytest.mark.parametrize("disjoint", [False, True])
def test_seed_edges_are_found_in_the_batch(data, disjoint):
    index, labels = data.edge_index[:, 100:150], torch.arange(50)
    seen = []
    for batch in LinkNeighborLoader(data, [3, 2], index, labels, disjoint=disjoint, batch_size=16, shuffle=True):
        assert torch.equal(batch.n_id[batch.edge_label_index], index[:, batch.input_id])
        assert torch.equal(batch.edge_label, batch.input_id)
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert "batch_size" not in batch  # as in PyG, which counts edges
        if disjoint:
            assert torch.equal(batch.batch[batch.edge_label_index], torch.arange(len(batch.input_id)).expand(2, -1))
        else:
            assert len(torch.unique(batch.n_id)) == batch.num_nodes
        seen += batch.input_id.tolist()
    assert sorted(seen) == list(range(50))


def test_all_edges_of_a_graph(data, hetero):
    for graph in (data, partitioned(tables_from_pyg(data), 3, shard_each=True)):
        loader = LinkNeighborLoader(graph, [2], batch_size=1000)
        ends = torch.cat([batch.n_id[batch.edge_label_index] for batch in loader], dim=1)
        assert torch.equal(ends, data.edge_index)
        assert "edge_label" not in next(iter(loader))
    for named in (WRITES, ("author", "paper"), (WRITES, None)):
        batch = next(iter(LinkNeighborLoader(hetero, [2], named, batch_size=150)))
        src, dst = batch[WRITES].edge_label_index
        ends = torch.stack([batch["author"].n_id[src], batch["paper"].n_id[dst]])
        assert torch.equal(ends, hetero[WRITES].edge_index)
        assert batch["author"].num_sampled_nodes[0] == len(torch.unique(ends[0]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"edge_label_index": torch.zeros(3, 2, dtype=torch.int64)}, InputError, r"shape \(3, 2\), expected \[2, n\]"),
        ({"edge_label_index": torch.zeros(2, 2)}, InputError, "integers, got torch.float32"),
        ({"edge_label_index": [[object()], [1]]}, InputError, "cannot be read"),
        ({"edge_label_index": [[0], [200]]}, IdError, "first is 200"),
        ({"edge_label_index": ("a", "to", "b")}, SchemaError, "unknown relation"),
        ({"edge_label": torch.zeros(3)}, InputError, "edge_label has 3 entries for 1500"),
        ({"edge_label": torch.tensor(3)}, InputError, "edge_label has shape"),
        ({"edge_label_time": torch.zeros(1500)}, InputError, "need each other"),
        ({"time_attr": "when"}, InputError, "need each other"),
        ({"time_attr": "when", "edge_label_time": torch.zeros(3)}, InputError, "edge_label_time has 3 entries"),
        ({"input_id": torch.arange(4)}, InputError, "input_id has 4 entries"),
        ({"neighbor_sampler": object()}, InputError, "leave it out"),
        ({"subgraph_type": "partial"}, InputError, "'partial'"),
        ({"neg_sampling": "ternary"}, InputError, "'ternary' says nothing"),
        ({"neg_sampling": ("binary", -1)}, InputError, "needs to be positive"),
        ({"neg_sampling": ("triplet", 1.5)}, InputError, "needs to be an"),
        ({"neg_sampling": {"mood": "binary"}}, InputError, "unexpected keyword"),
        ({"neg_sampling": ("binary", float("inf"))}, InputError, "above 0"),
        ({"neg_sampling": "binary", "neg_sampling_ratio": 2}, InputError, "give one of them"),
        ({"neg_sampling": "triplet", "edge_label": torch.zeros(1500)}, InputError, "no place beside triplets"),
        ({"neg_sampling": {"mode": "binary", "src_weight": torch.ones(3)}}, InputError, "200 nodes"),
        ({"strict_negatives": True}, InputError, "set neg_sampling"),
        ({"reverse_relation": ("node", "to", "node")}, InputError, "set exclude_seed_edges=True"),
        ({"exclude_seed_edges": True, "reverse_relation": ("a", "b", "c")}, SchemaError, "unknown relation"),
    ],
)
def test_what_names_no_edges_is_refused(data, options, error, message):
    with pytest.raises(error, match=message):
        LinkNeighborLoader(data, [1], **options)


@pytest.mark.parametrize("amount", [0.5, 1, 2.7])
def test_binary_negatives_come_last(data, amount):
    labels = torch.arange(30)
    for label, dtype in ((None, torch.float32), (labels, torch.int64), (labels + 4, torch.int64)):
        loader = LinkNeighborLoader(
            data, [2], data.edge_index[:, :30], label, neg_sampling={"mode": "binary", "amount": amount}, batch_size=20
        )
        for batch in loader:
            num_pos, num_neg = len(batch.input_id), math.ceil(len(batch.input_id) * amount)
            assert batch.edge_label_index.shape == (2, num_pos + num_neg)
            positives = batch.n_id[batch.edge_label_index[:, :num_pos]]
            assert torch.equal(positives, data.edge_index[:, batch.input_id])
            assert batch.edge_label.dtype == dtype
            assert (batch.edge_label[num_pos:] == 0).all()
            raised = batch.input_id + (1 if label is labels else 4)
            assert torch.equal(batch.edge_label[:num_pos], torch.ones(num_pos) if label is None else raised)
    old = next(iter(LinkNeighborLoader(data, [2], neg_sampling_ratio=amount, batch_size=8)))
    new = next(iter(LinkNeighborLoader(data, [2], neg_sampling=("binary", amount), batch_size=8)))
    assert torch.equal(old.edge_label_index, new.edge_label_index)


@pytest.mark.parametrize("disjoint", [False, True])
def test_triplets(data, hetero, disjoint):
    for amount, shape in ((1, (8,)), (3, (8, 3))):
        options = {"neg_sampling": ("triplet", amount), "batch_size": 8, "disjoint": disjoint}
        batch = next(iter(LinkNeighborLoader(data, [2], **options)))
        assert torch.equal(batch.n_id[torch.stack([batch.src_index, batch.dst_pos_index])], data.edge_index[:, :8])
        assert batch.dst_neg_index.shape == shape
        assert "edge_label" not in batch
        assert "edge_label_index" not in batch
        if disjoint:
            assert torch.equal(batch.batch[batch.dst_neg_index].view(8, -1), torch.arange(8)[:, None].expand(8, amount))
        batch = next(iter(LinkNeighborLoader(hetero, [2], (WRITES, None), **options)))
        ends = batch["author"].n_id[batch["author"].src_index], batch["paper"].n_id[batch["paper"].dst_pos_index]
        assert torch.equal(torch.stack(ends), hetero[WRITES].edge_index[:, :8])
        assert batch["paper"].dst_neg_index.shape == shape


def test_times_of_triplets_lie_where_pyg_puts_them(hetero):
    hetero = hetero.clone()
    hetero[WRITES].when = hetero["paper", "rev_writes", "author"].when = torch.arange(150)
    options = {"time_attr": "when", "edge_label_time": torch.arange(150), "batch_size": 50, "neg_sampling": "triplet"}
    for batch in LinkNeighborLoader(hetero, [2], (WRITES, None), **options):
        for node_type in ("author", "paper"):
            assert torch.equal(batch[node_type].seed_time, batch[WRITES].input_id)
        assert "seed_time" not in batch[WRITES]
    del options["time_attr"], options["edge_label_time"]
    assert "seed_time" not in next(iter(LinkNeighborLoader(hetero, [2], (WRITES, None), **options)))["paper"]


@pytest.mark.parametrize("mode", ["binary", "triplet"])
def test_nothing_later_than_its_edge(data, mode):
    times = torch.arange(1500) % 60 + 40
    loader = LinkNeighborLoader(
        data, [4, 4], edge_label_time=times, time_attr="seen", neg_sampling=(mode, 2), batch_size=100, shuffle=True
    )
    for batch in loader:
        of_edges = times[batch.input_id]
        if mode == "triplet":
            assert torch.equal(batch.seed_time, of_edges)
            assert (batch.seen[batch.dst_neg_index] <= of_edges[:, None]).all()
        else:
            assert torch.equal(batch.edge_label_time, of_edges.repeat(3))
            assert (batch.seen[batch.edge_label_index[:, 100:]] <= of_edges.repeat(2)).all()
        src, dst = batch.edge_index
        assert (batch.seen[src] <= of_edges[batch.batch[src]]).all()
        assert torch.equal(batch.batch[src], batch.batch[dst])


def test_workers_make_the_same_batches(data):
    def epoch(**options):
        loader = LinkNeighborLoader(
            data,
            [3, 2],
            neg_sampling=("binary", 1.5),
            batch_size=128,
            shuffle=True,
            seed=3,
            strict_negatives=True,
            exclude_seed_edges=True,
            **options,
        )
        return [batch.to_dict() for batch in loader]

    reference = epoch(run="inline")
    for options in ({"num_workers": 3}, {"run": "processes", "num_workers": 2}):
        for got, expected in zip(epoch(**options), reference, strict=True):
            assert got.keys() == expected.keys()
            for key, value in expected.items():
                assert torch.equal(got[key], value) if isinstance(value, torch.Tensor) else got[key] == value


def test_seed_edges_and_their_reverses_are_not_sampled(hetero):
    loader = LinkNeighborLoader(hetero, [-1, -1], (WRITES, None), exclude_seed_edges=True, batch_size=20)
    for batch in loader:
        seeds = set(map(tuple, hetero[WRITES].edge_index[:, batch[WRITES].input_id].t().tolist()))
        for relation, turn in ((WRITES, False), (("paper", "rev_writes", "author"), True)):
            sampled = hetero[relation].edge_index[:, batch[relation].e_id]
            assert not seeds & set(map(tuple, (sampled.flip(0) if turn else sampled).t().tolist()))
        assert batch["paper", "cites", "paper"].num_edges > 0


def test_induced_subgraphs_have_all_edges_but_the_seeds(data):
    loader = LinkNeighborLoader(data, [2], exclude_seed_edges=True, subgraph_type="induced", batch_size=50)
    batch = next(iter(loader))
    inside = torch.isin(data.edge_index, batch.n_id).all(dim=0)
    sizes = torch.tensor([200, 1])
    seeds = data.edge_index[:, batch.input_id]
    predicted = torch.cat([sizes @ seeds, sizes @ seeds.flip(0)])
    expected = (inside & ~torch.isin(sizes @ data.edge_index, predicted)).nonzero().view(-1)
    assert torch.equal(batch.e_id.sort().values, expected)


@pytest.mark.parametrize("shard_each", [False, True])
def test_excluded_edges_do_not_come_back_as_flips(hetero, shard_each):
    """Neither of the partner of the seeds' relation, where the user names another reverse, nor of the partner of that one."""
    by, rev_by = ("paper", "by", "author"), ("author", "rev_by", "paper")
    data = hetero.clone()
    data[by].edge_index, data[rev_by].edge_index = data[WRITES].edge_index.flip(0), data[WRITES].edge_index
    graph = partitioned(tables_from_pyg(data), 3, shard_each=shard_each)
    options = {"subgraph_type": "bidirectional", "exclude_seed_edges": True, "batch_size": 20}
    for reverse in (None, by):
        excluded = {WRITES, ("paper", "rev_writes", "author")} | ({by, rev_by} if reverse else set())
        for batch in LinkNeighborLoader(graph, [-1, -1], (WRITES, None), reverse_relation=reverse, **options):
            seeds = set(map(tuple, data[WRITES].edge_index[:, batch[WRITES].input_id].t().tolist()))
            for relation, store in batch.edge_items():
                if relation in excluded:
                    ends = [batch[name].n_id[row] for name, row in zip(relation[::2], store.edge_index, strict=True)]
                    pairs = torch.stack(ends if relation[0] == "author" else ends[::-1])
                    assert store.num_edges > 0
                    assert not seeds & set(map(tuple, pairs.t().tolist()))


def test_flips_of_one_relation_are_not_excluded_edges(data):
    """Between nodes of one type flips stay in the relation, whatever reverse is named."""
    other = ("node", "other", "node")
    hetero = HeteroData({"node": {"x": data.x}, ("node", "to", "node"): {"edge_index": data.edge_index}})
    hetero[other].edge_index = data.edge_index[:, :5]
    loader = LinkNeighborLoader(
        hetero,
        [-1],
        (("node", "to", "node"), data.edge_index.flip(0)[:, :10]),  # not edges of the relation: their flips are
        subgraph_type="bidirectional",
        exclude_seed_edges=True,
        reverse_relation=other,
        batch_size=10,
    )
    batch = next(iter(loader))
    ends = batch["node"].n_id[batch["node", "to", "node"].edge_index]
    assert not set(map(tuple, data.edge_index.flip(0)[:, :10].t().tolist())) & set(map(tuple, ends.t().tolist()))


def backwards(output):
    """Turns the order of the nodes around; in PyG's record of either kind."""

    def turned(node, *ends):
        return (node.flip(0), *(len(node) - 1 - end for end in ends))

    if isinstance(output, HeteroSamplerOutput):
        for relation in output.row:
            output.row[relation] = len(output.node[relation[0]]) - 1 - output.row[relation]
            output.col[relation] = len(output.node[relation[2]]) - 1 - output.col[relation]
        output.node = {name: node.flip(0) for name, node in output.node.items()}
        output.batch = output.batch and {name: trees.flip(0) for name, trees in output.batch.items()}
        output.num_sampled_nodes = output.num_sampled_edges = None
        return output
    output.node, output.row, output.col = turned(output.node, output.row, output.col)
    output.batch = None if output.batch is None else output.batch.flip(0)
    output.num_sampled_nodes = None
    return output


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("mode", ["binary", ("triplet", 2)])
def test_ends_are_found_among_rearranged_nodes(data, hetero, disjoint, mode):
    options = {"neg_sampling": mode, "disjoint": disjoint, "batch_size": 40}
    for graph, edges, src_type, dst_type in ((data, None, None, None), (hetero, (WRITES, None), "author", "paper")):
        pair = (LinkNeighborLoader(graph, [3, 2], edges, transform_sampler_output=how, **options) for how in (None, backwards))
        for plain, moved in zip(*pair, strict=True):
            for batch in (plain, moved):
                src, dst, link = (batch, batch, batch) if src_type is None else (batch[src_type], batch[dst_type], batch[WRITES])
                batch.told = (
                    (src.n_id[src.src_index], dst.n_id[dst.dst_pos_index], dst.n_id[dst.dst_neg_index])
                    if mode != "binary"
                    else (src.n_id[link.edge_label_index[0]], dst.n_id[link.edge_label_index[1]])
                )
                if disjoint:
                    where = src.src_index if mode != "binary" else link.edge_label_index[0, : len(link.input_id)]
                    assert torch.equal(src.batch[where], torch.arange(len(where)))
            assert all(torch.equal(one, other) for one, other in zip(plain.told, moved.told, strict=True))


def test_ends_that_a_transform_drops_are_missed(data):
    def headless(output):
        output.node, output.row, output.col, output.edge = output.node[1:], *(output.row[:0],) * 2, output.edge[:0]
        output.batch = output.batch if output.batch is None else output.batch[1:]
        return output

    def treeless(output):
        output.batch = None
        return output

    for transform, disjoint, message in ((headless, False, "dropped 1 of the nodes"), (treeless, True, "dropped `batch`")):
        options = {"transform_sampler_output": transform, "disjoint": disjoint, "batch_size": 3}
        with pytest.raises(InputError, match=message):
            next(iter(LinkNeighborLoader(data, [1], torch.tensor([[5, 6, 7], [1, 2, 3]]), **options)))


@pytest.mark.parametrize("workers", [0, 2])
def test_pygs_link_loader_takes_our_sampler(data, hetero, workers):
    for mode in (None, "binary", ("triplet", 2)):
        options = {"neg_sampling": mode, "batch_size": 64, "num_workers": workers}
        for batch in LinkLoader(data, HalohopSampler(data, [3, 2]), data.edge_index[:, :100], **options):
            triplet = "src_index" in batch
            ends = torch.stack([batch.src_index, batch.dst_pos_index]) if triplet else batch.edge_label_index
            num_pos = len(batch.input_id)
            assert torch.equal(batch.n_id[ends[:, :num_pos]], data.edge_index[:, batch.input_id])
            assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
            if mode == "binary":
                assert batch.edge_label.tolist() == [1.0] * num_pos + [0.0] * num_pos
        for batch in LinkLoader(hetero, HalohopSampler(hetero, [3, 2]), (WRITES, None), **options):
            assert torch.equal(batch["paper"].x, hetero["paper"].x[batch["paper"].n_id])
    with pytest.raises(InputError, match="need each other"):
        HalohopSampler(data, [1]).sample_from_edges(EdgeSamplerInput(None, *data.edge_index[:, :2], time=torch.zeros(2)))


def test_a_graph_of_several_relations_wants_one(hetero):
    with pytest.raises(SchemaError, match="must name a relation"):
        LinkNeighborLoader(hetero, [1], hetero[WRITES].edge_index)
    with pytest.raises(SchemaError, match="unknown relation"):
        LinkNeighborLoader(hetero, [1], ("author", "reads", "paper"))


def test_two_hosts_give_the_batches_of_one(data, tmp_path):
    options = {
        "neg_sampling": ("binary", 2),
        "strict_negatives": True,
        "exclude_seed_edges": True,
        "batch_size": 64,
        "shuffle": True,
    }

    def ids(graph) -> list[list[list[int]]]:
        loader = LinkNeighborLoader(graph, [3, 2], **options)
        return [[batch.n_id.tolist(), batch.e_id.tolist(), *batch.edge_label_index.tolist()] for batch in loader]

    partition(data, tmp_path / "parts", num_parts=3)
    expected = ids(data)
    with hosts(tmp_path / "parts", [[0, 1], [2]]) as graphs:
        assert all(ids(graph) == expected for graph in graphs)
