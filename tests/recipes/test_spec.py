from dataclasses import replace

import pytest
import torch

from halohop.cluster.graph import Graph, in_memory
from halohop.datasets import synthetic, synthetic_hetero
from halohop.errors import InputError, SchemaError
from halohop.recipes.config import TrainConfig
from halohop.recipes.spec import ModelSpec, check_fits
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import Relation


def graph_for(kind: str) -> Graph:
    if kind == "rgcn":
        return in_memory(synthetic_hetero(80))
    tables = synthetic(None, num_nodes=90, avg_degree=4, num_classes=3, num_features=7)
    if kind.endswith("without features"):
        columns = {name: column for name, column in tables.nodes["node"].columns.items() if name != "x"}
        tables = replace(tables, nodes={"node": NodeTable(num_nodes=90, columns=columns)})
    return in_memory(tables)


def test_auto_chooses_by_the_schema_and_misfits_are_refused() -> None:
    plain, typed = graph_for("sage").schema, graph_for("rgcn").schema
    config = TrainConfig(parts="p", out="o")
    assert ModelSpec.of(config, plain, "node", 2).kind == "sage"
    assert ModelSpec.of(config, typed, "paper", 2).kind == "rgcn"
    with pytest.raises(InputError, match="several relations"):
        ModelSpec.of(replace(config, model="rgcn"), plain, "node", 2)
    with pytest.raises(InputError, match="use model='rgcn'"):
        ModelSpec.of(replace(config, model="gcn"), typed, "paper", 2)


@pytest.mark.parametrize("relation", [("page", "likes", "page"), ("node", "cites", "node"), ("page", "to", "page")])
def test_the_number_of_types_and_relations_chooses_the_model_not_their_names(relation: Relation) -> None:
    tables = synthetic("tiny")
    nodes, edges = {relation[0]: tables.nodes["node"]}, {relation: next(iter(tables.edges.values()))}
    schema, config = in_memory(GraphTables(nodes=nodes, edges=edges)).schema, TrainConfig(parts="p", out="o")
    assert ModelSpec.of(config, schema, relation[0], 2).kind == "sage"
    assert ModelSpec.of(replace(config, model="gat"), schema, relation[0], 2).kind == "gat"
    with pytest.raises(InputError, match="this one has one; use 'sage', 'gcn' or 'gat'"):
        ModelSpec.of(replace(config, model="hgt"), schema, relation[0], 2)
    twice = in_memory(GraphTables(nodes=nodes, edges=edges | {(relation[0], "other", relation[0]): edges[relation]})).schema
    assert ModelSpec.of(config, twice, relation[0], 2).kind == "rgcn"


def test_a_type_without_features_learns_vectors_of_the_width_that_was_asked_for() -> None:
    schema, config = graph_for("sage without features").schema, TrainConfig(parts="p", out="o", hidden=24)
    for embed_dim, learned in ((None, 24), (5, 5)):
        spec = ModelSpec.of(replace(config, embed_dim=embed_dim), schema, "node", 2)
        assert (spec.inputs[0].width, spec.inputs[0].learned, spec.learns_vectors) == (None, learned, True)
    assert not ModelSpec.of(config, graph_for("sage").schema, "node", 2).learns_vectors


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2), "one row of numbers"),
        (torch.zeros(2, 3, 4), "one row of numbers"),
        (torch.zeros(2, 3, dtype=torch.complex64), "'node' are complex64; store real numbers"),
    ],
)
def test_features_that_are_no_rows_of_real_numbers_are_refused(x: torch.Tensor, message: str) -> None:
    edges = {("node", "to", "node"): EdgeTable(src=torch.tensor([0]), dst=torch.tensor([1]))}
    schema = in_memory(GraphTables(nodes={"node": NodeTable(num_nodes=2, columns={"x": x})}, edges=edges)).schema
    with pytest.raises(InputError, match=message):
        ModelSpec.of(TrainConfig(parts="p", out="o"), schema, "node", 2)


def test_a_model_knows_which_graphs_it_fits() -> None:
    plain, without, typed = (graph_for(kind).schema for kind in ("sage", "sage without features", "rgcn"))
    config = TrainConfig(parts="p", out="o")
    spec = ModelSpec.of(config, plain, "node", 2)
    check_fits(spec, plain)
    with pytest.raises(SchemaError, match="7 features of 'node', the graph has no features"):
        check_fits(spec, without)
    with pytest.raises(SchemaError, match="node types"):
        check_fits(spec, typed)
    learned = ModelSpec.of(config, without, "node", 2)
    grown = replace(without, nodes={"node": replace(without.nodes["node"], count=91)})
    with pytest.raises(SchemaError, match="90 nodes of 'node', the graph has 91"):
        check_fits(learned, grown)
    other = replace(typed, edges=dict(list(typed.edges.items())[1:]))
    with pytest.raises(SchemaError, match="relations"):
        check_fits(ModelSpec.of(config, typed, "paper", 2), other)
