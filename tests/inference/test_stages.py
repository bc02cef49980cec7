import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
from halohop.errors import InputError
from halohop.inference.stages import Chunk, Stage, begin, end
from halohop.store.disk import map_part, read_manifest
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.schema import ColumnSpec
from halohop.world import World

BOUNDS = {"a": (0, 5, 5, 9), "b": (0, 0, 0, 1)}
COLUMNS = {"a": {"h": ColumnSpec(dtype="float32", shape=(2,))}, "b": {"h": ColumnSpec(dtype="int64", shape=())}}


def chunk(part: int, node_type: str, begin: int, end: int) -> Chunk:
    return Chunk(part=part, node_type=node_type, begin=begin, end=end)


def test_chunks_cover_every_node_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, 0, BOUNDS, COLUMNS)
    assert stage.chunks((0, 1), 3) == [chunk(0, "a", 0, 3), chunk(0, "a", 3, 5)]
    assert stage.chunks((2,), 4) == [chunk(2, "a", 0, 4), chunk(2, "b", 0, 1)]


def test_what_is_finished_is_a_healthy_data_set(tmp_path: Path) -> None:
    """Checksums, sizes and headers are those that the store writes and reads; verified byte by byte."""
    stage = Stage(tmp_path, 0, BOUNDS, COLUMNS)
    parts = (0, 1, 2)
    stage.reserve(parts)
    rows = torch.arange(18.0).view(9, 2)
    with stage.journal(0) as journal:
        for piece in stage.chunks(parts, 3):
            offset = BOUNDS[piece.node_type][piece.part]
            kept = rows[offset + piece.begin : offset + piece.end] if piece.node_type == "a" else torch.tensor([7])
            journal.keep(piece, {"h": kept})
    checksums = [0] * stage.num_sums((0, 1, 2))
    for part in parts:
        for number, checksum in stage.checksums((part,), 3):
            checksums[number] = checksum
    assert not stage.finished
    stage.finish(checksums)
    assert stage.finished
    for part in parts:
        map_part(stage.folder, read_manifest(stage.folder), part, verify=True)
    with halohop.open(stage.folder, world=World()) as graph:
        queries = (
            RowQuery(table="a", columns=("h",), gid=torch.arange(9)),
            RowQuery(table="b", columns=("h",), gid=torch.arange(1)),
        )
        (a,), (b,) = graph.fetch(FetchRequest(queries=queries))
    assert torch.equal(a, rows)
    assert b.tolist() == [7]
    stage.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_line_cut_short_does_not_count_and_spoils_no_other(tmp_path: Path) -> None:
    stage = Stage(tmp_path, 0, BOUNDS, COLUMNS)
    stage.reserve((0,))
    first, second = stage.chunks((0,), 3)
    with stage.journal(4) as journal:
        journal.keep(first, {"h": torch.ones(3, 2)})
    (file,) = tmp_path.glob("*.done/*")
    whole = file.read_bytes()
    file.write_bytes(whole + whole.strip()[:-3])
    assert stage.done() == {first}
    with stage.journal(4) as journal:
        journal.keep(second, {"h": torch.ones(2, 2)})
    assert stage.done() == {first, second}
    stage.reserve((0,))  # what is there stays
    assert (tmp_path / "stage-00/part-0000/nodes/a/h.npy").read_bytes().endswith(torch.ones(5, 2).numpy().tobytes())


def test_a_run_is_found_again_and_another_is_refused(tmp_path: Path) -> None:
    run: dict[str, str | int] = {"graph": "g", "model": "m", "batch_size": 3}
    begin(tmp_path / "work", run)
    begin(tmp_path / "work", run)
    with pytest.raises(InputError, match="another batch_size, model"):
        begin(tmp_path / "work", run | {"model": "n", "batch_size": 4})
    end(tmp_path / "work", [])
    begin(tmp_path / "work", run | {"model": "n"})


class Killed(BaseException):
    """What no handler of errors catches."""


@pytest.mark.parametrize("remove", [os.unlink, os.rmdir], ids=["file", "folder"])
def test_a_kill_while_a_run_is_deleted_leaves_nothing_that_another_run_would_use(
    remove: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same run a stage that is finished is whole; another run is refused, or finds nothing."""
    work, kept = tmp_path / "work", tmp_path / "kept"
    begin(kept, {"model": "m"})
    for number in range(2):
        stage = Stage(kept, number, BOUNDS, COLUMNS)
        stage.reserve((0, 1, 2))
        with stage.journal(0) as journal:
            journal.keep(chunk(0, "a", 0, 5), {"h": torch.ones(5, 2)})
        stage.finish([0] * stage.num_sums((0, 1, 2)))
    deleted, kills = 0, 0
    while deleted == kills:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(kept, work)
        kills, deleted = kills + 1, 0

        def dying(*arguments: Any, last: int = kills, **options: Any) -> None:
            nonlocal deleted
            deleted += 1
            remove(*arguments, **options)
            if deleted == last:
                raise Killed

        stages = [Stage(work, number, BOUNDS, COLUMNS) for number in range(2)]
        with monkeypatch.context() as patch:
            patch.setattr(os, remove.__name__, dying)
            try:
                end(work, stages)
            except Killed:
                pass
            else:
                break
        for stage in stages:
            files = len(list(stage.folder.rglob("*.npy")))
            assert files == stage.num_sums((0, 1, 2)) if stage.finished else True
            assert (work / "run.json").exists() or not (stage.finished or stage.done() or files)
    assert kills > 8
    assert not work.exists()
