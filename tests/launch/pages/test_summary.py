import io
import json
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console

from halohop.datasets import synthetic, synthetic_hetero
from halohop.errors import CorruptDatasetError, DatasetError
from halohop.launch.pages.summary import render, summarize
from halohop.launch.runs.nodes import node_folders
from halohop.partitioning.building.build import partition
from halohop.partitioning.building.narrowing import with_narrow_features
from halohop.store.tables import EdgeTable, GraphTables, NodeTable


def text_of(parts: Path, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render(summarize(parts)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_numbers_are_those_of_the_graph(tiny_parts: Path) -> None:
    summary = summarize(tiny_parts)
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["num_parts"], summary["parts_here"]) == (3, [0, 1, 2])
    assert summary["partitioned"]["method"] == "random"
    assert summary["nodes"]["node"]["count"] == sum(part["nodes"]["node"] for part in summary["parts"]) == 1000
    assert summary["nodes"]["node"]["splits"] == {"train": 600, "val": 200, "test": 200}
    assert summary["nodes"]["node"]["columns"]["x"] == "float32[32]"
    assert summary["edges"]["node__to__node"]["count"] == sum(part["edges"] for part in summary["parts"])
    assert summary["cut"] == pytest.approx(2 / 3, abs=0.05)  # a random division into three
    assert summary["bytes"] == sum(file.stat().st_size for file in tiny_parts.rglob("*.npy"))
    assert [part["part"] for part in summary["parts"]] == [0, 1, 2]


def test_a_node_of_several_tells_what_it_has(tiny_parts: Path, tmp_path: Path) -> None:
    here = node_folders(tiny_parts, tmp_path, 2)[1]
    summary = summarize(here, verify=True)
    assert summary["parts_here"] == [2]
    assert sum(summary["nodes"]["node"]["splits"].values()) == summary["parts"][2]["nodes"]["node"]
    assert "in this folder: partitions [2]" in text_of(here)


def test_a_column_that_is_stored_narrow_says_so(tmp_path: Path) -> None:
    partition(with_narrow_features(synthetic("tiny"), "int8"), tmp_path / "narrow", num_parts=1, method="random")
    columns = summarize(tmp_path / "narrow")["nodes"]["node"]["columns"]
    assert columns["x"] == "float32[32] stored as int8"
    assert columns["y"] == "int64"


def test_tables_fit_a_terminal(tiny_parts: Path) -> None:
    text = text_of(tiny_parts, width=80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "…" not in text  # nothing was cut off
    for word in ("1,000", "train 600", "float32[32]", "nodes 1.", "█"):
        assert word in text


def test_several_types_and_empty_partitions(tmp_path: Path) -> None:
    partition(synthetic_hetero(50, seed=0), tmp_path / "hetero", num_parts=2, method="random")
    summary = summarize(tmp_path / "hetero")
    assert set(summary["nodes"]) == {"paper", "author", "institution", "field_of_study"}
    text = text_of(tmp_path / "hetero", width=140)
    assert [name for name in (*summary["nodes"], *summary["edges"]) if name not in text] == []
    lonely = GraphTables(
        nodes={"node": NodeTable(num_nodes=1)},
        edges={("node", "to", "node"): EdgeTable(src=torch.empty(0, dtype=torch.int64), dst=torch.empty(0, dtype=torch.int64))},
    )
    partition(lonely, tmp_path / "lonely", num_parts=3, method="random")
    assert sum(part["nodes"]["node"] for part in summarize(tmp_path / "lonely")["parts"]) == 1
    assert "0.0% of the edges" in text_of(tmp_path / "lonely")


def test_halo_columns_and_sorted_lists_are_told(tmp_path: Path) -> None:
    tables = GraphTables(
        nodes={"node": NodeTable(num_nodes=4, columns={"seen": torch.tensor([0, 3, 2, 1])})},
        edges={
            ("node", "to", "node"): EdgeTable(
                src=torch.tensor([1, 2, 3]), dst=torch.tensor([0, 0, 1]), columns={"when": torch.tensor([1.0, 2.0, 0.0])}
            )
        },
    )
    partition(tables, tmp_path / "parts", num_parts=2, method=torch.tensor([0, 1, 0, 1]), halo=("seen", "raw_id"))
    edges = summarize(tmp_path / "parts")["edges"]["node__to__node"]
    assert edges["halo"] == {"seen": "int64", "raw_id": "int32"}
    assert edges["ascending"] == ["when"]
    text = text_of(tmp_path / "parts", width=140)
    assert "halo: seen int64, raw_id int32" in text
    assert "lists ascend by when" in text


def test_verify_finds_a_flipped_bit_and_names_the_file(tiny_parts: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(tiny_parts, copy)
    file = next(copy.glob("part-0001/nodes/node/x.npy"))
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    summarize(copy)  # nobody asked
    with pytest.raises(CorruptDatasetError, match=r"x\.npy"):
        summarize(copy, verify=True)


def test_leftovers_are_listed_with_the_command_that_removes_them(tiny_parts: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_parts, tmp_path / "parts")
    assert summarize(tmp_path / "parts")["leftovers"] == {}
    left = tmp_path / "parts.partial-00000001-00000002-00000003"
    left.write_bytes(bytes(3_000_000))
    build = tmp_path / "parts.build.partial-00000001-00000002-00000003"
    build.write_bytes(bytes(5))
    assert summarize(tmp_path / "parts")["leftovers"] == {str(left): 3_000_000, str(build): 5}
    text = text_of(tmp_path / "parts", width=1000)
    assert f"{left} takes 2.86 MiB: left by a writer that was stopped; if none writes it, rm -r {left}" in text


def test_progress_is_told_to_the_end(tiny_parts: Path) -> None:
    told: list[tuple[str, int, int]] = []
    summarize(tiny_parts, verify=True, progress=lambda *news: told.append(news))
    verified = [news for news in told if news[0] == "verify"]
    size = sum(file.stat().st_size for file in tiny_parts.rglob("*.npy"))
    assert (verified[0], verified[-1]) == (("verify", 0, size), ("verify", size, size))
    assert told[len(verified) :] == [("read masks", done, 3) for done in range(4)]


def test_what_is_no_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError):
        summarize(tmp_path)
