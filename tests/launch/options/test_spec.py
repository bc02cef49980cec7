from pathlib import Path
from typing import Any

import pytest

from halohop.errors import InputError
from halohop.launch.options import spec

KNOWN = {
    "batch_size": frozenset({"batch-size"}),
    "fanout": frozenset({"fanout"}),
    "as_json": frozenset({"json"}),
    "lr": frozenset({"lr"}),
}
HERE = Path("run.toml")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, {}),
        ({"batch-size": 8}, {"batch_size": 8}),
        ({"batch_size": 8}, {"batch_size": 8}),
        ({"json": True}, {"as_json": True}),
        ({"fanout": [15, -1]}, {"fanout": "15,-1"}),
        ({"fanout": "15,10"}, {"fanout": "15,10"}),
        ({"lr": 0}, {"lr": 0}),
        ({"json": False}, {"as_json": False}),
    ],
)
def test_values_go_to_their_parameters(table: dict[str, Any], expected: dict[str, Any]) -> None:
    assert spec.options(table, KNOWN, HERE) == expected


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"batchsize": 8}, "unknown option 'batchsize'; did you mean 'batch_size'"),
        ({"qqqq": 8}, "unknown option 'qqqq'; known: as_json, batch_size, fanout, lr"),
        ({3: 4}, "unknown option 3"),
        ({"batch-size": 8, "batch_size": 9}, "given twice"),
        ({"lr": None}, "'lr' needs a value"),
        ({"lr": {"start": 1}}, "'lr' needs a value"),
    ],
)
def test_what_cannot_be_meant_is_named(table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        spec.options(table, KNOWN, HERE)
    assert "run.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.toml", "lr = 0.1\nfanout = [3, 2]\n", {"lr": 0.1, "fanout": [3, 2]}),
        ("a.yaml", "lr: 0.1\nfanout: [3, 2]\n", {"lr": 0.1, "fanout": [3, 2]}),
        ("a.YML", "lr: 0.1\n", {"lr": 0.1}),
        ("a.yaml", "# nothing yet\n", {}),
        ("a.toml", "", {}),
    ],
)
def test_reads(tmp_path: Path, name: str, text: str, expected: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text)
    assert spec.read(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.json", b"{}", "must end in .toml, .yaml or .yml"),
        ("a.toml", b"lr = ", "cannot be read"),
        ("a.toml", b"lr = '\xff'", "cannot be read"),
        ("a.yaml", b"a: [", "cannot be read"),
        ("a.yaml", b"- 1\n- 2\n", "holds list, expected options"),
        ("a.yaml", b"!!python/object/apply:os.getcwd []", "cannot be read"),
        ("a.yaml", b"since: 2026-99-99", "cannot be read: month must be in"),
        ("a.yaml", b"epochs: " + b"9" * 5000, "cannot be read: Exceeds the limit"),
    ],
)
def test_refuses(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=complaint) as caught:
        spec.read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no configuration file .*none\.toml"):
        spec.read(tmp_path / "none.toml")
