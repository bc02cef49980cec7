"""Learned vectors beside a model: what is written is read by id, and a file that was changed is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.errors import CorruptDatasetError, IdError, IncompleteDatasetError
from halohop.recipes.spec import NodeInput
from halohop.recipes.vector_files import StoredVectors, VectorFiles, attach, forget_vectors, write_vectors
from halohop.recipes.vectors import LearnedVectors

FILES = VectorFiles(node_type="user", ids="epoch-3.0.ids.npy", rows="epoch-3.0.rows.npy")


def written(folder: Path, raw: list[int]) -> torch.Tensor:
    rows = torch.randn(len(raw), 6)
    write_vectors(folder, FILES, torch.tensor(raw, dtype=torch.int64), 6, rows.split(2))
    return rows


def test_rows_are_found_by_any_ids_and_numpy_reads_the_files(tmp_path: Path) -> None:
    raw = [-4, 7, 10**12, 10**12 + 5, 2**62]
    rows = written(tmp_path / "checkpoint", raw)
    stored = StoredVectors(tmp_path / "checkpoint", FILES, 6)
    order = torch.tensor([4, 0, 0, 3])
    assert torch.equal(stored(torch.tensor(raw)[order]), rows[order])
    assert stored(torch.empty(0, dtype=torch.int64)).shape == (0, 6)
    assert np.array_equal(np.load(tmp_path / "checkpoint" / FILES.rows), rows.numpy())
    for unknown in (-5, 8, 2**62 + 1):
        with pytest.raises(IdError, match=f"1 of 2 nodes of 'user' have no vector in .*the first is {unknown}"):
            stored(torch.tensor([7, unknown]))


def test_no_nodes_have_no_vectors(tmp_path: Path) -> None:
    written(tmp_path, [])
    stored = StoredVectors(tmp_path, FILES, 6)
    assert stored(torch.empty(0, dtype=torch.int64)).shape == (0, 6)
    with pytest.raises(IdError, match="the first is 3"):
        stored(torch.tensor([3]))


@pytest.mark.parametrize("name", [FILES.ids, FILES.rows])
def test_a_changed_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    written(tmp_path, [1, 2, 3])
    whole = (tmp_path / name).read_bytes()
    for position in (5, len(whole) // 2, len(whole) - 2):
        (tmp_path / name).write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(CorruptDatasetError, match=name):
            StoredVectors(tmp_path, FILES, 6)
    (tmp_path / name).unlink()
    with pytest.raises(IncompleteDatasetError, match=name):
        StoredVectors(tmp_path, FILES, 6)


def test_vectors_of_another_width_or_type_are_refused(tmp_path: Path) -> None:
    written(tmp_path, [1, 2])
    with pytest.raises(CorruptDatasetError, match="a vector of width 5"):
        StoredVectors(tmp_path, FILES, 5)
    model = torch.nn.ModuleList([LearnedVectors(NodeInput(node_type="item", width=None, count=2, learned=6))])
    with pytest.raises(CorruptDatasetError, match=r"vectors of \['user'\], but its model learns those of \['item'\]"):
        attach(model, tmp_path, [FILES])


def test_only_the_vectors_of_the_kept_model_stay(tmp_path: Path) -> None:
    written(tmp_path, [1])
    for name in ("epoch-2.0.ids.npy", "epoch-2.0.rows.npy", "model.pt"):
        (tmp_path / name).write_bytes(b"")
    forget_vectors(tmp_path, [FILES])
    assert {path.name for path in tmp_path.iterdir()} == {FILES.ids, FILES.rows, "model.pt"}
