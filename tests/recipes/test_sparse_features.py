"""Features that are stored sparse: every model multiplies them as they are."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import halohop
from halohop.datasets import synthetic, synthetic_hetero
from halohop.recipes.config import TrainConfig
from halohop.recipes.sharing import cores_per_trainer
from halohop.recipes.train import train
from halohop.store.tables import GraphTables
from halohop.world import World


def thinned(tables: GraphTables, *, sparse: bool) -> GraphTables:
    """The graph with features of which a twentieth is not zero."""
    nodes = dict(tables.nodes)
    for name, table in tables.nodes.items():
        if "x" in table.columns:
            kept = torch.rand(table.columns["x"].shape, generator=torch.Generator().manual_seed(1)) < 0.05
            x = table.columns["x"] * kept
            nodes[name] = replace(table, columns=table.columns | {"x": x.to_sparse_csr() if sparse else x})
    return replace(tables, nodes=nodes)


@pytest.mark.parametrize(
    "model", ["sage", *(pytest.param(name, marks=pytest.mark.full) for name in ("gcn", "gat", "rgcn", "hgt"))]
)
def test_models_learn_from_sparse_rows_what_they_learn_from_dense_ones(tmp_path: Path, model: str) -> None:
    several = model in ("rgcn", "hgt")
    tables = synthetic_hetero(300) if several else synthetic("tiny", num_nodes=600, num_features=400)
    ends = {}
    for sparse in (False, True):
        parts, out = tmp_path / f"parts-{sparse}", tmp_path / f"run-{sparse}"
        halohop.partition(thinned(tables, sparse=sparse), parts, num_parts=2, method="random")
        events: list[dict[str, object]] = []
        end = train(
            TrainConfig(parts=str(parts), out=str(out), model=model, epochs=2, hidden=16, fanout=(4, 3), workers=0),
            on_event=events.append,
        )
        (last,) = [event for event in events if event["event"] == "epoch" and event["epoch"] == 2]
        ends[sparse] = last["loss"], end["test_accuracy"], last["batch_bytes"]
    assert ends[True][0] == pytest.approx(ends[False][0], rel=1e-3)
    assert ends[True][1] == pytest.approx(ends[False][1], abs=0.05)
    assert several or ends[True][2] < ends[False][2] / 3


def test_trainers_take_no_more_threads_than_openmp_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")
    assert cores_per_trainer(World()) == 1
    for text in ("100000", "", "many"):
        monkeypatch.setenv("OMP_THREAD_LIMIT", text)
        assert cores_per_trainer(World()) == len(os.sched_getaffinity(0))
