"""Access probabilities: exact on trees, close to the frequencies of real batches elsewhere, the same wherever the graph lies."""

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop.access.lists import read_lists
from halohop.cluster.graph import in_memory
from halohop.errors import InputError, SchemaError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.graphs import power_law, ring, star, typed
from halohop.testing.worlds import partitioned
from halohop.typing import EDGE, NODE

pytestmark = pytest.mark.xdist_group("vip")  # one process makes the fixtures of the module

RELATIONS = {("user", "buys", "item"): 300, ("item", "of", "user"): 250, ("user", "knows", "user"): 200}
TYPED = typed({"user": 60, "item": 50}, RELATIONS)


def frequencies(graph, seeds, fanouts, *, batch_size, epochs, **options):
    """In which share of a loader's batches each node is, by raw order."""
    loader = halohop.NeighborLoader(graph, fanouts, seeds, batch_size=batch_size, shuffle=True, run="inline", **options)
    raw = {name: graph.select(None, name)[1] for name in graph.schema.nodes}
    counts = {name: torch.zeros(len(ids)) for name, ids in raw.items()}
    for _ in range(epochs):
        for batch in loader:
            stores = {NODE: batch} if graph.schema.is_homogeneous else {name: batch[name] for name in raw}
            for name, store in stores.items():
                counts[name][torch.searchsorted(raw[name], store.n_id.unique())] += 1
    return {name: count / (epochs * len(loader)) for name, count in counts.items()}


def test_star_is_exact():
    graph = in_memory(star(10))
    found = halohop.placement.hotness(graph, torch.tensor([0]), [4], batch_size=1)[NODE]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor([1.0] + [0.4] * 10))
    found = halohop.placement.hotness(graph, torch.tensor([0]), [2], batch_size=1, replace=True)[NODE]
    torch.testing.assert_close(found, torch.tensor([1.0] + [1 - 0.9**2] * 10))


def test_path_of_two_hops_is_exact():
    """2 -> 1 -> 0 and 3 -> 1: a batch of one of two seeds, 0 or 2."""
    path = Data(edge_index=torch.tensor([[1, 2, 3], [0, 1, 1]]), num_nodes=4)
    found = halohop.placement.hotness(path, torch.tensor([0, 2]), [1, 1], batch_size=1)[NODE]
    torch.testing.assert_close(found, torch.tensor([0.5, 0.5, 0.5 + 0.5 * 0.5 * 0.5, 0.25]))


def test_each_node_is_expanded_once():
    """Of 0 <-> 1 with 2 -> 0: the seed 0 is drawn again by 1 and not expanded again, so 2 is drawn in the first hop or never."""
    graph = Data(edge_index=torch.tensor([[1, 2, 0], [0, 0, 1]]), num_nodes=3)
    found = halohop.placement.hotness(graph, torch.tensor([0]), [1, 1, 1], batch_size=1)[NODE]
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5, 0.5]))


@pytest.mark.parametrize("options", [{}, {"replace": True}, {"weight_attr": "weight"}], ids=str)
def test_close_to_the_frequencies_of_batches(options):
    graph = in_memory(power_law(400, 6, seed=1, shuffled_ids=True))
    found = halohop.placement.hotness(graph, "train", [4, 3], batch_size=16, **options)[NODE]
    seen = frequencies(graph, "train", [4, 3], batch_size=16, epochs=20, **options)[NODE]
    assert (found - seen).abs().mean() < 0.015
    assert torch.corrcoef(torch.stack([found, seen]))[0, 1] > 0.98
    assert abs(found.sum() / seen.sum() - 1) < 0.03


def test_typed_graph_with_fanouts_per_relation():
    graph = in_memory(TYPED)
    fanouts = dict(zip(RELATIONS, ([3, 2], [2, 2], [2, 0]), strict=True))
    found = halohop.placement.hotness(graph, ("user", "train"), fanouts, batch_size=4)
    seen = frequencies(graph, ("user", "train"), fanouts, batch_size=4, epochs=25)
    for name, probabilities in found.items():
        assert (probabilities - seen[name]).abs().mean() < 0.03
        assert torch.corrcoef(torch.stack([probabilities, seen[name]]))[0, 1] > 0.95


def test_out_lists():
    tables = GraphTables(
        nodes={NODE: NodeTable(num_nodes=3)},
        edges={EDGE: EdgeTable(src=torch.tensor([0, 0]), dst=torch.tensor([1, 2]))},
    )
    found = halohop.placement.hotness(in_memory(tables, edge_dir="out"), torch.tensor([0]), [1], batch_size=1)[NODE]
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5, 0.5]))


@pytest.mark.parametrize("method", ["vip", "presample", "degree"])
def test_the_same_for_any_partitions(method):
    options = {"batch_size": 8, "method": method, "weight_attr": "weight"}
    whole = halohop.placement.hotness(in_memory(TYPED), ("user", "train"), [3, 2], **options)
    for shard_each in (False, True):
        graph = partitioned(TYPED, 3, shard_each=shard_each)
        for name, found in halohop.placement.hotness(graph, ("user", "train"), [3, 2], **options).items():
            assert found.shape == (TYPED.nodes[name].num_nodes,)
            torch.testing.assert_close(found, whole[name])


