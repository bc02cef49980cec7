"""Graphs made of graphs: which edges they have, in which order, and whose columns."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import halohop.dgl as dgl
from halohop.errors import InputError

EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)
Pairs = list[tuple[int, int]]


def made_of(pairs: Pairs, dtype: torch.dtype = torch.int64) -> dgl.DGLGraph:
    g = dgl.graph(torch.tensor(pairs, dtype=dtype).reshape(-1, 2).t(), num_nodes=6)
    g.ndata["x"], g.edata["w"] = torch.arange(6.0), torch.arange(float(len(pairs)))
    return g


def pairs_of(g: dgl.DGLGraph) -> Pairs:
    return list(zip(*(ends.tolist() for ends in g.edges()), strict=True))


@settings(max_examples=40, deadline=None)
@given(EDGES)
def test_edges_of_graphs_made_of_graphs(pairs: Pairs) -> None:
    g = made_of(pairs)
    looped, bare, turned = dgl.add_self_loop(g), dgl.remove_self_loop(g), dgl.reverse(g, copy_edata=True)
    assert pairs_of(looped) == [*pairs, *((node, node) for node in range(6))]
    assert looped.edata["w"].tolist() == [*range(len(pairs)), *[1] * 6]
    assert pairs_of(bare) == [(u, v) for u, v in pairs if u != v]
    assert bare.edata["w"].tolist() == [place for place, (u, v) in enumerate(pairs) if u != v]
    assert pairs_of(turned) == [(v, u) for u, v in pairs]
    assert turned.edata["w"] is g.edata["w"]
    assert pairs_of(dgl.to_bidirected(g)) == sorted({*pairs, *((v, u) for u, v in pairs)})
    both = dgl.add_reverse_edges(g, copy_edata=True)
    assert pairs_of(both) == [*pairs, *((v, u) for u, v in pairs if u != v)]
    assert both.edata["w"].equal(both.edata[dgl.EID].float())
    assert all(made.ndata["x"] is g.ndata["x"] for made in (looped, bare, turned, both))
    assert pairs_of(g) == pairs


@settings(max_examples=20, deadline=None)
@given(EDGES, EDGES)
def test_one_type_of_several(follows: Pairs, plays: Pairs) -> None:
    ends = {name: torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t() for name, pairs in (("f", follows), ("p", plays))}
    g = dgl.heterograph({("u", "f", "u"): ends["f"], ("u", "p", "i"): ends["p"]}, {"i": 6, "u": 6})
    one, sizes, lengths = dgl.to_homogeneous(g, return_count=True)
    assert (sizes, lengths) == ([6, 6], [len(follows), len(plays)])
    assert pairs_of(one) == [*((u + 6, v + 6) for u, v in follows), *((u + 6, v) for u, v in plays)]
    assert one.ndata[dgl.NID].tolist() == [*range(6), *range(6)]
    assert one.edata[dgl.ETYPE].tolist() == [0] * len(follows) + [1] * len(plays)


def test_ids_of_32_bits_stay() -> None:
    g = made_of([(0, 1), (2, 2)], torch.int32)
    made = [dgl.add_self_loop(g), dgl.remove_self_loop(g), dgl.reverse(g), dgl.to_bidirected(g), dgl.add_reverse_edges(g)]
    assert {other.idtype for other in made} == {torch.int32}
    assert dgl.to_homogeneous(g).idtype == torch.int32


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="fill_data='median'"):
        dgl.add_self_loop(made_of([(0, 1)]), fill_data="median")
    with pytest.raises(KeyError, match="have no 'y'"):
        dgl.to_homogeneous(made_of([(0, 1)]), ndata=["y"])
