"""The tables of a source while they are partitioned: in memory, or in files beside the result where memory would be short."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halohop.datasets.estimate import source_bytes, source_files
from halohop.datasets.sizing import stored_sizes
from halohop.datasets.sources import read_source
from halohop.datasets.splits import FRACTIONS
from halohop.datasets.staging import Staging, staging_in
from halohop.files import writing
from halohop.partitioning.building.layout import check_budget, fixed_bytes
from halohop.partitioning.planning.budget import Budget
from halohop.partitioning.steps.steps import Step, StepProgress, Steps
from halohop.store.tables import GraphTables
from halohop.typing import OnProgress

_SHARE, _ASKED_SHARE = (
    2,
    64,
)  # of the budget, that a source may take in memory: where it is the default, and where it was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is read: see `halohop.load_source`."""

    source: str
    seed: int = 0
    undirected: bool = False
    normalize: bool = False


@contextmanager
def tables_of(
    reading: Reading,
    out: Path,
    *,
    memory: str | None,
    worker: bool,
    progress: OnProgress,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[GraphTables]:
    """The tables of a source, for as long as the block lasts.

    Those that would take more than half of the memory (with a `memory` that was asked for, more than a chunk of it) are in files
    in the folder ``OUT.source``, where a reading that was killed goes on, and which is removed at the end of the block.

    Args:
        reading: what is read.
        out: what is made of it.
        memory: how much may be taken; None is half of what is available.
        worker: whether other processes share the work: one of them reads, into files.
        progress: called with (stage, done, total), in bytes.
        say: called with what a user must know of the source.

    Raises:
        InputError, DatasetError: as `halohop.load_source`; or the folder is that of another source, or `memory` is too little for
            the numbers of its nodes.
        WriteError: a file cannot be written.
    """
    options: dict[str, Any] = {"seed": reading.seed, "undirected": reading.undirected, "normalize": reading.normalize}

    def made(staging: Staging) -> GraphTables:
        return read_source(reading.source, staging, fractions=FRACTIONS, **options)

    budget, size = Budget.parse(memory), source_bytes(reading.source)
    if not worker and size <= budget.bytes // (_SHARE if memory is None else _ASKED_SHARE):
        progress("read", 0, 1)
        yield made(Staging(say=say))
        return
    if memory is not None:  # before all of it is read
        sizes = stored_sizes(reading.source)
        if sizes is not None and not sizes.guessed:
            check_budget(budget, fixed_bytes([table.rows for table in sizes.nodes.values()]))
    folder = out.with_name(f"{out.name}.source")
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    plan = {"source": reading.source, **options, "files": files_digest(source_files(reading.source))}
    with Steps(folder, plan, progress=progress) as steps:

        def read(progress: StepProgress) -> None:
            written = [0]

            def wrote(num_bytes: int) -> None:
                written[0] += num_bytes
                progress(written[0])

            made(staging_in(folder / "columns", budget, wrote))

        steps.run("read", [Step(name=f"read {reading.source}", run=read, size=max(size, 1))])
        yield made(staging_in(folder / "columns", budget, say=say))


def files_digest(files: list[Path]) -> str:
    """Of the names of files, their sizes and times: the same on all hosts that share them."""
    found = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in sorted(files)]
    return hashlib.blake2b(repr(found).encode(), digest_size=8).hexdigest()
