import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

from halohop.datasets.arrow import read_columns
from halohop.datasets.text_types import text_types, type_of
from halohop.errors import InputError

FIELDS = ["", "1", "-5", "true", "0", "2020-01-01", "12:30", "2020-01-01 00:00:00", "2020-01-01T00:00:00Z"]
FIELDS += ["2020-01-01 00:00:00.5", "1.5", "nan", "abc", '"1"', '""', "9223372036854775808", "0x1F"]


@given(st.lists(st.tuples(*[st.sampled_from(FIELDS)] * 2), max_size=9), st.integers(62, 110))
def test_types_are_those_of_the_whole_file(rows: list[tuple[str, str]], num_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        path.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
        whole = read_columns(path, ["a", "b"], {})
        found = text_types([path], ["a", "b"], num_bytes)
    assert found == [str(whole[name].type) for name in ("a", "b")]
    assert [type_of(text) for text in found] == [whole[name].type for name in ("a", "b")]


def test_bytes_that_are_no_text_are_binary_and_rows_of_other_lengths_no_table(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"a,b\n" + b"1,2\n" * 30 + b"\xff,2\n")
    assert text_types([tmp_path / "bytes.csv"], ["a", "b"], 60) == ["binary", "int64"]
    (tmp_path / "short.csv").write_bytes(b"a,b\n" + b"1,2\n" * 30 + b"1\n")
    with pytest.raises(InputError, match=r"short\.csv cannot be read: .*Expected 2 columns, got 1"):
        text_types([tmp_path / "short.csv"], ["a", "b"], 60)
