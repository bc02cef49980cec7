"""Tables as files: row i is that of id i, however the rows are numbered inside, in the dtype that readers know."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from halohop.cluster.tables import export as exporting
from halohop.cluster.tables.export import export_rows
from halohop.errors import InputError, WriteError
from halohop.tables.spec import TableSpec

pytestmark = pytest.mark.timeout(30)


def export(rows: Tensor, path: Path, ids: Tensor | None = None) -> None:
    """Exports a table whose rows (by place in the order of ids) lie in another order."""
    dtype = str(rows.dtype).removeprefix("torch.")
    spec = TableSpec(name="e", key="paper", num_rows=len(rows), shape=tuple(rows.shape[1:]), dtype=dtype)
    place = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    ids = torch.arange(len(rows)) if ids is None else ids
    export_rows(spec, path, ids_of=lambda gid: ids[place[gid]], read=lambda gid: rows[place[gid]])


CASES = {
    "vectors": torch.rand(100, 3),
    "numbers": torch.arange(100),
    "matrices": torch.rand(100, 2, 3, dtype=torch.float64),
    "half": torch.rand(100, 4).bfloat16(),
    "none": torch.rand(0, 3),
}


@pytest.mark.parametrize("rows", CASES.values(), ids=CASES)
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_row_i_is_that_of_id_i(rows: Tensor, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_CHUNK_BYTES", 300)
    path = tmp_path / "new" / f"e{suffix}"
    export(rows, path)
    stored = rows.float() if rows.dtype == torch.bfloat16 else rows
    if suffix == ".npy":
        found = np.load(path, allow_pickle=False)
        assert found.dtype == stored.numpy().dtype
        assert np.array_equal(found, stored.numpy())
    else:
        table = pytest.importorskip("pyarrow.parquet").read_table(path)
        assert table["id"].to_pylist() == list(range(len(rows)))
        assert table["row"].to_pylist() == (stored if rows.dim() < 3 else stored.flatten(1)).tolist()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_another_ending_is_refused_and_what_was_there_stays_when_the_disk_is_full(tmp_path: Path, no_more_than) -> None:
    rows = torch.rand(10_000, 3)
    with pytest.raises(InputError, match=r"e\.csv ends neither with \.npy nor with \.parquet; choose one"):
        export(rows, tmp_path / "e.csv")
    path = tmp_path / "e.npy"
    path.write_bytes(b"before")
    with no_more_than(20_000), pytest.raises(WriteError, match=r"cannot write .*e\.npy.*make room"):
        export(rows, path)
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["e.npy"]


def test_other_ids_are_a_column_or_refused(tmp_path: Path) -> None:
    rows, ids = torch.rand(5, 2), torch.tensor([2, 4, 6, 90, 95])
    with pytest.raises(InputError, match=r"the ids of table 'e' are not 0 to 4, so row i .*; choose \.parquet"):
        export(rows, tmp_path / "e.npy", ids)
    assert list(tmp_path.iterdir()) == []
    export(rows, tmp_path / "e.parquet", ids)
    table = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "e.parquet")
    assert table["id"].to_pylist() == ids.tolist()
    assert table["row"].to_pylist() == rows.tolist()
