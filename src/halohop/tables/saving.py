"""An owner's part of a checkpoint of tables: rows that are not as they began, and their state, as array files by raw id."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.files.aside import writing
from halohop.store.manifest import quoted_name
from halohop.store.npy import write_pieces
from halohop.tables.kept import KeptTable, chunks
from halohop.tables.messages import SavedTable
from halohop.tables.rules import Rule

ID, ROWS, STATE = "id", "rows", "state."
"""What files hold; of state, before the name of the array."""


def save(table: KeptTable, folder: Path) -> SavedTable:
    """Writes a table into a checkpoint's folder, which is synced when all are written.

    Raises:
        WriteError: it cannot be written; names the file.
    """
    path = f"{quoted_name(table.spec.name)}/{min(table.parts):05d}"
    with writing(folder / path):
        (folder / path).mkdir(parents=True)
    changed = {part: kept.changed() for part, kept in sorted(table.parts.items())}
    count = sum(map(len, changed.values()))
    arrays = next(iter(table.parts.values())).arrays
    files = {ID: write_pieces(folder / path / f"{ID}.npy", torch.int64, (count,), _ids(table, changed))}
    rule = None if table.rule is None else Rule(table.rule, table.spec.shape, table.spec.torch_dtype)
    states = {f"{STATE}{name}": arrays.states[name] for name in (rule.states() if rule is not None else ())}
    for name, array in ((ROWS, arrays.rows), *states.items()):
        shape = (count, *array.shape[1:])
        pieces = _rows(table, changed, name.removeprefix(STATE) if name != ROWS else "")
        files[name] = write_pieces(folder / path / f"{name}.npy", array.dtype, shape, pieces)
    return SavedTable(
        spec=table.spec,
        optimizer=table.optimizer,
        rule=table.rule,
        steps=table.steps,
        num_rows=count,
        owns=table.owns,
        path=path,
        files=files,
    )


def _ids(table: KeptTable, changed: dict[int, Tensor]) -> Iterator[Tensor]:
    for part, lid in changed.items():
        for chunk in chunks(lid, table.parts[part].arrays):
            yield table.parts[part].ids(chunk)


def _rows(table: KeptTable, changed: dict[int, Tensor], state: str) -> Iterator[Tensor]:
    for part, lid in changed.items():
        arrays = table.parts[part].arrays
        for chunk in chunks(lid, arrays):
            yield ops.gather_rows(arrays.source(state), chunk)
