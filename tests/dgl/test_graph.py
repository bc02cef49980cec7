"""Graphs as descriptions: types, counts, edges and columns."""

import multiprocessing
import pickle
import re
from typing import Any

import pytest
import torch

import halohop.dgl as dgl
from halohop.errors import IdError, InputError, SchemaError

MEDIA = {("user", "follows", "user"): ([0, 1, 1], [1, 2, 2]), ("user", "plays", "game"): ([2, 0], [1, 0])}


def media() -> dgl.DGLGraph:
    return dgl.heterograph(MEDIA, {"user": 4, "game": 2, "empty": 0})


def test_types_are_sorted_and_counted() -> None:
    g = media()
    assert (g.ntypes, g.etypes) == (["empty", "game", "user"], ["follows", "plays"])
    assert (g.num_nodes(), g.num_nodes("user"), g.num_edges(), g.num_edges("plays")) == (6, 4, 5, 2)
    assert g.to_canonical_etype("plays") == ("user", "plays", "game")
    assert (g.srctypes, g.dsttypes, g.is_block, g.is_homogeneous) == (g.ntypes, g.ntypes, False, False)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_edges_of_a_graph(dtype: torch.dtype) -> None:
    g = dgl.graph((torch.tensor([3, 0, 0, 1], dtype=dtype), torch.tensor([1, 2, 1, 1], dtype=dtype)), num_nodes=5)
    assert g.idtype == dtype
    assert all(ids.dtype == dtype for ids in (*g.edges(form="all"), g.nodes(), g.in_degrees(), *g.adj_tensors("csr")))
    assert [ids.tolist() for ids in g.edges(form="all", order="srcdst")] == [[0, 0, 1, 3], [1, 2, 1, 1], [2, 1, 3, 0]]
    assert (g.in_degrees().tolist(), g.out_degrees().tolist()) == ([0, 3, 1, 0, 0], [2, 1, 0, 1, 0])
    assert (g.in_degrees(1), g.out_degrees([0, 4]).tolist()) == (3, [2, 0])
    assert [ids.tolist() for ids in g.in_edges([2, 1], form="all")] == [[0, 3, 0, 1], [2, 1, 1, 1], [1, 0, 2, 3]]
    assert [ids.tolist() for ids in g.out_edges([0], form="all")] == [[0, 0], [2, 1], [1, 2]]
    assert [ids.tolist() for ids in g.find_edges([3, 0])] == [[1, 3], [1, 1]]
    assert g.has_edges_between([0, 3, 4], [1, 2, 1]).tolist() == [True, False, False]
    assert g.has_edges_between(1, 1) is True
    assert (g.edge_ids([0, 3], [1, 1]).tolist(), g.edge_ids(0, 2)) == ([2, 0], 1)
    assert [ids.tolist() for ids in g.adj_tensors("csc")] == [[0, 0, 3, 4, 4, 4], [3, 0, 1, 0], [0, 2, 3, 1]]


def test_other_forms_of_edges() -> None:
    pointers, ids = torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0])
    assert [ends.tolist() for ends in dgl.graph(("csr", (pointers, ids, []))).edges()] == [[0, 0, 2], [1, 2, 0]]
    csc = dgl.graph(("csc", (pointers, ids, torch.tensor([2, 0, 1]))))
    assert [ends.tolist() for ends in csc.edges()] == [[2, 0, 1], [0, 2, 0]]


def test_columns_of_several_types() -> None:
    g = media()
    g.nodes["user"].data["x"] = torch.arange(4.0)
    g.ndata["y"] = {"user": torch.ones(4), "game": torch.zeros(2)}
    g.edges["plays"].data["w"] = torch.ones(2)
    assert (list(g.ndata), list(g.ndata["x"]), sorted(g.ndata["y"])) == (["y", "x"], ["user"], ["game", "user"])
    assert g.edata["w"][("user", "plays", "game")].tolist() == [1, 1]
    assert g.node_attr_schemes("user")["x"].dtype == torch.float32
    assert g.ndata.pop("y").keys() == {"user", "game"}
    assert "y" not in g.nodes["user"].data


