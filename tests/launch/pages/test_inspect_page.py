"""The page of `halohop inspect --html`: complete in itself, and safe whatever a graph calls its types."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from typer.testing import CliRunner, Result

from halohop.launch import cli
from halohop.launch.pages.inspect_page import inspect_page
from halohop.launch.pages.needs import needs, row_bytes
from halohop.launch.pages.summary import summarize
from halohop.launch.runs.nodes import node_folders
from halohop.partitioning.building.build import partition
from halohop.store.disk import read_manifest
from halohop.store.tables import EdgeTable, GraphTables, NodeTable

EVIL = "<script>alert('x')&\""


def invoke(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(cli.app, [str(argument) for argument in arguments])


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside of styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def is_complete_in_itself(page: str) -> bool:
    """No script, and nothing that is fetched."""
    tags = read(page).tags
    fetched = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href", "srcset", "data")]
    return not fetched and not re.search(r"url\(|@import|http", page) and "script" not in {tag for tag, _ in tags}


def charts(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose types and columns have names that mean something in HTML."""
    out = tmp_path_factory.mktemp("strange") / "a <b> & c"
    torch.manual_seed(0)
    tables = GraphTables(
        nodes={
            EVIL.replace("/", ""): NodeTable(
                num_nodes=30, columns={"<img>": torch.zeros(30), "train_mask": torch.arange(30) < 20}
            ),
            "plain": NodeTable(num_nodes=5),
        },
        edges={
            (EVIL, "<i>", EVIL): EdgeTable(src=torch.randint(30, (90,)), dst=torch.randint(30, (90,))),
            ("plain", "in", EVIL): EdgeTable(
                src=torch.randint(5, (20,)), dst=torch.randint(30, (20,)), columns={"w": torch.rand(20)}
            ),
        },
    )
    partition(tables, out, num_parts=2, method="random")
    return out


def test_the_page_and_the_json_say_the_same(strange: Path, tmp_path: Path) -> None:
    result = invoke("inspect", strange, "--html", tmp_path / "report.html", "--fanout", "3,2", "--batch-size", "4", "--json")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    page = (tmp_path / "report.html").read_text()
    assert page == inspect_page(summary)
    found = summary["needs"]
    assert (found["fanout"], found["batch_size"], found["seeds"]) == ([3, 2], 4, {"type": EVIL, "split": "train", "count": 20})
    assert set(found["localities"]) == {"none", "owner"}
    text = " ".join(read(page).texts)
    for expected in (
        EVIL,
        "<img>",
        "a <b> & c",
        "whole graph (locality none)",
        f"{found['localities']['owner']['remote_share']:.1%}",
    ):
        assert expected in text
    assert is_complete_in_itself(page)
    assert "prefers-color-scheme: dark" in page
    drawn = charts(page)
    assert len(drawn) == 6
    for svg in drawn:
        assert svg.attrib["aria-label"]
        for element in svg.iter():  # every mark lies within the picture
            for name, most in (("x", 440), ("cx", 440), ("y", 230), ("cy", 230)):
                assert 0 <= float(element.get(name, 0)) <= most


def test_in_the_terminal(strange: Path) -> None:
    result = invoke("inspect", strange, "--fanout", "3,2", "--batches", "2", "--no-hotness")
    assert result.exit_code == 0, result.output
    assert "An epoch with one host for each partition, fanout 3,2" in result.output
    assert re.search(r"owner +\d+ +\d+ +\d+\.\d%", result.output)


def test_without_sampling_there_is_what_the_manifest_says(strange: Path) -> None:
    page = inspect_page(summarize(strange))
    assert is_complete_in_itself(page)
    assert len(charts(page)) == 1
    assert "What each host needs" not in page


def test_needs_of_partitions_that_are_elsewhere(strange: Path, tmp_path: Path) -> None:
    here = node_folders(strange, tmp_path, 2)[0]
    refused = invoke("inspect", here, "--fanout", "3,2")
    assert refused.exit_code != 0
    assert "has partitions 0 of 2" in refused.output
    assert "--fanout 3,2" in refused.output
    assert invoke("inspect", here, "--html", tmp_path / "report.html").exit_code == 0
    assert "Partitions" in (tmp_path / "report.html").read_text()


def numbers_of(strange: Path, **changes: Any) -> dict[str, Any]:
    options: dict[str, Any] = {"batch_size": 4, "batches": 2, "hotness": True, "progress": lambda stage, done, total: None}
    return needs(strange, [3, 2], **{**options, **changes})


def test_sizes_are_those_of_the_files(strange: Path) -> None:
    found = numbers_of(strange)
    for part, host in enumerate(found["hosts"]):
        files = list((strange / f"part-{part:04d}").rglob("*.npy"))
        assert host["disk"] == sum(file.stat().st_size for file in files)
        columns = [file for file in files if "img" in file.name or file.stem in ("train_mask", "w")]
        assert len(columns) == 3
        assert host["columns"] == sum(file.stat().st_size for file in columns)
        assert host["lists"] == host["disk"] - host["columns"]
    assert row_bytes(read_manifest(strange)) == {
        EVIL: 5.0, "plain": 0.0, (EVIL, "<i>", EVIL): 0.0, ("plain", "in", EVIL): 4.0
    }  # fmt: skip


def test_what_hosts_receive_is_what_the_others_send(strange: Path) -> None:
    found = numbers_of(strange)
    for dealt in found["localities"].values():
        received = sum(host["received"] for host in dealt["hosts"])
        assert received == pytest.approx(sum(host["sent"] for host in dealt["hosts"])) == pytest.approx(dealt["bytes"])
    for left, host in zip(found["hotness"]["remote_rows_left"], found["localities"]["owner"]["hosts"], strict=True):
        assert left == sorted(left, reverse=True)
        assert left[0] == pytest.approx(host["remote_rows"], rel=0.5)  # computed, and sampled in two batches
    assert numbers_of(strange, hotness=False)["hotness"] is None
