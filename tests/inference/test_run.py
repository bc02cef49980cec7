"""`halohop.inference.infer` without a recipe: the same rows as the whole graph at once, in files or in memory."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import halohop
from halohop.errors import InputError
from halohop.inference import InferenceJob, LayeredModel, LayerPass, Neighbours, infer
from halohop.testing.graphs import power_law
from halohop.world import World

NODES = 300


class Sum(nn.Module):
    """The sum over a node and its in-neighbours, made small enough not to grow."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x.index_add(0, edge_index[1], x[edge_index[0]]) / 16


class Model(nn.Module):
    """Two sums, and scores of three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Sum(), Sum()])
        self.head = nn.Linear(2, 3).double()

    def inputs(self, node_type: str, x: Tensor | None, raw_id: Tensor) -> Tensor:
        assert x is not None
        return x.double() / NODES


class Sums(LayeredModel):
    """The same two sums by hand, in pieces."""

    def columns(self, node_type: str) -> tuple[str, ...]:
        return ("x",)

    def inputs(self, node_type: str, columns: tuple[Tensor, ...]) -> Tensor:
        return columns[0].double() / NODES

    def rows(self, stage: int, node_type: str, x: Tensor, neighbours: Iterable[Neighbours]) -> Tensor:
        return (x + sum(piece.reduce(piece.x[piece.src]) for piece in neighbours)) / 16

    def results(self, rows: Tensor) -> dict[str, Tensor]:
        return {"embeddings": rows}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph") / "parts"
    halohop.partition(power_law(NODES, 6, dim=2), folder, num_parts=3, method="random")
    return folder


def at_once() -> Tensor:
    tables = power_law(NODES, 6, dim=2)
    (table,) = tables.edges.values()
    x, edge_index = tables.nodes["node"].columns["x"].double() / NODES, torch.stack([table.src, table.dst])
    return Sum()(Sum()(x, edge_index), edge_index)


def job(parts: Path, out: Path, **values: object) -> InferenceJob:
    return InferenceJob(parts=parts, out=out, batch_size=7, batch_edges=20, world=World(), **values)  # type: ignore[arg-type]


def test_a_module_gives_classes_and_vectors(parts: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, calls = Model(), []
    asked = job(parts, tmp_path, split="test", on_progress=lambda *call: calls.append(call))
    with halohop.open(parts) as graph:
        files = infer(model, graph, asked, embeddings=True, classes=("red", "green", "blue"))
    found = {file.stem: np.load(file, allow_pickle=False) for file in files}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(file.name for file in files)
    test = torch.arange(NODES) % 5 == 4
    assert found["raw_ids"].tolist() == torch.arange(NODES)[test].tolist()
    torch.testing.assert_close(torch.from_numpy(found["embeddings"]), at_once()[test])
    assert found["predictions"].tolist() == model.head(at_once())[test].argmax(dim=1).tolist()
    assert found["classes"].tolist() == ["red", "green", "blue"]
    assert [call for call in calls if call[0] == "layer 2 of 2"][-1][1:] == (NODES, NODES)


def test_a_model_in_stages_gives_the_same_rows_in_files_and_in_memory(parts: Path, tmp_path: Path) -> None:
    with halohop.open(parts) as graph:
        model = Sums(nn.Module(), "node", tuple(graph.schema.edges), 2)
        (_, file) = infer(model, graph, job(parts, tmp_path))
        gid, raw = graph.select()
        work = LayerPass(graph, "node", gid, world=World(), device=torch.device("cpu"))
        in_memory = torch.empty(NODES, 2, dtype=torch.float64)
        in_memory[raw[gid.argsort()][work.gid]] = work.rows(model)
    torch.testing.assert_close(torch.from_numpy(np.load(file)), at_once())
    torch.testing.assert_close(in_memory, at_once())


def test_results_are_kept_unless_the_job_says_otherwise(parts: Path, tmp_path: Path) -> None:
    with halohop.open(parts) as graph:
        infer(Model(), graph, job(parts, tmp_path))
        with pytest.raises(InputError, match=r"raw_ids\.npy would be lost; choose another folder"):
            infer(Model(), graph, job(parts, tmp_path))
        assert len(infer(Model(), graph, job(parts, tmp_path, overwrite=True, split="val"))) == 3
    assert len(np.load(tmp_path / "raw_ids.npy")) == NODES // 5