def test_a_slice_shares_columns() -> None:
    g = media()
    plays = g["plays"]
    plays.edata["w"] = torch.ones(2)
    plays.nodes["user"].data["x"] = torch.ones(4)
    assert (plays.ntypes, plays.num_edges(), list(g.edges["plays"].data)) == (["user", "game"], 2, ["w"])
    assert list(g.nodes["user"].data) == ["x"]


def test_scopes_undo_what_is_set_within_them() -> None:
    g = media()
    users = g.nodes["user"].data
    users["x"] = torch.zeros(4)
    with g.local_scope():
        g.nodes["user"].data["x"] = torch.ones(4)
        with g.local_scope():
            del g.nodes["user"].data["x"]
            assert list(g.nodes["user"].data) == []
        assert g.nodes["user"].data["x"].sum() == 4
    assert g.nodes["user"].data["x"].sum() == 0
    other = g.local_var()
    other.nodes["user"].data["z"] = torch.ones(4)
    assert list(g.nodes["user"].data) == ["x"]


def put(g: dgl.DGLGraph, answers: Any) -> None:
    answers.put([g.in_degrees(etype="plays").tolist(), g.nodes["user"].data["x"].tolist(), g.engine.num_edges])


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.full)])
def test_a_graph_goes_to_other_processes(method: str) -> None:
    context = multiprocessing.get_context(method)
    g = media()
    g.nodes["user"].data["x"] = torch.arange(4.0)
    assert g.engine.num_edges == 5
    answers: Any = context.Queue()
    child = context.Process(target=put, args=(g, answers))
    child.start()
    assert answers.get(timeout=120) == [[1, 1], [0, 1, 2, 3], 5]
    child.join()
    again = pickle.loads(pickle.dumps(g))
    assert again.edges(etype="follows")[0].tolist() == [0, 1, 1]


def test_pyg_has_edges_and_columns() -> None:
    g = media()
    g.nodes["user"].data["x"] = torch.ones(4)
    data = g.to_pyg()
    assert data["user"].x.shape == (4,)
    assert data["user", "plays", "game"].edge_index.tolist() == [[2, 0], [1, 0]]
    assert dgl.graph(([0], [1])).to_pyg().edge_index.tolist() == [[0], [1]]


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: dgl.graph(([0, 1], [1])), InputError, "as many of both"),
    (lambda: dgl.graph(([0.5], [1.0])), InputError, "ids are torch.float32"),
    (lambda: dgl.graph(([-1], [1])), IdError, "the node -1"),
    (lambda: dgl.graph(([0], [5]), num_nodes=5), IdError, "num_nodes of '_N' is 5, but edges have the node 5"),
    (lambda: dgl.graph("edges.csv"), InputError, "edges are a str"),
    (lambda: dgl.graph(("csr", ([0, 2, 1], [0], []))), InputError, "pointers must"),
    (lambda: dgl.heterograph({"plays": ([0], [0])}), InputError, "'plays' is no relation"),
    (lambda: dgl.heterograph({}), InputError, "there is no relation"),
    (lambda: dgl.heterograph(MEDIA, {"user": 4}), InputError, "has no 'game'"),
    (lambda: media().num_nodes("usr"), SchemaError, "no type 'usr'"),
    (lambda: media().edges(), SchemaError, "no relation is given"),
    (lambda: media().edges(etype="buys"), SchemaError, "'buys' names 0 relations"),
    (lambda: media().find_edges([2], etype="plays"), IdError, "no edge 2, only 2"),
    (lambda: media().in_degrees([-1], etype="plays"), IdError, "no node -1"),
    (lambda: media().edge_ids([1], [0], etype="plays"), InputError, "no edge for pair 0"),
    (lambda: media().nodes["user"].data["x"], KeyError, "nodes of type 'user' have no 'x'"),
    (lambda: media().nodes["user"].data.update(x=torch.ones(3)), InputError, r"has shape \[3\], but nodes of type 'user' are 4"),
    (lambda: media().nodes["user"].data.update(x=[1, 2, 3, 4]), InputError, "is a list"),
    (lambda: media().ndata.update(x=torch.ones(4)), InputError, "give a dict of"),
    (lambda: media().ndata.update(x={"usr": torch.ones(4)}), SchemaError, "set for 'usr'"),
    (lambda: media().pin_memory(), InputError, "there is none here"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD, ids=[re.sub(r"\W+", " ", text) for _, _, text in BAD])
def test_bad_input_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
