"""Edges in the user's ids as lists of a layer: destinations first, then sources as they first occur."""

import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

import halohop
from halohop.errors import HalohopError, InputError
from halohop.nn import hop_of, numbered
from halohop.records import Edges

CITES, WRITES, BY = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "by", "author")


def edges(src, dst, dtype=torch.int64):
    src, dst = torch.tensor(src, dtype=dtype), torch.tensor(dst, dtype=dtype)
    return Edges(src=src, dst=dst, edge_id=torch.arange(len(src)))


def slow(found, nodes):
    """The sources of each type, and per relation its edges by destination, as positions."""
    order = {name: list(ids) for name, ids in nodes.items()}
    lists = {}
    for relation, (src, dst) in found.items():
        known = order.setdefault(relation[0], [])
        order.setdefault(relation[2], [])
        for node in src:
            if node not in known:
                known.append(node)
        ends = [
            (nodes.get(relation[2], []).index(b), place, known.index(a))
            for place, (a, b) in enumerate(zip(src, dst, strict=True))
        ]
        lists[relation] = sorted(ends)
    return order, lists


IDS = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 2**24 - 1, 2**24, 2**40])


@st.composite
def layers(draw):
    """Some layers that follow one another, of three relations: edges lead to nodes of the layer, in any order."""
    nodes = {name: draw(st.lists(IDS, unique=True, max_size=5)) for name in ("paper", "author")}
    found = []
    for _ in range(draw(st.integers(1, 3))):
        layer = {}
        for relation in (CITES, WRITES, BY):
            targets = nodes.get(relation[2], [])
            pairs = draw(st.lists(st.tuples(IDS, st.sampled_from(targets)), max_size=8)) if targets else []
            if draw(st.booleans()):
                pairs.sort(key=lambda pair: targets.index(pair[1]))
            layer[relation] = ([a for a, _ in pairs], [b for _, b in pairs])
        found.append((dict(nodes), layer))
        nodes = slow(layer, nodes)[0]
    return found


@given(found=layers(), copied=st.booleans(), dtype=st.sampled_from([torch.int64, torch.int32]))
def test_layers_are_those_of_a_slow_twin(found, copied, dtype):
    """Also where a layer goes on with the very tensors of the one before, and where it gets copies of them."""
    if any(node >= 2**31 for nodes, layer in found for ids in (*nodes.values(), *sum(layer.values(), ())) for node in ids):
        dtype = torch.int64
    ids = {name: torch.tensor(nodes, dtype=dtype) for name, nodes in found[0][0].items()}
    for nodes, layer in found:
        if copied:
            ids = {name: tensor.clone() for name, tensor in ids.items()}
        hops, ids = hop_of({relation: edges(*ends, dtype) for relation, ends in layer.items()}, ids)
        order, lists = slow(layer, nodes)
        assert {name: tensor.tolist() for name, tensor in ids.items()} == order
        assert all(tensor.dtype == torch.int64 for tensor in ids.values())
        for relation, expected in lists.items():
            hop = hops[relation]
            assert (hop.num_src, hop.num_dst) == (len(order[relation[0]]), len(nodes.get(relation[2], [])))
            assert hop.src.tolist() == [source for _, _, source in expected]
            assert hop.dst.tolist() == [target for target, _, _ in expected]
            assert torch.arange(len(expected))[hop.edges].tolist() == [place for _, place, _ in expected]
            assert hop.begins.tolist() == [sum(target < place for target, _, _ in expected) for place in range(hop.num_dst + 1)]


def test_a_layer_goes_on_only_with_what_the_last_one_gave():
    """Another layer in between, another thread, or a change in place: the numbers begin anew."""
    _, ids = hop_of(edges([7, 8], [5, 5]), torch.tensor([5]))
    _, others = hop_of(edges([5], [9]), torch.tensor([9]))
    again, more = hop_of(edges([3], [8]), ids)
    assert (again.src.tolist(), more.tolist()) == ([3], [5, 7, 8, 3])
    more[0] = 6
    assert hop_of(edges([5], [6]), more)[1].tolist() == [6, 7, 8, 3, 5]
    found = []
    thread = threading.Thread(target=lambda: found.append(hop_of(edges([4], [9]), others)[1].tolist()))
    thread.start()
    thread.join()
    assert found == [[9, 5, 4]]


