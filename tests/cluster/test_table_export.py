"""Tables as files: row i is that of id i, however the rows are numbered inside, in the dtype that readers know."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from halohop.cluster import table_export
from halohop.cluster.table_export import export_table
from halohop.errors import InputError, WriteError
from halohop.tables.spec import TableSpec

pytestmark = pytest.mark.timeout(30)


class Shuffled:
    """One table, whose gids are its ids in another order."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self._gid = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))

    def spec(self, name: str) -> TableSpec:
        dtype = str(self._rows.dtype).removeprefix("torch.")
        return TableSpec(name=name, key="paper", num_rows=len(self._rows), shape=tuple(self._rows.shape[1:]), dtype=dtype)

    def locate(self, spec: TableSpec, ids: Tensor) -> Tensor:
        return self._gid[ids]

    def read(self, name: str, gid: Tensor) -> Tensor:
        return self._rows[torch.argsort(self._gid)[gid]]


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
    monkeypatch.setattr(table_export, "_CHUNK_BYTES", 300)
    path = tmp_path / "new" / f"e{suffix}"
    export_table(Shuffled(rows), "e", path)
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
    tables = Shuffled(torch.rand(10_000, 3))
    with pytest.raises(InputError, match=r"e\.csv ends neither with \.npy nor with \.parquet; choose one"):
        export_table(tables, "e", tmp_path / "e.csv")
    path = tmp_path / "e.npy"
    path.write_bytes(b"before")
    with no_more_than(20_000), pytest.raises(WriteError, match=r"cannot write .*e\.npy.*make room"):
        export_table(tables, "e", path)
    assert path.read_bytes() == b"before"
    assert [file.name for file in tmp_path.iterdir()] == ["e.npy"]