@pytest.mark.parametrize("method", ["vip", "presample"])
def test_owner_dealing_is_hotness_of_the_owners_seeds(method):
    graph = partitioned(power_law(300, 5, seed=2, shuffled_ids=True), 3)
    found = halohop.placement.hotness(graph, "train", [3], batch_size=8, locality="owner", method=method, epochs=30)[NODE]
    assert found.shape == (3, 300)
    gid, raw = graph.select("train")
    for part, (low, high) in enumerate(zip(graph.book.nodes[NODE][:-1], graph.book.nodes[NODE][1:], strict=True)):
        own = raw[(gid >= low) & (gid < high)]
        alone = halohop.placement.hotness(graph, own, [3], batch_size=8)[NODE]
        torch.testing.assert_close(found[part], alone, rtol=0, atol=0.2 if method == "presample" else 1e-6)


def test_presample_counts_batches():
    graph = in_memory(ring(12))
    found = halohop.placement.hotness(graph, torch.arange(4), [-1], batch_size=4, method="presample", epochs=3)[NODE]
    assert found.nonzero().view(-1).tolist() == [0, 1, 2, 3, 10, 11]
    assert found.unique().tolist() == [0, 1]
    found = halohop.placement.hotness(graph, torch.arange(4), [0], batch_size=1, method="presample", epochs=3)[NODE]
    assert found[:4].tolist() == [0.25] * 4


def test_degree_counts_lists():
    found = halohop.placement.hotness(in_memory(star(5, outward=True)), None, [2], batch_size=1, method="degree")[NODE]
    assert found.tolist() == [1, 0, 0, 0, 0, 0]


def test_no_seeds_need_no_nodes():
    graph = in_memory(ring(6))
    for method in ("vip", "presample"):
        none = torch.empty(0, dtype=torch.int64)
        assert not halohop.placement.hotness(graph, none, [2], batch_size=2, method=method)[NODE].any()


def test_lists_come_in_pieces_and_in_order():
    graph = partitioned(power_law(200, 8, seed=3), 2, shard_each=True)
    gid = torch.arange(200)
    (whole,) = read_lists(graph, EDGE, gid)
    pieces = list(read_lists(graph, EDGE, gid, edges_at_once=50))
    assert len(pieces) > 10
    assert torch.equal(torch.cat([piece.gid for piece in pieces]), gid)
    for name in ("counts", "src_gid", "edge_gid"):
        assert torch.equal(torch.cat([getattr(piece.answer, name) for piece in pieces]), getattr(whole.answer, name))


def test_what_cannot_be_is_refused():
    graph = in_memory(ring(6))
    for options, message in [
        ({"method": "guess"}, "method='guess'"),
        ({"locality": "near"}, "locality='near'"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"method": "presample", "epochs": 0}, "epochs=0"),
        ({"weight_attr": "w"}, "no relation has weights 'w'"),
    ]:
        with pytest.raises(InputError, match=message):
            halohop.placement.hotness(graph, "train", [2], **{"batch_size": 2, **options})
    with pytest.raises(SchemaError, match="no split 'tarin'"):
        halohop.placement.hotness(graph, "tarin", [2], batch_size=2)


@pytest.fixture(scope="module")
def in_blocks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks") / "parts"
    halohop.partition(power_law(400, 6, seed=4), folder, num_parts=2, method="metis")
    return folder


def test_batches_of_blocks(in_blocks):
    """The hotness of a partition is the mean of those of its blocks, by the number of their batches."""
    with halohop.open(in_blocks) as graph:
        found = halohop.placement.hotness(graph, "train", [3, 2], batch_size=4, locality="blocks")[NODE]
        gid, raw = graph.select("train")
        owner, block = graph.owners_of(NODE, gid), graph.blocks_of(NODE, gid).long()
        for part in range(2):
            mean = torch.zeros(400)
            for number in block[owner == part].unique():
                seeds = raw[block == number]
                alone = halohop.placement.hotness(graph, seeds, [3, 2], batch_size=4)[NODE]
                mean += alone * len(seeds) / int((owner == part).sum())
            torch.testing.assert_close(found[part], mean)


def test_batches_of_blocks_are_as_a_loader_makes_them(in_blocks):
    with halohop.open(in_blocks) as graph:
        found = halohop.placement.hotness(graph, "train", [3, 2], batch_size=4, locality="blocks")[NODE].mean(0)
        seen = frequencies(graph, "train", [3, 2], batch_size=4, epochs=8, locality="blocks")[NODE]
    assert torch.corrcoef(torch.stack([found, seen]))[0, 1] > 0.95


def test_blocks_need_blocks():
    with pytest.raises(InputError, match="no blocks"):
        halohop.placement.hotness(partitioned(ring(8), 2), "train", [2], batch_size=2, locality="blocks")
