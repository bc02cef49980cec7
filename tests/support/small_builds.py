"""Builds of `featured_tables` in very little memory, here and in processes of their own, which may be killed at any write."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import msgspec

from halohop.partitioning import building, layout
from halohop.partitioning.build import partition
from halohop.partitioning.layout import Memory
from halohop.partitioning.report import Report
from halohop.store.npy import ArrayFile
from tests.support.featured import featured_tables, random_parts

DEADLINE_S = 60


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
    change(building, "plan_memory", lambda *given, **more: Memory(threads=threads, room=room))
    change(building, "is_small", lambda *given: False)
    change(layout, "_STEP_BYTES", step_bytes)


def started(seed: int, out: Path, *, writes: int | None = None, worker: bool = False) -> ForkServerProcess:
    """A process that builds a graph; it kills itself at the write of that number."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["halohop.partitioning.build", __name__])
    process = context.Process(target=_build, args=(seed, out, writes, worker))
    process.start()
    return process


def ended(process: ForkServerProcess) -> int:
    """The exit code of a process, which must end in time."""
    process.join(DEADLINE_S)
    assert process.exitcode is not None, f"process {process.pid} runs on"
    code = process.exitcode
    process.close()
    return code


def _build(seed: int, out: Path, writes: int | None, worker: bool) -> None:
    in_little_memory(setattr, 3000, 2000, 2)
    if writes is not None:
        left, write = [writes], ArrayFile.write

        def counted(self: ArrayFile, *given: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(self, *given)

        ArrayFile.write = counted  # type: ignore[method-assign]
    build(seed, out, worker=worker, overwrite=True)


def plain_json(value: object) -> bytes:
    """A record as JSON, the same for equal records."""
    return msgspec.json.encode(msgspec.to_builtins(value), order="sorted")
