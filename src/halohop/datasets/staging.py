"""Where the columns of a source are collected: in memory, or chunk by chunk in files of a scratch folder, which are mapped.

A reader yields chunks of its columns; a `Staging` makes tensors of them. In memory there is one chunk, the whole; with a scratch
folder nothing larger than a chunk is ever in memory. What is finished in the folder is not made again: a process that was killed
goes on where it stopped.

Parsing the text again in each pass of a build would save the files (16 bytes an edge, and the columns), and parse it four
times.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import torch
from torch import Tensor

from halohop.datasets.growing import GrowingArray, WiderError, map_grown
from halohop.errors import CorruptDatasetError
from halohop.files.aside import writing
from halohop.files.reading import decode_json, read_regular
from halohop.files.whole import whole_file, write_file
from halohop.memory import release
from halohop.partitioning.planning.budget import Budget
from halohop.store.tables import EdgeTable, GraphTables, is_dense

_LOG = logging.getLogger(__name__)

CHUNK_BYTES = 16 << 20
"""How much of a source is in memory at a time, by default; a reader holds a few of such chunks."""

_LONGEST_NAME = 120
_TEXT_SHARE = 4
_CHUNKS_OF_BUDGET, _LEAST_CHUNK = 64, 2 << 20

Chunk = Mapping[str, Tensor]
Item = TypeVar("Item")
Value = TypeVar("Value")


def _nothing(num_bytes: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """What is known of a column in a file."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Collects the columns of a source.

    Args:
        folder: where files are written; None collects in memory.
        chunk_bytes: about the size of a chunk.
        memory: how many bytes may be held of what is needed for every node, such as a table of ids; None sets no limit.
        wrote: called with the bytes of each chunk that was written.
        say: called with what a user must know of the source, such as a split that was made; by default it is logged.

    Example:
        >>> halves = lambda: iter([torch.arange(3), torch.arange(3)])
        >>> Staging().column("x", halves).tolist(), Staging(folder=Path("scratch")).column("x", halves).tolist()
        ([0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 2])
    """

    folder: Path | None = None
    chunk_bytes: int = CHUNK_BYTES
    memory: int | None = None
    wrote: Callable[[int], None] = _nothing
    say: Callable[[str], None] = _LOG.info

    @property
    def text_bytes(self) -> int:
        """How much of a text file is read at a time: its reader is some blocks ahead, as text and as numbers."""
        return max(self.chunk_bytes // _TEXT_SHARE, min(self.chunk_bytes, 1 << 20))

    def column(self, name: str, make: Callable[[], Iterable[Tensor]], num_rows: int | None = None) -> Tensor:
        """One column from its chunks; see `columns`."""
        return self.columns(name, lambda: ({"": chunk} for chunk in make()), num_rows)[""]

    def columns(self, name: str, make: Callable[[], Iterable[Chunk]], num_rows: int | None = None) -> dict[str, Tensor]:
        """Columns that are read together.

        Args:
            name: of this group of columns, the same whenever the source is read.
            make: yields chunks of all of them; called again where a later chunk has a wider dtype than those before.
            num_rows: how many rows there are, where that is known and they are of one dtype: in memory, chunks are then not
                kept beside the whole.

        Returns:
            What `torch.cat` makes of the chunks that have rows; mapped, where there is a folder.

        Raises:
            WriteError: a file cannot be written.
        """
        if self.folder is None:
            return _filled(make(), num_rows) if num_rows else _joined(list(make()))
        staged = self.fact(name, lambda: self._written(name, make), dict[str, _Staged])
        return {key: self._mapped(self._file(name, f".{number}.npy"), staged[key]) for number, key in enumerate(staged)}

    def fact(self, name: str, find: Callable[[], Value], kind: type[Value] | Any) -> Value:
        """Something small that takes a pass over the source to find: with a folder it is kept there, as JSON of type `kind`."""
        if self.folder is None:
            return find()
        record = self._file(name, ".json")
        if not record.is_file():
            record.parent.mkdir(parents=True, exist_ok=True)
            write_file(record, msgspec.json.encode(find()))
        value: Value = decode_json(read_regular(record), record, kind)
        return value

    def kept(self, name: str, column: Tensor) -> Tensor:
        """A column that is in memory; with a folder it is moved there, unless it is sparse."""
        if self.folder is None or not is_dense(column):
            return column
        return self.column(name, lambda: (column[rows] for rows in self.slices_of(column)))

    def again(self, make: Callable[[], Iterable[Item]]) -> Callable[[], Iterable[Item]]:
        """The same chunks, for several passes: read once where they may stay in memory, else each time."""
        if self.folder is not None:
            return make
        chunks = list(make())
        return lambda: chunks

    def slices(self, num_rows: int, row_bytes: int) -> Iterator[slice]:
        """The rows of each chunk; at least one, and in memory only one."""
        step = num_rows if self.folder is None else self.chunk_bytes // max(row_bytes, 1)
        for first in range(0, max(num_rows, 1), max(step, 1)):
            yield slice(first, min(first + max(step, 1), num_rows))

    def slices_of(self, *columns: Tensor) -> Iterator[slice]:
        """The same for dense columns of one length that are read together."""
        return self.slices(len(columns[0]), sum(column[:1].numel() * column.element_size() for column in columns))

    def _written(self, name: str, make: Callable[[], Iterable[Chunk]]) -> dict[str, _Staged]:
        wider: dict[str, torch.dtype] = {}
        while True:
            try:
                return self._written_once(name, make(), wider)
            except WiderError as found:
                wider[found.name] = found.dtype

    def _written_once(self, name: str, chunks: Iterable[Chunk], wider: Mapping[str, torch.dtype]) -> dict[str, _Staged]:
        arrays: dict[str, GrowingArray] = {}
        staged: dict[str, _Staged] = {}
        with ExitStack() as files:
            for chunk in chunks:
                for key, rows in chunk.items():
                    if key not in arrays:
                        stream = files.enter_context(whole_file(self._file(name, f".{len(arrays)}.npy")))
                        arrays[key] = GrowingArray(stream, key, wider.get(key))
                    self.wrote(arrays[key].append(rows))
            for key, array in arrays.items():
                array.finish()
                staged[key] = _Staged(dtype=str(array.dtype).removeprefix("torch."), shape=array.shape)
        release()  # what readers and chunks have taken
        return staged

    def _mapped(self, file: Path, column: _Staged) -> Tensor:
        rows = map_grown(file, getattr(torch, column.dtype), column.shape)
        if rows is None:
            raise CorruptDatasetError(f"{file} has changed since it was written; remove {self.folder} and start again")
        return rows

    def _file(self, name: str, suffix: str) -> Path:
        assert self.folder is not None
        text = quote(name, safe=" ")
        if len(text) > _LONGEST_NAME:
            text = f"{text[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        return self.folder / f"{text}{suffix}"


def staging_in(
    folder: Path, budget: Budget, wrote: Callable[[int], None] = _nothing, say: Callable[[str], None] = _LOG.info
) -> Staging:
    """A staging in a folder, which is made where it is missing, whose chunks are a small part of a budget."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    chunk_bytes = max(min(budget.bytes // _CHUNKS_OF_BUDGET, CHUNK_BYTES), _LEAST_CHUNK)
    return Staging(folder=folder, chunk_bytes=chunk_bytes, memory=budget.bytes // 2, wrote=wrote, say=say)


def kept(staging: Staging, tables: GraphTables) -> GraphTables:
    """A graph that is in memory; with a folder its columns are moved there."""

    def moved(name: str, columns: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {key: staging.kept(f"{name}.{key}", column) for key, column in columns.items()}

    nodes, edges = {}, {}
    for node_type, table in tables.nodes.items():
        raw_id = None if table.raw_id is None else staging.kept(f"nodes.{node_type}.raw_id", table.raw_id)
        nodes[node_type] = replace(table, columns=moved(f"nodes.{node_type}.columns", table.columns), raw_id=raw_id)
    for relation, edge_table in tables.edges.items():
        name = f"edges.{'__'.join(relation)}"
        ends = moved(name, {"src": edge_table.src, "dst": edge_table.dst})
        edges[relation] = EdgeTable(src=ends["src"], dst=ends["dst"], columns=moved(f"{name}.columns", edge_table.columns))
    return GraphTables(nodes=nodes, edges=edges)


def _joined(chunks: Sequence[Chunk]) -> dict[str, Tensor]:
    joined = {}
    for key in chunks[0]:
        rows = [chunk[key] for chunk in chunks if len(chunk[key])] or [chunks[0][key]]
        joined[key] = torch.cat(rows) if len(rows) > 1 else rows[0]
    return joined


def _filled(chunks: Iterable[Chunk], num_rows: int) -> dict[str, Tensor]:
    whole: dict[str, Tensor] = {}
    done = 0
    for chunk in chunks:
        for key, rows in chunk.items():
            if key not in whole:
                whole[key] = rows.new_empty((num_rows, *rows.shape[1:]))
            whole[key][done : done + len(rows)] = rows
        done += len(rows)
    assert done == num_rows, f"{done} rows, not {num_rows}"
    return whole
