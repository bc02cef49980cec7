"""Nodes and edges divided among ranks: each to one, most of them near, whatever names them."""

import pytest
import torch
from torch_geometric.data import Data

import halohop
from halohop import World
from halohop.errors import IdError, InputError, SchemaError
from halohop.testing import graphs
from halohop.testing.worlds import hosts, partitioned

WRITES = ("author", "writes", "paper")
TABLES = graphs.typed({"paper": 90, "author": 40, "none": 0}, {WRITES: 200, ("paper", "by", "author"): 0})


@pytest.fixture(scope="module")
def graph():
    return partitioned(TABLES, 5, shard_each=True)


def shares(graph, size, *args, **named):
    return [halohop.placement.share_near(graph, *args, world=World(rank=rank, size=size), **named) for rank in range(size)]


def all_of(found):
    return torch.cat([share.ids for share in found]).sort().values.tolist()


@pytest.mark.parametrize("size", [1, 3, 5, 8])
@pytest.mark.parametrize("even", [True, False])
def test_every_node_and_edge_goes_to_one_rank(graph, size, even):
    papers, authors = (graph.select(None, name)[1] for name in ("paper", "author"))
    some = torch.tensor([7, 3, 88, 41, 2, 9])
    mask = torch.zeros(200, dtype=torch.bool)
    mask[some] = True
    for ids, named, expected in (
        (None, {"node_type": "paper"}, papers.tolist()),
        (("paper", papers[some]), {}, papers[some].sort().values.tolist()),
        (("author", torch.arange(40) % 4 == 1), {}, authors[1::4].tolist()),
        (None, {"node_type": "none"}, ()),
        (torch.empty(0), {"node_type": "paper"}, ()),
        (None, {"relation": WRITES}, range(200)),
        (some, {"relation": WRITES}, sorted(some.tolist())),
        (mask, {"relation": WRITES}, sorted(some.tolist())),
        (None, {"relation": ("paper", "by", "author")}, ()),
    ):
        found = shares(graph, size, ids, even=even, **named)
        assert all_of(found) == list(expected)
        assert not even or max(len(share.ids) for share in found) - min(len(share.ids) for share in found) <= 1
        assert all(share.near == 1 for share in found)  # the process has all partitions


def test_stored_splits_have_names():
    tables = graphs.power_law(50, 3)
    tables.nodes["node"].columns["train_mask"] = torch.arange(50) % 3 == 0
    assert all_of(shares(partitioned(tables, 2), 2, "train")) == list(range(0, 50, 3))


def test_hosts_take_what_lies_on_them(tmp_path):
    ring = Data(edge_index=torch.stack([torch.arange(60), (torch.arange(60) + 1) % 60]), num_nodes=60)
    owner = torch.tensor([0] * 10 + [1] * 30 + [2] * 20)
    halohop.partition(ring, tmp_path / "parts", num_parts=3, method=owner)
    with hosts(tmp_path / "parts", [[1], [2, 0]]) as opened:
        assert [graph.parts_of_hosts for graph in opened] == [((1,), (0, 2))] * 2
        found = [halohop.placement.share_near(graph, world=World(rank=rank, size=2)) for rank, graph in enumerate(opened)]
        assert [share.ids.sort().values.tolist() for share in found] == [list(range(10, 40)), [*range(10), *range(40, 60)]]
        assert [share.near for share in found] == [1.0, 1.0]
        four = [
            halohop.placement.share_near(opened[rank // 2], torch.arange(15, 60), World(rank=rank, size=4)) for rank in range(4)
        ]
        assert all_of(four) == list(range(15, 60))
        assert [len(share.ids) for share in four] == [12, 11, 11, 11]
        assert [share.near for share in four] == [1.0, 1.0, 10 / 11, 10 / 11]
        edges = [
            halohop.placement.share_near(graph, None, World(rank=rank, size=2), relation=("node", "to", "node"), even=False)
            for rank, graph in enumerate(opened)
        ]
        assert edges[0].ids.sort().values.tolist() == list(range(9, 39))
        assert edges[0].near == edges[1].near == 1.0


@pytest.mark.parametrize(
    ("ids", "named", "error", "message"),
    [
        (None, {"node_type": "paper", "relation": WRITES}, InputError, "leave the other out"),
        (None, {}, SchemaError, "name a node type"),
        (None, {"node_type": "venue"}, SchemaError, "unknown node type"),
        (None, {"relation": ("a", "b", "c")}, SchemaError, "unknown relation"),
        (torch.tensor([200]), {"relation": WRITES}, IdError, "1 of 1 edge ids"),
        (torch.ones(3, dtype=torch.bool), {"relation": WRITES}, InputError, "the mask has 3 entries"),
        (torch.tensor([0.5]), {"relation": WRITES}, InputError, "are no ids"),
        ("dev", {"node_type": "paper"}, SchemaError, "no split 'dev'"),
    ],
)
def test_refused_by_name(graph, ids, named, error, message):
    with pytest.raises(error, match=message):
        halohop.placement.share_near(graph, ids, World(), **named)
