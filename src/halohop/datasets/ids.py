"""The users' ids of nodes, any integers or strings, and which row of a node table has which."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import Column, pyarrow
from halohop.datasets.staging import Staging
from halohop.datasets.table_columns import plain
from halohop.datasets.table_parts import Part, parts_of
from halohop.datasets.text import Texts, collect_texts
from halohop.errors import IdError, InputError
from halohop.memory import format_size
from halohop.ops import KeyIndex
from halohop.typing import NodeType

INTEGERS, STRINGS = "int64", "large_string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """The ids of the nodes of one type, in the order of their table.

    Args:
        node_type: what errors call the nodes.
        kind: INTEGERS or STRINGS.
        count: how many.
        raw: int64 ``[count]``; None of strings, and of 0, 1, 2, ...
        text: strings as `halohop.datasets.text.text_column` makes them; None of integers.
        index: their rows; None of 0, 1, 2, ...
    """

    node_type: NodeType
    kind: str
    count: int
    raw: Tensor | None = None
    text: Tensor | None = None
    index: KeyIndex | None = None

    def rows(self, part: Part, name: str) -> Tensor:
        """The rows of the ids in a column; int64.

        Raises:
            IdError: no node has an id; names its row and value.
            InputError: ids are of the other kind, or no ids.
        """
        column = _ids(part, name)
        if not len(column):
            return torch.empty(0, dtype=torch.int64)
        if str(column.type) != self.kind and self.count:
            raise InputError(
                f"{part.path}: ids in column {name!r} are {column.type}, but those of {self.node_type!r} are {self.kind}"
            )
        rows = self._found(column) if self.count else torch.full((len(column),), -1)
        unknown = np.flatnonzero(rows.numpy() < 0)
        if len(unknown):
            row = int(unknown[0])
            raise IdError(
                f"{part.path}: column {name!r} holds {column[row].as_py()!r} in row {part.first + row}, "
                f"no id of a node {self.node_type!r}"
            )
        return rows

    def _found(self, column: Column) -> Tensor:
        if self.text is not None:
            assert self.index is not None
            return _found_texts(self.index, texts_in(column), self.text.shape[1])
        ids = integers_in(column)
        if self.index is not None:
            return self.index.find(ids.view(-1, 1).view(torch.uint8))
        return ids.masked_fill(ids >= self.count, -1)


def read_ids(staging: Staging, node_type: NodeType, shown: str, paths: list[Path], name: str) -> Ids:
    """The ids in a column of the table of a node type.

    Args:
        staging: where they are collected.
        node_type: of the nodes.
        shown: what errors call the nodes.
        paths, name: the table's files, and the column.

    Raises:
        InputError: one is there twice; a null; integers in one file and strings in another; neither of them.
    """
    parts = staging.again(lambda: parts_of(staging, paths, [name]))
    kind = staging.fact(f"nodes.{node_type}.ids.kind", lambda: _kind(parts(), paths, name), str)
    ids = _collected(staging, node_type, shown, kind, lambda: (_ids(part, name) for part in parts()))
    if ids.index is not None and ids.index.repeated is not None:
        value, where = _named(parts(), name, ids.index.repeated)
        files = ", ".join(map(str, paths))
        raise InputError(f"column {name!r} of {files} holds the id {value!r} more than once, the second time in {where}")
    return ids


def mentioned_ids(staging: Staging, node_type: NodeType, ends: Sequence[tuple[Path, str]]) -> Ids:
    """The different ids in some columns of edges, sorted: those of a node type without a table.

    Raises:
        InputError: integers in one column and strings in another; a null; neither of them.
    """
    found: list[Column] = []

    def sorted_ids() -> Column:
        if not found:
            found.append(_distinct(staging, node_type, ends))
        return found[0]

    kind = staging.fact(f"nodes.{node_type}.ids.kind", lambda: str(sorted_ids().type), str)
    return _collected(staging, node_type, node_type, kind, lambda: [sorted_ids()])


def integers_in(column: Column) -> Tensor:
    """A column of int64 as a tensor."""
    array = column.combine_chunks() if isinstance(column, pyarrow().ChunkedArray) else column
    return torch.from_numpy(np.require(array.to_numpy(zero_copy_only=False), np.int64, "W"))


def texts_in(column: Column) -> Texts:
    """A column of large strings."""
    pa = pyarrow()
    array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    if not len(array):
        return Texts.of([])
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return Texts(offsets=places, data=np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8))


def _collected(staging: Staging, node_type: NodeType, shown: str, kind: str, make: Callable[[], Iterable[Column]]) -> Ids:
    name = f"nodes.{node_type}.ids"
    if kind == STRINGS:
        text = collect_texts(staging, name, lambda: map(texts_in, make()))
        return Ids(node_type=shown, kind=kind, count=len(text), text=text, index=_index(staging, shown, text))
    raw = staging.column(name, lambda: map(integers_in, make()))
    numbered = staging.fact(f"{name}.numbered", lambda: _are_numbers(staging, raw), bool)
    if numbered:
        return Ids(node_type=shown, kind=kind, count=len(raw))
    index = _index(staging, shown, raw.view(-1, 1).view(torch.uint8))
    return Ids(node_type=shown, kind=kind, count=len(raw), raw=raw, index=index)


def _index(staging: Staging, shown: str, keys: Tensor) -> KeyIndex:
    needed = KeyIndex.bytes_for(len(keys))
    if staging.memory is not None and needed > staging.memory:
        raise InputError(
            f"finding {len(keys)} ids of {shown!r} by their values takes {format_size(needed)}, more than half of the memory to "
            f"work in; give at least {format_size(2 * needed)}, or number the nodes 0, 1, 2, ..."
        )
    return KeyIndex(keys)


def _are_numbers(staging: Staging, raw: Tensor) -> bool:
    """Whether ids are 0, 1, 2, ..."""
    return all(torch.equal(raw[part], torch.arange(part.start, part.stop)) for part in staging.slices_of(raw))


def _found_texts(index: KeyIndex, texts: Texts, width: int) -> Tensor:
    (rows,) = (index.find(piece) for piece in texts.padded(width, (len(texts) + 1) * width))
    ends = texts.offsets[1:]
    ends_in_zero = (texts.lengths > 0) & (texts.data[np.maximum(ends, 1) - 1] == 0) if len(texts.data) else texts.lengths > 0
    rows.numpy()[(texts.lengths > width) | ends_in_zero] = -1
    return rows


def _ids(part: Part, name: str) -> Column:
    """A column of ids as int64 or large strings."""
    pa = pyarrow()
    column = part.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        target = pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        target = pa.large_string()
    else:
        raise InputError(f"{part.path}: ids in column {name!r} are {kind}, expected integers or strings")
    try:
        return plain(column).cast(target)
    except pa.ArrowInvalid as error:
        raise InputError(f"{part.path}: an id in column {name!r} does not fit 64 bits: {error}") from error


def _kind(parts: Iterable[Part], paths: list[Path], name: str) -> str:
    kinds = {str(column.type) for column in (_ids(part, name) for part in parts) if len(column)}
    if len(kinds) > 1:
        raise InputError(f"column {name!r} holds integers in one of {[str(path) for path in paths]} and strings in another")
    return kinds.pop() if kinds else INTEGERS


def _named(parts: Iterable[Part], name: str, row: int) -> tuple[object, str]:
    """The id in a row of all files together, and where it stands."""
    for part in parts:
        if row < len(part.columns[name]):
            return plain(part.columns[name])[row].as_py(), f"row {part.first + row} of {part.path}"
        row -= len(part.columns[name])
    raise AssertionError(f"{name} ends before row {row}")


def _distinct(staging: Staging, node_type: NodeType, ends: Sequence[tuple[Path, str]]) -> Column:
    pa, pc = pyarrow(), pyarrow("compute")
    found, origin = pa.array([], pa.int64()), ""
    new: list[Column] = []

    def joined() -> Column:
        return pc.unique(pa.chunked_array([found, *new]))

    for path, name in ends:
        for part in parts_of(staging, [path], [name]):
            values = pc.unique(_ids(part, name))
            if len(values) and not len(found):
                found, origin = values, f"{name!r} of {path}"
            elif len(values) and values.type != found.type:
                raise InputError(f"ids of {node_type!r} are {found.type} in {origin}, but {values.type} in {name!r} of {path}")
            elif len(values):
                new.append(values)
                if sum(map(len, new)) > len(found):
                    found, new = joined(), []
    found = joined()
    return found.take(pc.array_sort_indices(found))
