"""The users' ids of nodes, any integers or strings, and which row of a node table has which.

Ids are found by their bytes in a hash table. Hashes alone would one day confuse two nodes, and searching sorted ids takes ten
times as long.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop.datasets.arrow import Column, pyarrow
from halohop.datasets.kinds import DECIMALS, INTEGERS, STRINGS, TEXT, Kind, kind_name, plain
from halohop.datasets.staging import Staging
from halohop.datasets.table_parts import Part, characters, parts_of
from halohop.datasets.text import Texts, collect_texts
from halohop.errors import IdError, InputError
from halohop.memory import format_size
from halohop.ops import KeyIndex
from halohop.typing import NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """The ids of the nodes of one type, in the order of their table.

    Args:
        node_type: what errors call the nodes.
        kind: of their column: INTEGERS or STRINGS.
        count: how many.
        raw: int64 ``[count]``; None of strings, and of 0, 1, 2, ...
        text: strings as `halohop.datasets.text.text_column` makes them; None of integers.
        index: their rows; None of 0, 1, 2, ...
    """

    node_type: NodeType
    kind: Kind
    count: int
    raw: Tensor | None = None
    text: Tensor | None = None
    index: KeyIndex | None = None

    def rows(self, part: Part, name: str) -> Tensor:
        """The rows of the ids in a column; int64.

        Raises:
            IdError: no node has an id; names its row and value.
            InputError: a Parquet column is of the other kind.
        """
        whole = "whole numbers without leading zeros" if self.kind.name == INTEGERS else "text"
        column = _ids(part, name, self.kind, f"an id of a node {self.node_type!r}; these are {whole}", IdError)
        rows = self._found(column) if self.count else torch.full((len(column),), -1)
        unknown = np.flatnonzero(rows.numpy() < 0)
        if len(unknown):
            row = int(unknown[0])
            raise IdError(
                f"{part.path}: column {name!r} holds {column[row].as_py()!r} in row {part.row(row)}, "
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


def id_parts(staging: Staging, paths: Sequence[Path], name: str) -> Iterator[Part]:
    """A column of ids in some files; what text files hold is not interpreted yet."""
    return parts_of(staging, paths, [name], characters(name))


def read_ids(staging: Staging, node_type: NodeType, shown: str, paths: list[Path], name: str, given: str | None = None) -> Ids:
    """The ids in a column of the table of a node type.

    Args:
        staging: where they are collected.
        node_type: of the nodes.
        shown: what errors call the nodes.
        paths, name: the table's files, and the column.
        given: TEXT or NUMBER, if the user chose one; else the ids of all files decide.

    Raises:
        InputError: one is there twice; a null; Parquet files of several types; neither integers nor strings.
    """
    parts = staging.again(lambda: id_parts(staging, paths, name))
    kind = _kind(staging, node_type, lambda: ((part, name) for part in parts()), given)
    ids = _collected(staging, node_type, shown, kind, lambda: (_ids(part, name, kind) for part in parts()))
    if ids.index is not None and ids.index.repeated is not None:
        value, where = _named(parts(), name, kind, ids.index.repeated)
        files = ", ".join(map(str, paths))
        raise InputError(f"column {name!r} of {files} holds the id {value!r} more than once, the second time in {where}")
    return ids


def mentioned_ids(staging: Staging, node_type: NodeType, ends: Sequence[tuple[Path, str]], given: str | None = None) -> Ids:
    """The different ids in some columns of edges, sorted: those of a node type without a table.

    Raises:
        InputError: see `read_ids`.
    """
    columns = staging.again(lambda: ((part, name) for path, name in ends for part in id_parts(staging, [path], name)))
    kind = _kind(staging, node_type, columns, given)
    return _collected(staging, node_type, node_type, kind, lambda: [_distinct(columns(), kind)])


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


def _collected(staging: Staging, node_type: NodeType, shown: str, kind: Kind, make: Callable[[], Iterable[Column]]) -> Ids:
    name = f"nodes.{node_type}.ids"
    if kind.name == STRINGS:
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


def _ids(
    part: Part, name: str, kind: Kind, expected: str = "an integer of 64 bits", error: type[InputError] = InputError
) -> Column:
    """A column of ids as its kind, without nulls."""
    types, found = pyarrow().types, plain(part.column(name)).type
    if not (types.is_integer(found) or types.is_null(found) or types.is_string(found) or types.is_large_string(found)):
        raise InputError(f"{part.path}: ids in column {name!r} are {found}, expected integers or strings")
    return kind.column(part, name, expected, error)


def _kind(staging: Staging, node_type: NodeType, columns: Callable[[], Iterable[tuple[Part, str]]], given: str | None) -> Kind:
    """INTEGERS or STRINGS."""
    found = staging.fact(f"nodes.{node_type}.ids.kind", lambda: kind_name(columns, given), str)
    if found == DECIMALS:
        for part, name in columns():
            expected = (
                f'an integer of 64 bits or text; to keep it as it is written, set kinds = {{{name} = "{TEXT}"}} in graph.toml'
            )
            _ids(part, name, Kind(name=INTEGERS), expected)
    return Kind(name=INTEGERS if found == INTEGERS else STRINGS, given=given is not None)


def _named(parts: Iterable[Part], name: str, kind: Kind, row: int) -> tuple[object, str]:
    """The id in a row of all files together, and where it stands."""
    for part in parts:
        if row < len(part.columns[name]):
            return _ids(part, name, kind)[row].as_py(), f"row {part.first + row} of {part.path}"
        row -= len(part.columns[name])
    raise AssertionError(f"{name} ends before row {row}")


def _distinct(columns: Iterable[tuple[Part, str]], kind: Kind) -> Column:
    """The different ids in some columns, sorted."""
    pa, pc = pyarrow(), pyarrow("compute")
    found = pa.array([], pa.type_for_alias(kind.name))
    new: list[Column] = []

    def joined() -> Column:
        return pc.unique(pa.chunked_array([found, *new]))

    for part, name in columns:
        new.append(pc.unique(_ids(part, name, kind)))
        if sum(map(len, new)) > len(found):
            found, new = joined(), []
    found = joined()
    return found.take(pc.array_sort_indices(found))
