"""What layer-wise inference keeps on disk: the rows of each stage, and which of them are done.

A stage is a data set of its own, with the graph's nodes and partitions and no edges. So its rows are read as features are, with
`halohop.open`: mapped where they lie here, asked of the host that computed them where they do not. Its manifest is written last.

Until then a journal says which chunks are done: a line is added, and forced to the disk, after the chunk's rows have reached it.
A line cut short by a crash is no JSON and does not count. Rows are a pure function of the graph, the model and the sizes of
batches, which `begin` remembers; so a chunk that is done is right, whichever rank did it.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.files.aside import writing
from halohop.files.reading import decode_json, read_regular
from halohop.files.whole import publish, set_aside, sync_folder, write_file
from halohop.store.manifest import Manifest, column_file, encode, table_folder
from halohop.store.names import MANIFEST
from halohop.store.npy import ArrayFile, num_sums, record_of, sum_array
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.typing import NodeType

RUN = "run.json"
HIDDEN = "h"
"""The column of the rows between two stages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Consecutive nodes of a type in a partition, the lids ``begin <= lid < end``."""

    part: int
    node_type: NodeType
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """One array of a stage."""

    part: int
    node_type: NodeType
    column: str
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def path(self) -> str:
        return column_file(self.part, self.node_type, self.column)


def begin(work: Path, run: dict[str, str | int]) -> None:
    """Makes the folder of a run, or finds the one of a run that was stopped.

    Raises:
        InputError: that one was another run; says in what.
    """
    file = work / RUN
    with suppress(FileNotFoundError):
        before: dict[str, Any] = decode_json(read_regular(file), file, dict[str, Any])
        other = sorted(name for name in {*before, *run} if before.get(name) != run.get(name))
        if other:
            raise InputError(
                f"{work} holds an unfinished run with another {', '.join(other)}; delete that folder, write to another one, "
                "or finish that run first"
            )
        return
    with writing(work):
        work.mkdir(parents=True, exist_ok=True)
    write_file(file, msgspec.json.encode(run))


def end(work: Path, stages: Sequence["Stage"]) -> None:
    """Deletes all that a run has kept, and last what it is: of a kill meanwhile nothing is left that another run takes for its
    own."""
    for stage in stages:
        stage.remove()
    shutil.rmtree(work, ignore_errors=True)  # another host may be deleting the same folder


class Stage:
    """The rows of one stage on this host's disk.

    Args:
        work: folder of the run.
        number: of the stage.
        bounds: gid ranges of the graph's partitions, per node type.
        columns: what the stage gives the nodes of each type that it computes.
    """

    def __init__(
        self,
        work: Path,
        number: int,
        bounds: dict[NodeType, tuple[int, ...]],
        columns: dict[NodeType, dict[str, ColumnSpec]],
    ) -> None:
        self.folder = work / f"stage-{number:02d}"
        self._journals = work / f"stage-{number:02d}.done"
        self._bounds = {name: bounds[name] for name in columns}
        self.columns = columns

    @property
    def finished(self) -> bool:
        return (self.folder / MANIFEST).is_file()

    def chunks(self, parts: tuple[int, ...], size: int) -> list[Chunk]:
        """All nodes of some partitions, at most `size` at a time."""
        return [
            Chunk(part=part, node_type=name, begin=begin, end=min(begin + size, self._count(name, part)))
            for part in parts
            for name in self.columns
            for begin in range(0, self._count(name, part), size)
        ]

    def done(self) -> set[Chunk]:
        """The chunks that need not be computed again."""
        found = set()
        for journal in self._journals.glob("*.jsonl"):
            for line in read_regular(journal).splitlines():
                with suppress(msgspec.DecodeError, RecursionError):  # cut short, or empty
                    found.add(msgspec.json.decode(line, type=Chunk))
        return found

    def reserve(self, parts: tuple[int, ...]) -> None:
        """Makes the files of some partitions, where they are not there yet; the room that they need is taken now."""
        with writing(self.folder):
            self._journals.mkdir(parents=True, exist_ok=True)
            for part in parts:
                for name in self.columns:
                    (self.folder / table_folder(part, name)).mkdir(parents=True, exist_ok=True)
        for file in self._files(parts):
            path = self.folder / file.path
            if not path.is_file():
                with set_aside([path]) as (partial,):
                    ArrayFile.reserve(partial, file.dtype, file.shape)
                    publish({partial: path})
        for folder in [path for path in self.folder.rglob("*") if path.is_dir()]:
            sync_folder(folder)
        for folder in (self.folder, self._journals, self.folder.parent):
            sync_folder(folder)

    @contextmanager
    def journal(self, rank: int) -> "Iterator[Journal]":
        """Where this rank writes what it has done."""
        file = self._journals / f"rank-{rank}.jsonl"
        with writing(file):
            stream = file.open("ab", buffering=0)
        with stream:
            with writing(file):
                stream.write(b"\n")  # a line that a crash cut short ends here
            sync_folder(self._journals)
            yield Journal(stage=self, file=file, descriptor=stream.fileno())

    def write(self, chunk: Chunk, rows: dict[str, Tensor]) -> None:
        """Writes the rows of a chunk, through to the disk."""
        for name, values in rows.items():
            file = self._file(chunk.part, chunk.node_type, name)
            with ArrayFile(self.folder / file.path, file.dtype, file.shape) as array:
                array.write(chunk.begin, values.to(file.dtype))
                array.sync()

    def checksums(self, parts: tuple[int, ...], all_parts: int) -> Iterator[tuple[int, int]]:
        """(which of all checksums, its value) of the files of some partitions, each read once."""
        number = 0
        for file in self._files(tuple(range(all_parts))):
            if file.part in parts:
                yield from enumerate(sum_array(self.folder / file.path), number)
            number += num_sums(file.dtype, file.shape)

    def finish(self, checksums: list[int]) -> None:
        """Writes the manifest: from now on the stage is a data set."""
        parts = tuple(range(len(next(iter(self._bounds.values()))) - 1))
        tables = {name: TableSpec(count=self._bounds[name][-1], columns=specs) for name, specs in self.columns.items()}
        rest = iter(checksums)
        files = {
            file.path: record_of(file.dtype, file.shape, list(islice(rest, num_sums(file.dtype, file.shape))))
            for file in self._files(parts)
        }
        manifest = Manifest(
            schema=Schema(nodes=tables, edges={}),
            node_bounds=self._bounds,
            edge_bounds={},
            files=files,
            partitioned={},
            report={},
        )
        write_file(self.folder / MANIFEST, encode(manifest))  # all hosts write the same, so who comes last does not matter

    def remove(self) -> None:
        """Deletes the rows, and what is known of them; first the manifest, so that a stage without some rows is not finished."""
        with writing(self.folder / MANIFEST):
            (self.folder / MANIFEST).unlink(missing_ok=True)
        for folder in (self._journals, self.folder):
            shutil.rmtree(folder, ignore_errors=True)  # another host may be deleting the same ones

    def num_sums(self, parts: tuple[int, ...]) -> int:
        """How many checksums the files of some partitions have."""
        return sum(num_sums(file.dtype, file.shape) for file in self._files(parts))

    def _count(self, name: NodeType, part: int) -> int:
        return self._bounds[name][part + 1] - self._bounds[name][part]

    def _files(self, parts: tuple[int, ...]) -> list[_File]:
        return [self._file(part, name, column) for part in parts for name, specs in self.columns.items() for column in specs]

    def _file(self, part: int, name: NodeType, column: str) -> _File:
        spec = self.columns[name][column]
        shape = (self._count(name, part), *spec.shape)
        return _File(part=part, node_type=name, column=column, dtype=getattr(torch, spec.dtype), shape=shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Writes chunks, and remembers that it did."""

    stage: Stage
    file: Path
    descriptor: int

    def keep(self, chunk: Chunk, rows: dict[str, Tensor]) -> None:
        """The rows first, then the line that says they are there; both through to the disk."""
        self.stage.write(chunk, rows)
        with writing(self.file):
            os.write(self.descriptor, msgspec.json.encode(chunk) + b"\n")
            os.fsync(self.descriptor)
