"""Running sums of weights that are stored beside them: a byte for each edge, and 8 for each node that has lists.

    parts/part-0000/edges/<relation>/weight_sums/<column>.npy

They belong to what a partition is as little as copies of others do: its stamp does not know them, and draws are the same without.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError, SchemaError
from halohop.files.aside import writing
from halohop.files.whole import whole_file
from halohop.store.checksums import FileRecord
from halohop.store.manifest import Manifest, sums_file
from halohop.store.npy import map_array, record_of, stream_pieces, sum_array
from halohop.store.part import EdgePart
from halohop.store.replica import replica_file
from halohop.store.schema import ColumnSpec
from halohop.typing import Relation

_AT_ONCE = 1 << 22  # entries and rows

Read = Callable[[int, int], Tensor]
"""The weights at the positions from the first number to the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSums:
    """What was written of one column of a partition, or of its copies.

    Args:
        relation, column: which.
        file: inside the folder.
        record: of the file.
        weightless: how many nodes have edges, but none with a weight above 0.
    """

    relation: Relation
    column: str
    file: str
    record: FileRecord
    weightless: int


def weight_columns(columns: Mapping[Relation, Mapping[str, ColumnSpec]], names: Sequence[str]) -> dict[Relation, tuple[str, ...]]:
    """The columns of these names, by relation.

    Raises:
        SchemaError: no relation has such a column.
        InputError: a column that no weights can be, or `names` is a text.
    """
    if isinstance(names, str):
        raise InputError(f"weight_sums={names!r} is a text; give a list of columns: [{names!r}]")
    for name in names:
        if not any(name in specs for specs in columns.values()):
            known = sorted({column for specs in columns.values() for column in specs})
            raise SchemaError(f"no relation has a column {name!r} to sum weights of; there are {known}")
    found = {relation: tuple(name for name in dict.fromkeys(names) if name in specs) for relation, specs in columns.items()}
    for relation, own in found.items():
        for name in own:
            spec = columns[relation][name]
            if spec.shape or spec.stored is not None or getattr(torch, spec.dtype) not in ops.WEIGHT_DTYPES:
                narrow = " stored narrow" if spec.stored else ""
                raise InputError(
                    f"{name!r} of {relation} is {spec.dtype} {list(spec.shape)}{narrow}; a weight is one number per edge"
                )
    return {relation: own for relation, own in found.items() if own}


def write_sums(
    folder: Path,
    part: int,
    edges: Mapping[Relation, EdgePart],
    columns: Mapping[Relation, Sequence[str]],
    first_edge: Mapping[Relation, int],
    *,
    copies: str | None = None,
) -> list[ColumnSums]:
    """Writes the sums of a partition, each file at once; one that is there already is of a call that was stopped.

    Args:
        folder: of the data set.
        part: the partition's number.
        edges: of the partition, or of what it copied of others.
        columns: names of weights, by relation.
        first_edge: the gid of the first edge in each relation.
        copies: the name of the copies that these are.

    Raises:
        InputError: an impossible weight; names its edge and the column.
        WriteError: the disk is full, or cannot be written.
    """
    found = []
    for relation, column in ((relation, column) for relation, names in columns.items() for column in names):
        own = edges[relation]
        path = sums_file(part, relation, column)
        path = path if copies is None else replica_file(copies, path)
        record = _written(folder / path, num_sums(own.indptr), summed(relation, own, column, first_edge[relation]))
        weightless = _weightless(own.indptr, map_array(folder / path, record, torch.float64))
        found.append(ColumnSums(relation=relation, column=column, file=path, record=record, weightless=weightless))
    return found


def _written(file: Path, count: int, pieces: Iterator[Tensor]) -> FileRecord:
    expected = record_of(torch.float64, (count,), ())
    if file.is_file() and file.stat().st_size == expected.bytes:
        return record_of(torch.float64, (count,), sum_array(file))
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as stream:
        return stream_pieces(stream, torch.float64, (count,), pieces)


def with_sums(manifest: Manifest, found: Iterable[ColumnSums]) -> Manifest:
    """The manifest with what was written of all partitions."""
    files, known = dict(manifest.files), {relation: dict(own) for relation, own in manifest.weight_sums.items()}
    for sums in found:
        files[sums.file] = sums.record
        own = known.setdefault(sums.relation, {})
        own[sums.column] = own.get(sums.column, 0) + sums.weightless
    return replace(manifest, files=files, weight_sums=known)


def summed(relation: Relation, edges: EdgePart, column: str, first_edge: int) -> Iterator[Tensor]:
    """The sums of a column, a piece at a time.

    Raises:
        InputError: an impossible weight; names its edge and the column.
    """
    weights = edges.columns[column]
    try:
        yield from sums_in_pieces(edges.indptr, lambda begin, end: weights[begin:end])
    except ops.WeightError as error:
        edge = error.position + first_edge if edges.edge_id is None else int(edges.edge_id[error.position])
        raise refused_weight(error, edge, relation, column) from error


def sums_in_pieces(indptr: Tensor, read: Read, *, refuse: bool = True) -> Iterator[Tensor]:
    """What `halohop.ops.sum_weights` returns, a piece at a time: weights may be larger than memory."""
    for rows in _cuts(indptr):
        begins = indptr[rows.start : rows.stop + 1]
        yield ops.sum_weights(begins, read(int(begins[0]), int(begins[-1])), refuse=refuse)


def num_sums(indptr: Tensor) -> int:
    """How many sums there are."""
    return int(indptr[-1]) // 8 + len(indptr) - 1


def refused_weight(error: ops.WeightError, edge: int, relation: Relation, column: str) -> InputError:
    """What is wrong with a weight, by the user's id of the edge."""
    return InputError(
        f"edge {edge} of {relation} has the {error.problem} in {column!r}; a weight is a finite number, 0 or more: correct it, "
        "or leave the edge out"
    )


def _weightless(indptr: Tensor, sums: Tensor) -> int:
    """How many lists have entries, whose weights are all 0."""
    count, begins, totals = 0, indptr.numpy(), sums.numpy()
    for rows in _cuts(indptr):
        starts, ends = begins[rows.start : rows.stop], begins[rows.start + 1 : rows.stop + 1]
        last = (starts >> 3) + np.arange(rows.start, rows.stop) + (ends - starts + 7 >> 3) - 1
        count += int((totals[last[ends > starts]] == 0).sum())
    return count


def _cuts(indptr: Tensor) -> Iterator[range]:
    """Runs of rows with at most so many entries, or one row; and at most so many rows."""
    begins, row = indptr.numpy(), 0
    while row < len(begins) - 1:
        most = min(row + _AT_ONCE, len(begins) - 1)
        end = int(np.searchsorted(begins[row : most + 1], begins[row] + _AT_ONCE, side="right")) + row - 1
        end = max(end, row + 1)
        yield range(row, end)
        row = end
