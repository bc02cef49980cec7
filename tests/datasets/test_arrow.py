"""Fields of text tables that cannot be converted are named by column, row and value."""

import gzip
from pathlib import Path

import pytest

from halohop.datasets.arrow import read_columns, stream_columns
from halohop.errors import InputError

pa = pytest.importorskip("pyarrow")


def read(path: Path, names: list[str], *, chunks: bool) -> None:
    types = {"b": pa.float32()}
    if not chunks:
        read_columns(path, names, types)
    for _ in stream_columns(path, names, types, 64):
        pass


@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize("names", [["b"], ["c", "b"], ["b", "a"]])
@pytest.mark.parametrize("value", ["n/a", "NULL", "1 000", "'x: y'", "1,5"])
def test_a_field_that_is_not_a_number(tmp_path: Path, names: list[str], value: str, chunks: bool) -> None:
    rows = "1,2,x\n" * 40 + f'1,"{value}",x\n1,2,x\n1,"{value}",x\n'
    (tmp_path / "t.csv").write_text("a,b,c\n" + rows)
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(("a\tb\tc\n" + rows.replace(",", "\t").replace("1\t5", "1,5")).encode()))
    for name in ("t.csv", "t.tsv.gz"):
        with pytest.raises(InputError) as caught:
            read(tmp_path / name, names, chunks=chunks)
        assert str(caught.value) == f"{tmp_path / name}: column 'b' holds {value!r} in row 40, expected a value of type float"


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,x\n2,\xff\n")
    with pytest.raises(InputError, match=r"t\.csv: column 'b' holds bytes that are not UTF-8; store the file as UTF-8"):
        read_columns(tmp_path / "t.csv", ["a", "b"], {"b": pa.string()})
