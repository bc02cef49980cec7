"""Evaluation a layer at a time: the same scores as from batches with all neighbours, for every model, on one rank and on two."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
from halohop.datasets import synthetic
from halohop.inference import costs_less, in_memory
from halohop.recipes.build import build_model
from halohop.recipes.config import TrainConfig
from halohop.recipes.layered_models import trained_layers
from halohop.recipes.node_task import NodeTask
from halohop.recipes.task import Setting
from halohop.store.schema import Schema, TableSpec
from halohop.world import World
from tests.support.learned import give_vectors

CPU = torch.device("cpu")


def task_on(parts: str, **values: Any) -> NodeTask:
    config = TrainConfig(parts=parts, out="unused", hidden=8, heads=2, **values)
    graph = halohop.open(parts, world=World())
    return NodeTask(Setting(config=config, graph=graph, world=World(), device=CPU))


@pytest.fixture(scope="session")
def wide_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Features wider than any first product, so that there is a stage without neighbours."""
    folder = tmp_path_factory.mktemp("wide") / "parts"
    halohop.partition(synthetic("tiny", num_nodes=150, num_features=50), folder, num_parts=2, method="random")
    return str(folder)


@pytest.mark.parametrize(
    ("parts", "model"),
    [(parts, model) for parts in ("wide_parts", "tiny_parts") for model in ("sage", "gcn", "gat")]
    + [("hetero_parts", "rgcn"), ("hetero_parts", "hgt")],
)
@pytest.mark.parametrize("most", [1, 400, 10**6])
def test_layers_score_as_batches_with_all_neighbours(
    parts: str, model: str, most: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the size of the batches: of a single node in pieces of its list, of a few, of all."""
    monkeypatch.setattr(in_memory, "_BATCH_ROWS", most)
    if most == 1 and (parts, model) != ("wide_parts", "sage"):
        pytest.skip("a node at a time takes long, and all models are read alike")
    task = task_on(request.getfixturevalue(parts), model=model, eval_batch_size=64)
    assert task.by_layers
    torch.manual_seed(0)
    predictor = build_model(task.spec)
    give_vectors(predictor)
    layers, batches = task.evaluate(predictor, "val"), task.score(predictor, task.loader("val"))
    assert layers.count == batches.count > 0
    assert layers.loss == pytest.approx(batches.loss, rel=1e-5)
    assert layers.main == pytest.approx(batches.main, abs=1.5 / layers.count)


def test_wide_features_are_read_once(wide_parts: str, tiny_parts: str) -> None:
    task = task_on(wide_parts, model="sage")
    predictor = build_model(task.spec)
    stages = trained_layers(predictor, task.setting.graph, task.target)
    assert stages.stages == 3
    assert not stages.hops(0)
    before = task.setting.graph.statistics()["local_rows"]
    task.evaluate(predictor, "val")
    asked = task.setting.graph.statistics()["local_rows"] - before
    edges = task.setting.graph.schema.edges["node", "to", "node"].count
    assert asked < 8 * 150 < edges  # features, degrees and lists of each node: not a row per edge


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_features_of_width_zero(tmp_path: Path) -> None:
    tables = synthetic("tiny", num_nodes=100)
    node = tables.nodes["node"]
    node = replace(node, columns=node.columns | {"x": torch.empty(100, 0)})
    halohop.partition(replace(tables, nodes={"node": node}), tmp_path / "parts", num_parts=2, method="random")
    task = task_on(str(tmp_path / "parts"), model="sage")
    predictor = build_model(task.spec)
    assert task.evaluate(predictor, "val").loss == pytest.approx(task.score(predictor, task.loader("val")).loss, rel=1e-5)


def test_a_later_model_is_scored_as_it_is_then(tiny_parts: str) -> None:
    task = task_on(tiny_parts, model="sage")
    predictor = build_model(task.spec)
    before = task.evaluate(predictor, "val").loss
    with torch.no_grad():
        predictor.head.weight.mul_(3)
    assert task.evaluate(predictor, "val").loss != before


def test_a_fanout_that_was_asked_for_is_drawn(tiny_parts: str) -> None:
    task = task_on(tiny_parts, eval_fanout=(3, 2))
    assert (task.by_layers, task.eval_fanout) == (False, (3, 2))


def schema(nodes: int, edges: int, relations: int = 1) -> Schema:
    names = [("n", f"to{number}", "n") for number in range(relations)]
    table = TableSpec(count=edges // relations, columns={})
    return Schema(nodes={"n": TableSpec(count=nodes, columns={})}, edges=dict.fromkeys(names, table))


@pytest.mark.parametrize(
    ("graph", "fanout", "seeds", "spare", "layers"),
    [
        (schema(1_000_000, 5_000_000), (15, 10), 1, 2**40, True),  # 10 M edges are cheap
        (schema(1_000_000, 5_000_001), (15, 10), 1, 2**40, False),
        (schema(1_000_000, 33_000_000), (15, 10), 400_000, 2**40, True),  # 66 M against 400 k x (15 + 150)
        (schema(1_000_000, 33_000_001), (15, 10), 400_000, 2**40, False),
        (schema(1_000_000, 66_000_000), (-1, 10), 1, 2**40, True),  # all neighbours of a hub may be all edges
        (schema(1_000_000, 60_000_000, 2), (15, 10), 191_000, 2**40, True),  # each relation draws: 30 + 600
        (schema(1_000, 5_000), (15, 10), 1_000, 4 * 1_000 * 64 * 4, True),
        (schema(1_000, 5_000), (15, 10), 1_000, 4 * 1_000 * 64 * 4 - 1, False),  # the rows do not fit
    ],
)
def test_what_costs_less(graph: Schema, fanout: tuple[int, ...], seeds: int, spare: int, layers: bool) -> None:
    assert costs_less(graph, fanout, seeds, width=64, spare_bytes=spare) == layers


def test_batches_have_the_columns_that_the_model_reads_and_no_others(tmp_path: Path) -> None:
    """Masks, times and edge features stay where they are, also where nodes and edges have one of a name."""
    tables = synthetic("tiny")
    (table,) = tables.edges.values()
    edges = replace(table, columns={"time": torch.arange(table.num_edges), "edge_attr": torch.zeros(table.num_edges, 3)})
    nodes = replace(
        tables.nodes["node"], columns=tables.nodes["node"].columns | {"time": torch.arange(1000), "n_id": torch.zeros(1000)}
    )
    halohop.partition(
        replace(tables, nodes={"node": nodes}, edges=dict.fromkeys(tables.edges, edges)), tmp_path / "parts", num_parts=2
    )
    task = task_on(str(tmp_path / "parts"), batch_size=50)
    batch = next(iter(task.loader("train")))
    rows = {name for name, value in batch if isinstance(value, torch.Tensor) and len(value) in (batch.num_nodes, batch.num_edges)}
    assert rows == {"x", "y", "n_id", "e_id"}
    assert task.score(build_model(task.spec), task.loader("val")).count > 0
