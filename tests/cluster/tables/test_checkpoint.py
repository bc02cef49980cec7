"""Checkpoints of a graph's tables: whole or not at all, of one step, and read into any division of the graph."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import halohop
from halohop.cluster.tables import checkpoint
from halohop.errors import (
    ClusterError,
    CorruptDatasetError,
    HalohopError,
    IncompleteDatasetError,
    InputError,
    SchemaError,
    WriteError,
)
from halohop.tables import saving
from halohop.tables.messages import DropTableRequest
from halohop.tables.spec import Beginning, TableSpec
from halohop.testing.graphs import ring
from halohop.testing.worlds import partitioned

pytestmark = pytest.mark.timeout(60)

RAW = torch.arange(60) * 3 + 7
NODES = TableSpec(name="nodes/é", key="node", num_rows=60, shape=(2,), dtype="float32", begin=Beginning(kind="uniform", high=1.0))
EDGES = TableSpec(name="edges", key=("node", "to", "node"), num_rows=120, shape=(), dtype="int64")
OWN = TableSpec(name="own", key=None, num_rows=9, shape=(3,), dtype="float64", begin=Beginning(low=2.0))
SPECS = {spec.name: spec for spec in (NODES, EDGES, OWN)}

Divide = Callable[..., halohop.Graph]


@pytest.fixture
def divide() -> Iterator[Divide]:
    with ExitStack() as stack:

        def graph(num_parts: int, *, seed: int = 0, shard_each: bool = True, raw: torch.Tensor = RAW) -> halohop.Graph:
            made = partitioned(ring(len(raw), raw_id=raw), num_parts, seed=seed, shard_each=shard_each)
            stack.callback(made.close)
            return made

        yield graph


def ids_of(spec: TableSpec) -> torch.Tensor:
    return RAW if spec is NODES else torch.arange(spec.num_rows)


def make(graph: halohop.Graph, value: int = 0) -> None:
    """All tables; some rows are written, by their ids and the value."""
    for spec in SPECS.values():
        graph.tables.make(spec)
        ids = ids_of(spec)[::3]
        rows = (ids + value).view(-1, *[1] * len(spec.shape)).expand(-1, *spec.shape).to(spec.torch_dtype)
        graph.tables.write(spec.name, graph.tables.locate(spec, ids), rows.contiguous())


def read(graph: halohop.Graph) -> dict[str, list[object]]:
    return {
        name: graph.tables.read(name, graph.tables.locate(spec, ids_of(spec))).tolist() for name, spec in sorted(SPECS.items())
    }


def checkpoints(folder: Path) -> list[int]:
    """The steps of the finished ones; nothing else may be there."""
    for path in folder.iterdir():
        assert (path / "tables.json").is_file(), path
    return sorted(int(path.name.split("-")[1]) for path in folder.iterdir())


def test_saved_on_two_owners_and_read_by_any_number(divide: Divide, tmp_path: Path) -> None:
    first = divide(2)
    make(first)
    then = read(first)
    first.tables.save(tmp_path, step=7)
    for num_parts, shard_each in ((1, True), (3, True), (4, True), (3, False), (2, True)):
        other = divide(num_parts, seed=num_parts, shard_each=shard_each)
        if num_parts == 4:
            make(other, 1000)
        other.tables.load(tmp_path, step=7)
        assert read(other) == then, (num_parts, shard_each)
    assert checkpoints(tmp_path) == [7]


def test_a_new_checkpoint_takes_the_place_of_the_old_unless_it_is_to_stay(divide: Divide, tmp_path: Path) -> None:
    graph = divide(2)
    make(graph)
    graph.tables.save(tmp_path, step=1)
    graph.tables.save(tmp_path, step=2)
    assert checkpoints(tmp_path) == [2]
    then = read(graph)
    make(graph, 50)
    graph.tables.save(tmp_path, step=3, keep_others=True)
    assert checkpoints(tmp_path) == [2, 3]
    graph.tables.load(tmp_path, step=2)
    assert read(graph) == then
    with pytest.raises(InputError, match="are of step 2, 3, and not of step 4"):
        graph.tables.forget_checkpoints(tmp_path, but=4)
    graph.tables.forget_checkpoints(tmp_path, but=3)
    assert checkpoints(tmp_path) == [3]


def test_of_two_checkpoints_of_one_step_the_later_counts(divide: Divide, tmp_path: Path) -> None:
    graph = divide(2)
    make(graph)
    graph.tables.save(tmp_path, step=1, keep_others=True)
    make(graph, 50)
    then = read(graph)
    graph.tables.save(tmp_path, step=1, keep_others=True)
    graph.tables.load(tmp_path, step=1)
    assert read(graph) == then


def test_some_tables_are_saved_and_some_of_those_are_loaded(divide: Divide, tmp_path: Path) -> None:
    graph = divide(2)
    make(graph)
    then = read(graph)
    graph.tables.save(tmp_path, step=1, names=["own", "edges"])
    make(graph, 50)
    graph.tables.load(tmp_path, step=1, names=["own"])
    now = read(graph)
    assert now["own"] == then["own"]
    assert now["edges"] != then["edges"]
    with pytest.raises(InputError, match=r"has no tables \['nodes/é'\]; it has \['edges', 'own'\]"):
        graph.tables.load(tmp_path, step=1, names=["own", "nodes/é"])
    with pytest.raises(SchemaError, match="there is no table 'none'"):
        graph.tables.save(tmp_path, step=2, names=["own", "none"])
    assert checkpoints(tmp_path) == [1]


def test_another_step_than_the_models_is_refused(divide: Divide, tmp_path: Path) -> None:
    graph = divide(1)
    with pytest.raises(InputError, match="has no checkpoint of tables; give the folder"):
        graph.tables.load(tmp_path, step=0)
    make(graph)
    graph.tables.save(tmp_path, step=40)
    with pytest.raises(InputError, match=r"the tables in .* are of step 40, and not of step 50, as the model is; load a"):
        graph.tables.load(tmp_path, step=50)
    for step in (-1, 1.5, True):
        with pytest.raises(InputError, match=r"step=.* is no number of steps; give that of the model"):
            graph.tables.save(tmp_path, step=step)


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "kind", "match"),
    [
        ("rows.npy", flip, CorruptDatasetError, r"table 'own' cannot be loaded from .*rows.npy.*, or load an older one"),
        pytest.param(
            *("rows.npy", Path.unlink, IncompleteDatasetError, r"table 'own' cannot be loaded from .*rows.npy is missing"),
            marks=pytest.mark.full,
        ),
        ("tables.json", flip, CorruptDatasetError, r"tables.json was changed after it was written"),
    ],
)
def test_what_was_damaged_is_refused_by_name_and_the_old_one_is_still_good(
    name: str, damage: Callable[[Path], object], kind: type[HalohopError], match: str, divide: Divide, tmp_path: Path
) -> None:
    graph = divide(3)
    make(graph)
    then = read(graph)
    graph.tables.save(tmp_path, step=1)
    make(graph, 50)
    graph.tables.save(tmp_path, step=2, keep_others=True)
    now = read(graph)
    (new,) = (path for path in tmp_path.iterdir() if path.name.startswith("step-2-"))
    damage(next(file for file in sorted(new.rglob(name)) if name == "tables.json" or file.parts[-3] == "own"))
    with pytest.raises(kind, match=match):
        graph.tables.load(tmp_path, step=2)
    assert read(graph) == now
    graph.tables.load(tmp_path, step=1)
    assert read(graph) == then
    graph.tables.save(tmp_path, step=3)
    assert checkpoints(tmp_path) == [3]


def test_a_disk_that_is_full_leaves_the_old_one(
    divide: Divide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_more_than
) -> None:
    graph = divide(2)
    make(graph)
    graph.tables.save(tmp_path, step=1)
    with no_more_than(300), pytest.raises(WriteError, match=r"cannot write .*step-2-.*\.npy.*make room"):
        graph.tables.save(tmp_path, step=2)
    assert checkpoints(tmp_path) == [1]

    def fails(*args: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "sealed_file", fails)
    with pytest.raises(OSError, match="No space"):
        graph.tables.save(tmp_path, step=2)
    assert checkpoints(tmp_path) == [1]


def test_a_save_that_was_killed_is_removed_by_the_next(divide: Divide, tmp_path: Path) -> None:
    graph = divide(2)
    make(graph)
    graph.tables.save(tmp_path, step=1)
    (tmp_path / "step-2-0123abcd" / "own" / "00000").mkdir(parents=True)
    graph.tables.load(tmp_path, step=1)
    graph.tables.save(tmp_path, step=3, keep_others=True)
    assert checkpoints(tmp_path) == [1, 3]


def test_a_graph_of_fewer_nodes_or_of_others_is_refused(divide: Divide, tmp_path: Path) -> None:
    first = divide(2)
    make(first)
    first.tables.save(tmp_path, step=1, names=[NODES.name])
    fewer = divide(2, raw=RAW[:50])
    with pytest.raises(InputError, match=r"is to have 60 rows; 'node' has 50"):
        fewer.tables.load(tmp_path, step=1)
    others = divide(2, raw=RAW + 1)
    with pytest.raises(InputError, match=r"has 20 rows of table 'nodes/é', of which 0 are rows of this graph; load it"):
        others.tables.load(tmp_path, step=1)


def test_another_table_of_that_name_is_refused(divide: Divide, tmp_path: Path) -> None:
    first, other = divide(1), divide(2)
    make(first)
    first.tables.save(tmp_path, step=1)
    other.tables.make(TableSpec(name="own", key=None, num_rows=9, shape=(4,), dtype="float64"))
    with pytest.raises(InputError, match=r"table 'own' was saved with shape=\(3,\), .*, and has shape=\(4,\)"):
        other.tables.load(tmp_path, step=1)


def test_two_processes_do_not_save_into_one_folder(divide: Divide, tmp_path: Path) -> None:
    graph = divide(1)
    make(graph)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ClusterError, match=r"another process is saving tables into .*; give each its own folder"):
        graph.tables.save(tmp_path, step=1)
    os.close(descriptor)
    graph.tables.save(tmp_path, step=1)


def test_owners_that_differ_in_steps_are_not_a_checkpoint(
    divide: Divide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = divide(2)
    make(graph)
    kept_save, count = saving.save, iter(range(100))

    def moving(table, folder):
        return replace(kept_save(table, folder), steps=next(count))

    monkeypatch.setattr(saving, "save", moving)
    with pytest.raises(ClusterError, match=r"tables were changed while they were saved .*; save between steps"):
        graph.tables.save(tmp_path, step=1)
    assert list(tmp_path.iterdir()) == []


def test_an_owner_that_lost_its_tables_gets_them_back(divide: Divide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = divide(2)
    make(graph)
    then = read(graph)
    graph.tables.save(tmp_path, step=1)
    graph.tables._owners.ask({1: DropTableRequest(name="own")})
    monkeypatch.setattr("halohop.cluster.tables.names._MAKING_SECONDS", 0.05)
    graph.tables.load(tmp_path, step=1)
    assert read(graph) == then


def test_export_follows_the_users_ids(divide: Divide, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    graph = divide(3)
    make(graph)
    for name, values in read(graph).items():
        graph.tables.export(name, tmp_path / "table.parquet")
        table = parquet.read_table(tmp_path / "table.parquet")
        assert table["id"].to_pylist() == ids_of(SPECS[name]).tolist()
        assert table["row"].to_pylist() == values
    graph.tables.export("edges", tmp_path / "edges.npy")
    assert np.load(tmp_path / "edges.npy", allow_pickle=False).tolist() == read(graph)["edges"]
    with pytest.raises(InputError, match="the ids of table 'nodes/é' are not 0 to 59"):
        graph.tables.export("nodes/é", tmp_path / "nodes.npy")


@pytest.mark.parametrize("name", ["step-1-00000000", "step-1-00000000/halohop.tables"])
def test_a_link_in_the_folder_is_not_followed(divide: Divide, tmp_path: Path, name: str) -> None:
    """What it leads to looks like an older checkpoint, which a save would remove."""
    graph = divide(2)
    make(graph)
    graph.tables.save(tmp_path / "foreign", step=1)
    (foreign,) = (tmp_path / "foreign").iterdir()
    before = sorted(foreign.rglob("*"))
    waiting = tmp_path / "run" / name
    waiting.parent.mkdir(parents=True)
    waiting.symlink_to(foreign)
    with pytest.raises(InputError, match=f"{waiting} is a symbolic link to {foreign}"):
        graph.tables.save(tmp_path / "run", step=2)
    assert sorted(foreign.rglob("*")) == before
