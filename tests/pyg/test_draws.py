"""Questions in the user's ids: answered alike wherever the graph lies, and as the hops of `NeighborLoader` are."""

from contextlib import ExitStack

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.errors import HalohopError, IdError, InputError, SchemaError
from halohop.nn import hop_of, hops
from halohop.pyg.convert import tables_from_pyg
from halohop.records import Draws, Edges
from halohop.sampling.known_ids import KnownIdsOfThreads
from halohop.testing import graphs
from halohop.testing.worlds import TOKEN, free_addresses, hosts, partitioned

pytestmark = pytest.mark.xdist_group("draws")  # one process makes the fixtures of the module

CITES, WRITES, BY = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "by", "author")


def plain(edges=400, nodes=60):
    """Some nodes have no edges, some pairs have several."""
    torch.manual_seed(2)
    ends = torch.stack([torch.randint(nodes // 2, (edges,)), torch.randint(nodes - 9, (edges,))])
    return Data(edge_index=ends, num_nodes=nodes, x=torch.randn(nodes, 3), weight=torch.rand(edges) * (torch.arange(edges) % 3))


def typed():
    torch.manual_seed(3)
    data = HeteroData()
    data["paper"].x, data["author"].x, data["none"].num_nodes = torch.arange(50.0), torch.randn(20, 2), 0
    for relation, (num_src, num_dst) in {CITES: (50, 50), WRITES: (20, 50), BY: (50, 20)}.items():
        data[relation].edge_index = torch.stack([torch.randint(num_src, (150,)), torch.randint(num_dst, (150,))])
        data[relation].weight = torch.rand(150)
    data["none", "is", "paper"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    return data


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """Each graph in memory, in four partitions, on two hosts, and on servers that sample or do not."""
    with ExitStack() as stack:
        found = {}
        for name, data in {"plain": plain(), "typed": typed()}.items():
            folder = tmp_path_factory.mktemp(name) / "parts"
            halohop.partition(data, folder, num_parts=4, method="random", halo=("raw_id",))
            addresses = free_addresses(2)
            for address, share in zip(addresses, ([0], [1, 2, 3]), strict=True):
                others = [other for other in addresses if other != address]
                stack.enter_context(halohop.serve(folder, partitions=share, listen=address, peers=others, token=TOKEN))
            found[name] = {
                "memory": halohop.graph(data),
                "four": stack.enter_context(halohop.open(folder)),
                "shards": partitioned(tables_from_pyg(data), 5, shard_each=True, halo=("raw_id",)),
                "hosts": stack.enter_context(hosts(folder, [[0, 2], [1, 3]]))[1],
                "servers": stack.enter_context(halohop.connect(addresses, token=TOKEN)),
            }
        yield found


PLACES = ("memory", "four", "shards", "hosts", "servers")
RULES = [
    {},
    {"replace": True},
    {"weight": "weight"},
    {"weight": "weight", "replace": True},
    {"method": "labor"},
]


def blocks(draws, seeds, fanouts, **rules):
    """A block for each hop, the innermost first: its hop, the ids of its sources, and those of its edges in the hop's order."""
    found, nodes = [], seeds
    for fanout in fanouts:
        edges = draws.neighbors(nodes, fanout, **rules)
        hop, nodes = hop_of(edges, nodes)
        found.append((hop, nodes, edges))
    return found


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("place", PLACES)
def test_call_k_draws_what_hop_k_draws(places, place, rules):
    """The law, of a graph of one type: ids of sources in order, edges, and positions."""
    graph, fanouts = places["plain"][place], [3, -1, 2]
    seeds = torch.tensor([4, 59, 0, 33, 21, 7])  # 59 has no edges
    named = {"weight_attr" if key == "weight" else key: value for key, value in rules.items()}
    loader = halohop.NeighborLoader(graph, fanouts, seeds, batch_size=2, expand="all", seed=5, shuffle=True, **named)
    for epoch in range(2):
        for index, batch in enumerate(loader):
            draws = Draws(graph, seed=5, epoch=epoch, batch=index)
            made = blocks(draws, batch.n_id[: batch.batch_size], fanouts, **rules)
            for (hop, n_id, edges), expected in zip(reversed(made), hops(batch, cumulative=False), strict=True):
                assert n_id.tolist() == batch.n_id[: expected.num_src].tolist()
                assert torch.equal(hop.src, expected.src)
                assert torch.equal(hop.begins, expected.begins)
                assert torch.equal(edges.edge_id[hop.edges], batch.e_id[expected.edges])
            assert draws.number == 3


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("place", PLACES)
def test_call_k_draws_what_hop_k_draws_of_several_types(places, place, rules):
    graph = places["typed"][place]
    fanouts = {CITES: [2, 3], WRITES: [-1, 2], BY: [3, 0], ("none", "is", "paper"): [1, 1]}
    named = {"weight_attr" if key == "weight" else key: value for key, value in rules.items()}
    batch = next(
        iter(halohop.NeighborLoader(graph, fanouts, ("paper", torch.arange(9, 30)), batch_size=21, expand="all", **named))
    )
    draws, nodes = Draws(graph), {"paper": torch.arange(9, 30)}
    for number, expected in enumerate(reversed(hops(batch, cumulative=False))):
        edges = draws.neighbors(nodes, {relation: of_hop[number] for relation, of_hop in fanouts.items()}, **rules)
        assert list(edges) == list(graph.schema.edges)
        found, nodes = hop_of(edges, nodes)
        for name, ids in nodes.items():
            assert ids.tolist() == batch[name].n_id[: len(ids)].tolist()
        for relation, hop in found.items():
            assert torch.equal(hop.src, expected[relation].src)
            assert torch.equal(hop.dst, expected[relation].dst)
            assert torch.equal(edges[relation].edge_id[hop.edges], batch[relation].e_id[expected[relation].edges])


def listed(edges):
    return [edges.src.tolist(), edges.dst.tolist(), edges.edge_id.tolist()]


@pytest.mark.parametrize("place", PLACES)
def test_answers_belong_to_the_nodes_in_their_order(places, place):
    """Edges of the input, grouped as asked; nodes asked twice, isolated ones, no nodes; ids of any width and stride."""
    graph, ends = places["plain"][place], plain().edge_index
    asked = torch.tensor([3, 59, 3, 17, 0, 3])
    edges = Draws(graph).neighbors(asked, 4)
    assert torch.equal(ends[:, edges.edge_id], torch.stack([edges.src, edges.dst]))
    degrees = torch.bincount(ends[1], minlength=60).clamp(max=4)
    assert edges.dst.tolist() == asked.repeat_interleave(degrees[asked]).tolist()
    assert {tensor.dtype for tensor in (edges.src, edges.dst, edges.edge_id)} == {torch.int64}
    own = [edges.edge_id[:4], edges.edge_id[4:8]]
    assert torch.equal(*own)
    for same in (asked.int(), asked.to(torch.uint8), torch.stack([asked, asked], dim=1)[:, 0]):
        assert listed(Draws(graph).neighbors(same, 4)) == listed(edges)
    assert listed(Draws(graph).neighbors(asked, 0)) == listed(Draws(graph).neighbors(asked[:0], 4)) == [[], [], []]
    assert listed(Draws(graph).neighbors(torch.tensor([]), 4)) == [[], [], []]
    assert listed(Draws(graph).neighbors(torch.tensor([59]), -1)) == [[], [], []]
    whole = Draws(graph, seed=9).neighbors(torch.arange(60))
    assert sorted(whole.edge_id.tolist()) == list(range(400))


@pytest.mark.parametrize("place", PLACES)
def test_edges_that_are_left_out_are_never_drawn(places, place):
    """By their ids, in any order and twice; others are drawn in their place, and a tensor that has changed counts anew."""
    graph, ends = places["plain"][place], plain().edge_index
    of_three = (ends[1] == 3).nonzero().view(-1)
    left_out = torch.cat([of_three[1:].flip(0), of_three[1:2], torch.tensor([399])])
    draws = Draws(graph)
    assert draws.neighbors(torch.tensor([3]), 5, excluded=left_out).edge_id.tolist() == of_three[:1].tolist()
    assert len(draws.neighbors(torch.tensor([3]), 2, excluded=left_out.int()).src) == 1
    left_out[:] = 399
    assert draws.neighbors(torch.tensor([3]), -1, excluded=left_out).num_edges == len(of_three)
    assert draws.neighbors(torch.tensor([3]), -1, excluded=torch.tensor([])).num_edges == len(of_three)
    two = places["typed"][place]
    found = Draws(two).neighbors({"paper": torch.arange(50)}, excluded={CITES: torch.arange(1, 150)})
    assert (found[CITES].edge_id.tolist(), len(found[WRITES].src)) == ([0], 150)


@pytest.mark.parametrize("place", PLACES)
def test_edges_and_rows_by_the_users_ids(places, place):
    graph, data = places["typed"][place], typed()
    draws, ids = Draws(graph), torch.tensor([7, 149, 0, 7])
    assert listed(draws.edges({WRITES: ids})[WRITES]) == [*data[WRITES].edge_index[:, ids].tolist(), ids.tolist()]
    found = draws.rows({"paper": (torch.tensor([9, 9, 3]), ["x"]), WRITES: (ids, ["weight"]), "author": (ids[2:3], ["x"])})
    assert found["paper"]["x"].tolist() == [9, 9, 3]
    assert torch.equal(found[WRITES]["weight"], data[WRITES].weight[ids])
    assert torch.equal(found["author"]["x"], data["author"].x[:1])
    assert draws.rows({}) == {}
    plain_draws, ends = Draws(places["plain"][place]), plain().edge_index
    assert listed(plain_draws.edges(ids)) == [*ends[:, ids].tolist(), ids.tolist()]
    pairs = torch.stack([torch.arange(60), torch.arange(60).flip(0)])
    expected = [bool((ends == pair[:, None]).all(0).any()) for pair in pairs.T]
    assert plain_draws.has_edges(*pairs).tolist() == expected
    assert draws.has_edges(ids[:0], ids[:0], CITES).tolist() == []


def test_nodes_at_random_are_the_same_everywhere_and_uniform(places):
    drawn = [Draws(graph, seed=1, epoch=2, batch=3).uniform(3000) for graph in places["plain"].values()]
    assert all(torch.equal(drawn[0], other) for other in drawn)
    expected = 3000 / 60
    assert float(((torch.bincount(drawn[0], minlength=60) - expected) ** 2 / expected).sum()) < 100  # 59 degrees of freedom
    draws = Draws(places["plain"]["memory"], seed=1, epoch=2, batch=3)
    assert [torch.equal(draws.uniform(3000), drawn[0]) for _ in range(2)] == [True, False]
    assert (
        draws.neighbors(torch.tensor([3]), 2).edge_id.tolist()
        == Draws(draws.graph, seed=1, epoch=2, batch=3).neighbors(torch.tensor([3]), 2).edge_id.tolist()
    )


def test_ids_with_gaps():
    """Ids need not go from 0 to n - 1, and may be large."""
    tables = graphs.power_law(40, 4, shuffled_ids=True)
    tables.nodes["node"].raw_id[:] = tables.nodes["node"].raw_id * 10**9 + 5
    graph = partitioned(tables, 3)
    _, raw = graph.select(None)
    assert set(Draws(graph).uniform(500).tolist()) <= set(raw.tolist())
    edges = Draws(graph).neighbors(raw)
    again = Draws(graph).neighbors(edges.src[:5])
    assert set(again.src.tolist()) <= set(raw.tolist())


def test_draws_of_one_thread_may_take_turns(places):
    """What one batch has met is not the other's."""
    graph = places["plain"]["four"]
    own, seeds = KnownIdsOfThreads(graph), torch.arange(20)
    first, second = (Draws(graph, batch=batch, known=own.mine()) for batch in range(2))
    for _ in range(3):
        for draws in (first, second):
            alone = Draws(graph, batch=draws.batch)
            alone.number = draws.number
            assert listed(draws.neighbors(seeds, 3)) == listed(alone.neighbors(seeds, 3))


def test_out_edges_lead_away(tmp_path):
    data = plain()
    halohop.partition(data, tmp_path / "parts", num_parts=3, method="random", edge_dir="out")
    graph = halohop.open(tmp_path / "parts")
    for source in (halohop.graph(data, edge_dir="out"), graph):
        edges = Draws(source).neighbors(torch.tensor([2, 5]), edge_dir="out")
        assert set(edges.src.tolist()) == {2, 5}
        assert torch.equal(data.edge_index[:, edges.edge_id], torch.stack([edges.src, edges.dst]))
        with pytest.raises(InputError, match="edge_dir='in', but this graph has the out-edges"):
            Draws(source).neighbors(torch.tensor([2]), edge_dir="in")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("name", "ask", "error", "message"),
    [
        ("plain", lambda draws: draws.neighbors(torch.tensor([3, 60])), IdError, "the first is 60"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([-1])), IdError, "the first is -1"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([[1]])), InputError, "one dimension"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([0.5])), InputError, "are no ids"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([True])), InputError, "are no ids"),
        ("plain", lambda draws: draws.neighbors([3]), InputError, "nodes is a list"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([3]), 2.5), InputError, "not a whole number"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([3]), -2), InputError, "fanout -2"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([3]), {CITES: 1}), SchemaError, "unknown relation"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([3]), 2, weight="no"), InputError, "no relation has weights 'no'"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([3]), 2, method="saint"), InputError, "neither 'neighbor' nor"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([3]), 2, edge_dir="up"), InputError, "neither 'in' nor 'out'"),
        ("plain", lambda draws: draws.neighbors(torch.tensor([3]), excluded=torch.tensor([400])), IdError, "first is 400"),
        ("plain", lambda draws: draws.edges(torch.tensor([-1])), IdError, "the first is -1"),
        ("plain", lambda draws: draws.rows({"node": (torch.tensor([60]), ["x"])}), IdError, "the first is 60"),
        ("plain", lambda draws: draws.rows({"node": (torch.tensor([6]), ["no"])}), HalohopError, "unknown column"),
        ("plain", lambda draws: draws.rows({"node": (torch.tensor([6]), "x")}), InputError, "give a list of names"),
        ("plain", lambda draws: draws.uniform(1.5), InputError, "count=1.5 is not a whole number"),
        ("plain", lambda draws: draws.uniform(-1), InputError, "-1 nodes"),
        ("plain", lambda draws: draws.has_edges(torch.tensor([1]), torch.tensor([1, 2])), InputError, "1 sources and 2"),
        ("typed", lambda draws: draws.neighbors(torch.tensor([3])), SchemaError, "several node types"),
        ("typed", lambda draws: draws.neighbors({"venue": torch.tensor([3])}), SchemaError, "unknown node type 'venue'"),
        ("typed", lambda draws: draws.neighbors({"none": torch.tensor([0])}), IdError, "the first is 0"),
        ("typed", lambda draws: draws.edges(torch.tensor([3])), SchemaError, "4 relations; name those"),
        ("typed", lambda draws: draws.uniform(1, "none"), InputError, "of the 0 nodes of 'none'"),
    ],
)
def test_refused_by_name_and_nothing_is_lost(places, place, name, ask, error, message):
    draws = Draws(places[name][place], seed=3)
    with pytest.raises(error, match=message):
        ask(draws)
    assert draws.number == 0
    if name == "plain":
        expected = Draws(places[name]["memory"], seed=3).neighbors(torch.arange(9), 2)
        assert listed(draws.neighbors(torch.arange(9), 2)) == listed(expected)


def test_what_is_no_graph_or_number_is_refused(places):
    with pytest.raises(InputError, match="graph is a Data; give a graph"):
        Draws(plain())
    with pytest.raises(InputError, match=r"batch=0\.5 is not a whole number"):
        Draws(places["plain"]["memory"], batch=0.5)
    draws = Draws(places["plain"]["memory"], seed=np.int64(3), epoch=torch.tensor(1), batch=np.uint8(2))
    expected = Draws(places["plain"]["memory"], seed=3, epoch=1, batch=2).neighbors(torch.arange(50), 2)
    assert listed(draws.neighbors(torch.arange(50), np.int64(2))) == listed(expected)


def test_the_weight_of_edges_is_that_of_their_tensors():
    one = torch.arange(3)
    assert Edges(src=one, dst=one, edge_id=one).num_bytes == 72