def test_no_nodes_and_no_edges():
    hop, ids = hop_of(edges([], []), torch.empty(0, dtype=torch.int64))
    assert (hop.num_src, hop.num_dst, hop.num_edges, ids.tolist()) == (0, 0, 0, [])
    assert hop.begins.tolist() == [0]
    hops, ids = hop_of({}, {"paper": torch.tensor([3])})
    assert (hops, ids["paper"].tolist()) == ({}, [3])


@pytest.mark.parametrize(
    ("src", "dst", "nodes", "message"),
    [
        ([1], [2], [3], "edge 0 of .* leads to node 2, which is none of the nodes"),
        ([1, 1], [3, 2**50], [3], f"edge 1 of .* leads to node {2**50}"),
        ([4, 1], [3, 4], [3], "edge 1 of .* leads to node 4"),
        ([], [], [3, 4, 3], "node 3 of 'node' is given twice"),
        ([-1], [3], [3], "-1"),
        ([1], [-3], [3], "-3"),
        ([1], [3], [-3], "-3"),
    ],
)
def test_refused_by_name_and_nothing_is_lost(src, dst, nodes, message):
    _, ids = hop_of(edges([7], [5]), torch.tensor([5]))
    with pytest.raises(HalohopError, match=message):
        hop_of(edges(src, dst), torch.tensor(nodes))
    assert hop_of(edges([8], [7]), ids)[1].tolist() == [5, 7, 8]


def test_of_one_relation_or_of_dicts():
    with pytest.raises(InputError, match="a dict"):
        hop_of(edges([1], [2]), {"node": torch.tensor([2])})
    with pytest.raises(InputError, match="a dict"):
        hop_of({CITES: edges([1], [2])}, torch.tensor([2]))


def test_nodes_of_edges_are_numbered_as_they_occur() -> None:
    a, b = ("u", "to", "v"), ("v", "to", "u")
    first = {a: (torch.tensor([7, 3, 7]), torch.tensor([0, 9, 0])), b: (torch.tensor([9]), torch.tensor([5]))}
    second = {a: (torch.tensor([5, 8]), torch.tensor([9, 2]))}
    ids, found = numbered(first, second, nodes={"v": torch.tensor([4, 9]), "w": torch.tensor([1])})
    assert {name: some.tolist() for name, some in ids.items()} == {"v": [4, 9, 0, 2], "w": [1], "u": [7, 3, 5, 8]}
    for pairs, made in zip((first, second), found, strict=True):
        for relation, ends in pairs.items():
            for side, kind in ((0, relation[0]), (1, relation[2])):
                assert ids[kind][made[relation][side]].tolist() == ends[side].tolist()
    assert numbered({a: (torch.empty(0, dtype=torch.int64),) * 2})[0]["u"].tolist() == []
    with pytest.raises(InputError, match="node 3 of 'v' is given twice"):
        numbered(nodes={"v": torch.tensor([3, 3])})


def test_what_was_drawn_of_nodes_is_known_until_something_changes(monkeypatch):
    """Edges that lead to just the nodes that they were drawn for are not looked through; others are."""
    ends = torch.tensor([[1, 2, 3, 0, 2], [0, 0, 2, 3, 3]])
    draws = halohop.records.Draws(halohop.graph(Data(edge_index=ends, num_nodes=4)))
    nodes = torch.tensor([3, 1, 0])
    drawn = draws.neighbors(nodes)
    copied = Edges(src=drawn.src, dst=drawn.dst.clone(), edge_id=drawn.edge_id)
    slow, slow_ids = hop_of(copied, nodes.clone())
    with monkeypatch.context() as patched:
        patched.delattr("halohop.nn.relabeling._checked")
        patched.delattr("halohop.ops.sorted_begins")
        found, ids = hop_of(drawn, nodes)
    assert ids.tolist() == slow_ids.tolist() == [3, 1, 0, 2]
    for name in ("src", "begins", "dst"):
        assert getattr(found, name).tolist() == getattr(slow, name).tolist()
    other, _ = hop_of(drawn, torch.tensor([0, 3]))
    assert other.begins.tolist() == [0, 2, 4]
    nodes[1] = 2  # written to: another node now
    assert hop_of(drawn, nodes)[1].tolist() == [3, 2, 0, 1]
    drawn.dst[0] = 0
    assert hop_of(drawn, nodes)[0].begins.tolist() == [0, 1, 1, 4]
