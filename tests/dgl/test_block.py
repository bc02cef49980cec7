"""Blocks: lists of in-edges from sources to destinations of their own."""

import pytest
import torch

import halohop.dgl as dgl
from halohop.errors import InputError
from halohop.nn import Hop

HOP = Hop(src=torch.tensor([1, 2, 0]), begins=torch.tensor([0, 2, 3]), num_src=3, num_dst=2, edges=slice(0, 3))
ONE = ("_N", "_E", "_N")


def block(hop: Hop = HOP) -> dgl.DGLBlock:
    return dgl.DGLBlock({ONE: hop}, {"_N": torch.tensor([7, 5, 9])}, {"_N": torch.tensor([7, 5])}, {ONE: torch.tensor([4, 2, 8])})


def test_a_block_of_a_hop() -> None:
    b = block()
    assert b.is_block
    assert b.hop() is HOP
    assert (b.srcdata[dgl.NID].tolist(), b.dstdata[dgl.NID].tolist(), b.edata[dgl.EID].tolist()) == ([7, 5, 9], [7, 5], [4, 2, 8])
    assert (b.num_src_nodes(), b.num_dst_nodes(), b.number_of_dst_nodes(), b.num_edges()) == (3, 2, 2, 3)
    assert [ids.tolist() for ids in b.edges()] == [[1, 2, 0], [0, 0, 1]]
    assert (b.srcnodes().tolist(), b.dstnodes().tolist()) == ([0, 1, 2], [0, 1])
    assert (b.srctypes, b.dsttypes, b.ntypes) == (["_N"], ["_N"], ["_N", "_N"])
    b.srcdata["x"] = torch.ones(3)
    assert "x" not in b.dstdata
    assert b.to("cpu").srcdata["x"].sum() == 3


def test_edges_keep_the_order_of_their_ids() -> None:
    hop = Hop(src=HOP.src, begins=HOP.begins, num_src=3, num_dst=2, edges=torch.tensor([2, 0, 1]))
    assert [ids.tolist() for ids in block(hop).edges()] == [[2, 0, 1], [0, 1, 0]]
    assert [ids.tolist() for ids in block(hop).int().in_edges([1, 0], form="all")] == [[0, 1, 2], [1, 0, 0], [1, 2, 0]]


def test_create_block() -> None:
    b = dgl.create_block({("a", "to", "b"): ([0, 1], [2, 0]), ("b", "to", "b"): ([], [])}, {"a": 2, "b": 3}, {"b": 3})
    assert (b.srctypes, b.dsttypes, b.num_src_nodes("b"), b.num_nodes("a")) == (["a", "b"], ["b"], 3, 2)
    assert b["a", "to", "b"].num_dst_nodes("b") == 3


def test_bad_blocks_are_refused() -> None:
    with pytest.raises(InputError, match="go from 3 sources to 2 destinations"):
        dgl.DGLBlock({ONE: HOP}, {"_N": 4}, {"_N": 2})
    with pytest.raises(InputError, match="srcdata and dstdata"):
        _ = block().ndata
    with pytest.raises(InputError, match="num_dst_nodes of '_N' is 1"):
        dgl.create_block(([0], [1]), 2, 1)
