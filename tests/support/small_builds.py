"""Builds of `featured_tables` in very little memory, here and in processes of their own, which may be killed at any write."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from halohop.partitioning.building import dataset, layout
from halohop.partitioning.building.build import partition
from halohop.partitioning.building.layout import Memory
from halohop.partitioning.building.report import Report
from halohop.store.npy import ArrayFile
from tests.support.featured import featured_tables, random_parts
from tests.support.forked import Forked

DEADLINE_S = 200


def build(seed: int, out: Path, scale: int = 1, **options: Any) -> Report:
    """A build of one graph, with options that follow from the seed."""
    num_parts = (1, 2, 3, 5)[seed % 4]
    tables = featured_tables(seed, scale)
    return partition(
        tables,
        out,
        num_parts=num_parts,
        method=random_parts(tables, num_parts, seed),
        halo=((), ("raw_id",), ("seen", "raw_id"))[seed % 3],
        edge_dir="in" if seed // 2 % 2 == 0 else "out",
        **options,
    )


def in_little_memory(change: Callable[[object, str, object], None], room: int, step_bytes: int, threads: int = 1) -> None:
    """Makes builds go through files, with steps of so few bytes; `change` is `setattr`, or one that is undone."""
    change(dataset, "plan_memory", lambda *given, **more: Memory(threads=threads, room=room))
    change(dataset, "is_small", lambda *given: False)
    change(layout, "_STEP_BYTES", step_bytes)


def started(seed: int, out: Path, *, writes: int = -1, worker: bool = False) -> Forked:
    """A process that builds a graph; it kills itself at the write of that number, if that is not negative."""
    arguments = [str(seed), str(out), str(writes), str(int(worker))]
    return Forked("tests.support.small_builds", arguments, os.environ | {"PYTHONPATH": str(Path.cwd())})


def ended(process: Forked) -> int:
    """The exit code of a process, which must end in time."""
    try:
        return process.wait(DEADLINE_S)
    finally:
        process.kill()
        process.close()


def plain_json(value: object) -> bytes:
    """A record as JSON, the same for equal records."""
    return msgspec.json.encode(msgspec.to_builtins(value), order="sorted")


def _build(seed: int, out: Path, writes: int, worker: bool) -> None:
    in_little_memory(setattr, 3000, 2000, 2)
    if writes >= 0:
        left, write = [writes], ArrayFile.write

        def counted(self: ArrayFile, *given: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(self, *given)

        ArrayFile.write = counted  # type: ignore[method-assign]
    build(seed, out, worker=worker, overwrite=not worker)


if __name__ == "__main__":
    _build(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
