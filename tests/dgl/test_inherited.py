"""Columns of a graph that its parts have, too: rows are taken when they are read, and only then."""

import pickle

import pytest
import torch

import halohop
import halohop.dgl as dgl
from halohop.dgl.inherited import Inherited, inherit, returned
from halohop.errors import InputError
from halohop.nn import Hop


class Counted(dict):
    """Says which columns were read."""

    def __init__(self, columns):
        super().__init__(columns)
        self.read = []

    def __getitem__(self, name):
        self.read.append(name)
        return super().__getitem__(name)


def test_rows_are_taken_once_and_when_they_are_read():
    parent = Counted({"x": torch.arange(5), "y": torch.arange(5) * 10})
    columns = Inherited({"z": torch.ones(2)}, parent, torch.tensor([3, 1]))
    assert sorted(columns) == ["x", "y", "z"]
    assert len(columns) == 3
    assert parent.read == []
    assert columns["x"].tolist() == columns["x"].tolist() == [3, 1]
    assert parent.read == ["x"]
    columns["y"] = torch.zeros(2)
    assert columns["y"].tolist() == [0, 0]
    del columns["x"]
    assert "x" not in columns
    assert sorted(columns) == ["y", "z"]
    with pytest.raises(KeyError):
        columns["x"]
    assert parent.read == ["x"]


def graph():
    g = dgl.graph(([1, 2, 0, 3], [0, 0, 1, 1]))
    g.ndata["x"], g.edata["w"] = torch.arange(4.0), torch.arange(4.0) * 10
    return g


def block(g):
    hop = Hop(src=torch.tensor([1, 2]), begins=torch.tensor([0, 2]), num_src=3, num_dst=1, edges=slice(0, 2))
    relation = g.canonical_etypes[0]
    made = dgl.DGLBlock(
        {relation: hop}, {"_N": torch.tensor([1, 0, 3])}, {"_N": torch.tensor([1])}, {relation: torch.tensor([2, 3])}
    )
    return inherit(made, g)


def test_a_block_reads_the_columns_of_its_graph():
    made = block(graph())
    assert made.srcdata["x"].tolist() == [1, 0, 3]
    assert made.dstdata["x"].tolist() == [1]
    assert made.edata["w"].tolist() == [20, 30]
    with made.local_scope():
        made.srcdata["x"] = torch.zeros(3)
    assert made.srcdata["x"].tolist() == [1, 0, 3]


def test_a_move_reads_nothing():
    g = graph()
    parent = Counted(g.ndata)
    columns = Inherited({}, parent, torch.tensor([2])).each(lambda rows: rows + 1).each(lambda rows: rows * 2)
    assert parent.read == []
    assert columns["x"].tolist() == [6]
    moved = block(g).to("cpu")
    g.ndata["x"] = torch.arange(4.0) + 100
    assert moved.srcdata["x"].tolist() == [101, 100, 103]


def test_what_was_read_goes_to_other_processes_and_the_rest_is_found_again():
    g = graph()
    made = block(g)
    made.srcdata["x"]
    there = pickle.loads(pickle.dumps(made))
    assert there.srcdata["x"].tolist() == [1, 0, 3]
    assert "w" not in there.edata
    again = returned(pickle.loads(pickle.dumps(there)), g)
    assert again.edata["w"].tolist() == [20, 30]
    assert again.dstdata["x"].tolist() == [1]


def test_a_part_of_a_part_finds_the_rows_of_the_first_graph():
    g = graph()
    middle = Inherited({}, g.edata, torch.tensor([3, 1, 2]))
    part = Inherited({"_ID": torch.tensor([0])}, middle, torch.tensor([2, 0]))
    assert part["w"].tolist() == [20, 30]
    assert part.origins.tolist() == [2, 3]
    assert pickle.loads(pickle.dumps(part)).origins.tolist() == [2, 3]


def drawn_by_weight(engine, kind):
    """Which neighbours of node 1 are drawn, of those that have an edge of a weight above 0."""
    options = {"num_workers": 0, "weight_attr": "w", "input_nodes": torch.tensor([1] * 20)}
    if not engine.schema.is_homogeneous:
        options["input_nodes"] = kind, options["input_nodes"]
    batches = list(halohop.NeighborLoader(engine, [1], **options))
    return {int((batch if engine.schema.is_homogeneous else batch[kind]).n_id[1]) for batch in batches}


def test_draws_by_weights_have_a_graph_of_their_own():
    g = graph()
    assert g.engine is g.engine
    with pytest.raises(InputError, match="no edges have 'v' to draw by"):
        g.engine_for("v")
    g.edata["w"] = torch.tensor([1.0, 1, 0, 5])
    weighted = g.engine_for("w")
    assert weighted is g.engine_for("w")
    assert drawn_by_weight(weighted, "_N") == {3}
    assert weighted is not g.engine
    assert "w" in next(iter(weighted.schema.edges.values())).columns
    g.edata["w"].add_(1)
    assert g.engine_for("w") is not weighted
    assert drawn_by_weight(g.engine_for("w"), "_N") == {0, 3}
    more = dgl.graph(([1, 2, 0, 3], [0, 0, 1, 1]), num_nodes=5)
    more.edata["w"] = torch.tensor([1.0, 1, 1, 0])
    assert more.engine_for("w").schema.is_homogeneous
    assert drawn_by_weight(more.engine_for("w"), None) == {0}
    g.edata["flag"] = torch.tensor([True, False, True, False])
    assert g.engine_for("flag") is g.engine_for("flag")
    assert g.engine_for(edge_dir="out").book.edge_dir == "out"
