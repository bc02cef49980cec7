"""Columns added to partitions on disk: the same files as if they had been there, and nothing lost where that fails."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import halohop
from halohop import Replicas, add_columns, add_replicas
from halohop.errors import InputError, SchemaError
from halohop.store.disk import read_manifest, verify_parts
from halohop.store.tables import GraphTables
from halohop.testing.graphs import power_law, typed
from halohop.typing import EDGE, NODE

COUNT = 90


def whole() -> GraphTables:
    graph = power_law(COUNT, 5, seed=2, dim=3)
    words = torch.zeros(COUNT, 6)
    words[torch.arange(COUNT), torch.arange(COUNT) % 6] = 2.0
    table = graph.nodes[NODE]
    nodes = replace(table, columns={**table.columns, "words": words.to_sparse(), "late": torch.arange(COUNT).half()})
    return GraphTables(nodes={NODE: nodes}, edges=graph.edges)


def bare(graph: GraphTables, names: dict[object, set[str]]) -> GraphTables:
    def without(tables):
        return {
            key: replace(table, columns={name: rows for name, rows in table.columns.items() if name not in names.get(key, ())})
            for key, table in tables.items()
        }

    return GraphTables(nodes=without(graph.nodes), edges=without(graph.edges))


LATER = {NODE: {"words", "late"}, EDGE: {"edge_attr", "weight"}}


def later() -> dict[object, dict[str, torch.Tensor]]:
    graph = whole()
    tables = graph.nodes | graph.edges
    return {key: {name: rows for name, rows in tables[key].columns.items() if name in names} for key, names in LATER.items()}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    halohop.partition(bare(whole(), LATER), tmp_path / "plain", num_parts=3, method="random", seed=1)
    return tmp_path / "plain"


def test_the_data_set_is_as_if_they_had_been_there(plain: Path, tmp_path: Path) -> None:
    halohop.partition(whole(), tmp_path / "whole", num_parts=3, method="random", seed=1)
    add_columns(plain, later())
    grown, expected = read_manifest(plain), read_manifest(tmp_path / "whole")
    assert grown.files == expected.files
    for table in expected.schema.tables:
        assert dict(grown.schema.table(table).columns) == dict(expected.schema.table(table).columns)
    verify_parts(plain)
    with halohop.open(plain) as graph, halohop.open(tmp_path / "whole") as same:
        batches = [
            list(halohop.NeighborLoader(one, [3, 2], "train", weight_attr="weight", batch_size=8, seed=1))
            for one in (graph, same)
        ]
    for one, other in zip(*batches, strict=True):
        assert one.to_dict().keys() == other.to_dict().keys()
        for key, value in one.to_dict().items():
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(other[key]))


def test_the_same_call_again_changes_nothing(plain: Path) -> None:
    add_columns(plain, {NODE: {"late": later()[NODE]["late"]}})
    before = (plain / "manifest.json").read_bytes()
    add_columns(plain, {NODE: {"late": later()[NODE]["late"]}})
    assert (plain / "manifest.json").read_bytes() == before
    add_columns(plain, later())  # of which one is there
    assert {"late", "words"} < {*read_manifest(plain).schema.nodes[NODE].columns}
    for other in (later()[NODE]["late"] + 1, later()[NODE]["late"].float(), later()[NODE]["words"]):
        with pytest.raises(SchemaError, match="partition 0 has a column 'late' of 'node' with other rows"):
            add_columns(plain, {NODE: {"late": other}})
    with pytest.raises(SchemaError, match="partition 0 has a column 'words'"):
        add_columns(plain, {NODE: {"words": torch.zeros(COUNT, 6)}})


def test_rows_of_a_killed_run_are_written_anew(plain: Path) -> None:
    stray = plain / "part-0001" / "nodes" / NODE / "late.npy"
    stray.write_bytes(b"half")
    add_columns(plain, later())
    verify_parts(plain)


def test_a_failure_leaves_the_data_set_as_it_was(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file: file.read_bytes() for file in plain.rglob("*") if file.is_file()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("halohop.cluster.adding.sync_tree", full)
    with pytest.raises(OSError, match="No space left"):
        add_columns(plain, later())
    assert {file: file.read_bytes() for file in plain.rglob("*") if file.is_file()} == before


def test_a_graph_of_several_types(tmp_path: Path) -> None:
    graph = typed({"user": 20, "item": 30}, {("user", "buys", "item"): 80})
    halohop.partition(graph, tmp_path / "parts", num_parts=2, method="random")
    raw, price = graph.nodes["item"].raw_id, torch.rand(30)
    add_columns(tmp_path / "parts", {"item": {"price": (raw, price)}, ("user", "buys", "item"): {"when": torch.arange(80)}})
    with halohop.open(tmp_path / "parts") as opened:
        assert torch.equal(opened.rows("price", raw, node_type="item"), price)
        assert opened.schema.edges["user", "buys", "item"].columns["when"].dtype == "int64"


def test_what_cannot_be_is_refused(plain: Path) -> None:
    for wrong, message in (
        ({"paper": {"y": torch.zeros(1)}}, "unknown node type 'paper'"),
        ({NODE: {"age": torch.zeros(7)}}, "has 7 rows, but there are 90"),
        ([torch.zeros(7)], "columns is a list"),
        ({NODE: {"weight": torch.zeros(COUNT)}, EDGE: {"weight": later()[EDGE]["weight"]}}, "a batch has one place for both"),
    ):
        with pytest.raises(InputError, match=message):
            add_columns(plain, wrong)
    add_replicas(plain, Replicas(fanouts=[2], batch_size=4, ratio=0.1))
    with pytest.raises(InputError, match=r"would lack \['node'\]; remove the copies first"):
        add_columns(plain, {NODE: {"late": torch.zeros(COUNT)}})
    shutil.rmtree(plain / "part-0002")
    with pytest.raises(InputError, match=r"partitions \[2\] are not in"):
        add_columns(plain, later())
