"""A build from its beginning to its end: alone in this process, or in a folder where it can be shared and goes on when killed."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from halohop.errors import InputError, WriteError
from halohop.files.aside import clear_abandoned, writing
from halohop.files.urls import refuse_url
from halohop.files.whole import sync_tree, write_file
from halohop.partitioning.assigners.division import Division
from halohop.partitioning.building.contents import Contents
from halohop.partitioning.building.fingerprint import fingerprint
from halohop.partitioning.building.layout import Memory, is_small, plan_memory
from halohop.partitioning.building.passes import Passes
from halohop.partitioning.building.report import PartReport, Report
from halohop.partitioning.building.running import HereAlone, InFolder, Runner, step
from halohop.partitioning.planning.budget import Budget
from halohop.partitioning.steps.steps import StepProgress, Steps
from halohop.store.disk import read_manifest
from halohop.store.manifest import Manifest, encode, part_folder
from halohop.store.names import MANIFEST
from halohop.store.tables import GraphTables
from halohop.store.weight_sums import ColumnSums, with_sums, write_sums
from halohop.store.writer import check_target, new_dataset, publish_dataset
from halohop.typing import EdgeDir, OnProgress, Relation

Divide = Callable[[Budget, Path], Division]
"""Divides the nodes, in so much memory, with a folder for what does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """What is built, see `halohop.partitioning.building.build.partition`.

    Args:
        partitioned: as of `Manifest`.
        divided: what else the division of the nodes depends on, as JSON.
        weight_sums: by relation, the columns of weights whose running sums are stored.
    """

    num_parts: int
    halo: tuple[str, ...]
    edge_dir: EdgeDir
    overwrite: bool
    memory: str | int | None
    worker: bool
    partitioned: dict[str, str | int]
    divided: dict[str, Any]
    weight_sums: dict[Relation, tuple[str, ...]]


def build(
    tables: GraphTables,
    out: str | Path,
    request: BuildRequest,
    divide: Divide,
    progress: OnProgress,
) -> Report:
    """Writes a data set.

    Args:
        tables: the graph.
        out: its folder.
        request: what is built.
        divide: is called once, in one of the processes.
        progress: called with the stage, how much of it is done, and its size.

    Raises:
        InputError: `out` is there already, or there is not enough memory.
        WriteError: a file cannot be written; names it.
    """
    refuse_url(out, "out", "give a folder here; `halohop upload` writes to a URL")
    folder = Path(out).resolve()
    if request.worker and (found := finished(folder, overwrite=request.overwrite)) is not None:
        return found
    if not (request.worker and work_folder(folder).exists()):
        check_target(folder, overwrite=request.overwrite)
    budget = Budget.parse(request.memory)
    memory = plan_memory(tables, request.halo, budget, asked=request.memory is not None)
    if request.worker or not is_small(tables, request.halo, memory, budget):
        return _in_folder(tables, folder, request, divide, memory, progress)
    with new_dataset(folder, overwrite=request.overwrite) as data:
        runner = HereAlone(memory.threads, progress)
        passes = _passes(tables, request, runner, memory, data=data, scratch=None)
        contents = passes.run(partial(divide, memory.whole, data))
        manifest, report = _measured(contents, data, runner, request, sync=False)
        write_file(data / MANIFEST, encode(manifest))
    return report


def work_folder(out: Path) -> Path:
    """Where the state of a build lies that other processes may share."""
    return out.with_name(f"{out.name}.build")


def finished(out: Path, *, overwrite: bool) -> Report | None:
    """What a worker that comes late finds: the report of a data set that is there; None where there is something left to do.

    Raises:
        InputError: with `overwrite`, by which a worker that comes late would begin anew.
    """
    if overwrite:
        raise InputError(f"workers that share a build cannot replace {out}; delete it first, and leave overwrite out")
    if work_folder(out).exists() or not (out / MANIFEST).is_file():
        return None
    with writing(work_folder(out)):
        clear_abandoned(work_folder(out))  # the worker that published the data set may have been killed while it removed this
    report = read_manifest(out).report
    return Report.from_dict(report) if report else None


def _in_folder(
    tables: GraphTables,
    folder: Path,
    request: BuildRequest,
    divide: Divide,
    memory: Memory,
    progress: OnProgress,
) -> Report:
    """The same with other processes, and so that it goes on after a kill."""
    plan = {
        **fingerprint(tables),
        "partitions": request.num_parts,
        "halo": request.halo,
        "edge_dir": request.edge_dir,
        "weight sums": [[relation, names] for relation, names in request.weight_sums.items()],
        "memory": None if request.memory is None else str(request.memory),
        "divided by": {**request.divided, **request.partitioned},
    }
    work = work_folder(folder)
    with writing(work):
        work.parent.mkdir(parents=True, exist_ok=True)
    with Steps(work, plan, threads=memory.threads, progress=progress) as steps:
        runner, data = InFolder(steps), work / "data"
        # How tables are cut follows from it, and each worker may find another amount of memory, also of the same budget.
        (room,) = runner.run("plan", [step("room", lambda progress: memory.room)])
        memory = memory.of_room(room)
        steps.threads = memory.threads
        passes = _passes(tables, request, runner, memory, data=data, scratch=work)
        contents = passes.run(partial(divide, memory.whole, work))
        manifest, report = _measured(contents, data, runner, request, sync=True)
        publish = step("publish", _publish, data, folder, encode(manifest), request.overwrite)
        runner.run("publish", [publish])
    return report


def _passes(
    tables: GraphTables, request: BuildRequest, runner: Runner, memory: Memory, *, data: Path, scratch: Path | None
) -> Passes:
    return Passes(
        tables=tables,
        num_parts=request.num_parts,
        halo=request.halo,
        edge_dir=request.edge_dir,
        runner=runner,
        folder=data,
        scratch=scratch,
        memory=memory,
    )


def _measured(contents: Contents, folder: Path, runner: Runner, request: BuildRequest, *, sync: bool) -> tuple[Manifest, Report]:
    """Finishes all partitions; `sync`: each is on the disk when it is finished."""

    def finish(part: int, progress: StepProgress) -> Any:
        held, report = contents.finish_part(folder, part)
        first = {relation: contents.book.offset(relation, part) for relation in request.weight_sums}
        sums = write_sums(folder, part, held.edges, request.weight_sums, first)
        if sync:
            sync_tree(folder / part_folder(part))
        return msgspec.to_builtins({"report": report, "sums": sums})

    steps = [step(f"finish partition {part}", finish, part) for part in range(request.num_parts)]
    found = runner.run("finish", steps)
    report = Report(parts=tuple(msgspec.convert(own["report"], PartReport) for own in found))
    sums = [one for own in found for one in msgspec.convert(own["sums"], list[ColumnSums])]
    return with_sums(contents.manifest(request.partitioned, report.to_dict()), sums), report


def _publish(data: Path, folder: Path, manifest: bytes, overwrite: bool, progress: StepProgress) -> None:
    """Gives the data set its name; done again, it finds it there."""
    with suppress(FileNotFoundError):
        if (folder / MANIFEST).read_bytes() == manifest:
            return
    write_file(data / MANIFEST, manifest)  # syncs the names of the partitions, too
    try:
        publish_dataset(data, folder, overwrite=overwrite)
    except InputError as error:  # by which all that was built would be removed
        raise WriteError(f"{error}; the partitions are complete, and get their name when the same command runs again") from error
