"""An owner's part of reading a checkpoint of tables: of all files, it takes the rows that it owns, by raw id."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import CorruptDatasetError, DatasetError, InputError
from halohop.store.npy import map_array, numpy_name, read_rows
from halohop.store.verify import verify_files
from halohop.tables.kept import Finds, KeptPart, KeptTable, rows_at_once
from halohop.tables.messages import SavedTable
from halohop.tables.rules import Rule, StateSpec
from halohop.tables.saving import ID, ROWS, STATE

Here = tuple[KeptPart, Tensor, Tensor]
"""A partition that has some of the rows: their positions, and their lids."""

_MAY_DIFFER = ("storage",)
"""Of a spec, what changes no row."""


def check(table: KeptTable, saved: Sequence[SavedTable], folder: Path) -> int:
    """Whether a table can become what was saved; returns how many of the saved rows this owner has.

    Args:
        table: as it is.
        saved: of this table, by all owners of then.
        folder: of the checkpoint.

    Raises:
        InputError: the table is another one, or is trained by another rule.
        IncompleteDatasetError: a file is missing.
        CorruptDatasetError: a file is not what was written.
    """
    _check_spec(table, saved[0])
    found, arrays, finders = 0, _arrays_of(saved[0]), _finders(table)
    for part in _needed(table, saved):
        try:
            if part.num_rows and (missing := sorted(arrays.keys() - part.files.keys())):
                raise CorruptDatasetError(f"{part.path} has {part.num_rows} rows, but not the files {missing}")
            for name, record in part.files.items():
                array = arrays.get(name)
                shape = None if array is None else (part.num_rows, *array.row_shape)
                if array is None or (record.shape, record.dtype) != (shape, numpy_name(array.dtype)):
                    raise CorruptDatasetError(f"{part.path} has {name!r}, a {record.dtype} of shape {record.shape}")
                map_array(folder / part.path / f"{name}.npy", record, array.dtype)
            verify_files(folder, {f"{part.path}/{name}.npy": record for name, record in part.files.items()})
        except DatasetError as error:
            raise type(error)(
                f"table {table.spec.name!r} cannot be loaded from {folder}: {error}, or load an older one"
            ) from error
        found += sum(len(lid) for _, _, here in _chunks(finders, part, folder) for _, _, lid in here)
    return found


def load(table: KeptTable, saved: Sequence[SavedTable], folder: Path) -> int:
    """Makes a table what was saved; returns how many of the saved rows this owner has.

    Args:
        table: as it is; it has the state of the rule that was saved, if there was one.
        saved, folder: as of `check`, which had nothing to refuse.
    """
    for kept in table.parts.values():
        kept.arrays.start_over()
    found, arrays, finders = 0, _arrays_of(saved[0]), _finders(table)
    del arrays[ID]
    for part in _needed(table, saved):
        for begin, end, here in _chunks(finders, part, folder):
            for name, array in arrays.items():
                rows = torch.empty((end - begin, *array.row_shape), dtype=array.dtype)
                read_rows(folder / part.path / f"{name}.npy", (part.num_rows, *array.row_shape), begin, rows)
                for kept, places, lid in here:
                    kept.arrays.write(lid, ops.gather_rows(rows, places), "" if name == ROWS else name.removeprefix(STATE))
            found += sum(len(lid) for _, _, lid in here)
    return found


def _check_spec(table: KeptTable, saved: SavedTable) -> None:
    now, then = asdict(table.spec), asdict(saved.spec)
    differ = [name for name in now if name not in _MAY_DIFFER and now[name] != then[name]]
    if differ:
        was, is_now = (", ".join(f"{name}={known[name]!r}" for name in differ) for known in (then, now))
        raise InputError(
            f"table {table.spec.name!r} was saved with {was}, and has {is_now} here; make it as it was, in a graph of the same "
            "nodes, or leave it out (names=)"
        )
    if table.rule is not None and saved.rule is not None and table.rule != saved.rule:
        raise InputError(
            f"table {table.spec.name!r} was saved with the state of {saved.rule}, and is trained by {table.rule} here; use that "
            "optimizer, or leave the table out (names=)"
        )


def _arrays_of(saved: SavedTable) -> dict[str, StateSpec]:
    """What the files of a table hold, by name."""
    spec = saved.spec
    states = {} if saved.rule is None else Rule(saved.rule, spec.shape, spec.torch_dtype).states()
    return {
        ID: StateSpec(row_shape=(), dtype=torch.int64),
        ROWS: StateSpec(row_shape=spec.shape, dtype=spec.torch_dtype),
        **{f"{STATE}{name}": state for name, state in states.items()},
    }


def _needed(table: KeptTable, saved: Sequence[SavedTable]) -> Sequence[SavedTable]:
    """Those whose files have rows of this owner: if one of then had the same rows, its files alone."""
    owns = table.owns
    return next(([part] for part in saved if part.owns == owns), saved)


def _finders(table: KeptTable) -> list[tuple[KeptPart, Finds]]:
    return [(kept, kept.finder()) for kept in table.parts.values()]


def _chunks(finders: Sequence[tuple[KeptPart, Finds]], part: SavedTable, folder: Path) -> Iterator[tuple[int, int, list[Here]]]:
    """Where some of the saved rows begin and end that are in memory together, and which of them are here."""
    step = rows_at_once(finders[0][0].arrays)
    for begin in range(0, part.num_rows, step):
        ids = torch.empty(min(step, part.num_rows - begin), dtype=torch.int64)
        read_rows(folder / part.path / f"{ID}.npy", (part.num_rows,), begin, ids)
        here = [(kept, *find(ids)) for kept, find in finders]
        yield begin, begin + len(ids), [found for found in here if len(found[1])]
