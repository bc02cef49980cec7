"""Checkpoints of tables, as a client makes and reads them: owners write their files, and the client's record makes them count.

A checkpoint is a folder ``step-STEP-RANDOM`` with a record (``tables.json``), written last. What has no record is left of a save
that was stopped; the next one removes it.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from halohop.cluster.tables.names import TableNames
from halohop.cluster.tables.owners import TableOwners
from halohop.errors import ClusterError, DatasetError, HalohopError, InputError, VersionMismatchError
from halohop.files.aside import remove, writing
from halohop.files.private import refuse_links
from halohop.files.reading import decode_json
from halohop.files.whole import read_sealed, sealed_file
from halohop.tables.checkpoints import CHECKPOINT
from halohop.tables.messages import (
    ClearCheckpointsRequest,
    LoadTablesRequest,
    SavedTable,
    SaveTablesRequest,
    TableRequest,
    TablesLoaded,
    TablesSaved,
)
from halohop.tables.spec import TableSpec

RECORD = "tables.json"
FORMAT = 1
_SLOWEST, _LONGEST_SYNC = 4 << 20, 120.0
"""Bytes a second that an owner must write or read at least, and seconds until they are on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a checkpoint holds.

    Args:
        format: of the record and of the files.
        step: of the model, as the one who saved it counts.
        time_ns: when it was saved; of two of one step, the later one counts.
        tables: by owner and table.
    """

    format: int
    step: int
    time_ns: int
    tables: tuple[SavedTable, ...]


def save_tables(
    names: TableNames, owners: TableOwners, folder: str | Path, *, step: int, chosen: Sequence[str] | None, keep_others: bool
) -> None:
    """Writes a checkpoint, see `Tables.save`."""
    if type(step) is not int or step < 0:
        raise InputError(f"step={step!r} is no number of steps; give that of the model, 0 or more")
    for name in chosen or ():
        names.spec(name)
    listed = {listing.spec.name: listing for listing in names.list()}
    saved_names = tuple(listed) if chosen is None else tuple(dict.fromkeys(chosen))
    seconds = _LONGEST_SYNC + sum(listed[name].num_bytes for name in saved_names) / _SLOWEST
    path = Path(folder)
    with _alone_in(path):
        good = {checkpoint.name for checkpoint in _known(path)}
        _clear(owners, path, good)
        new = path / f"step-{step}-{secrets.token_hex(4)}"
        try:
            record = _record_of(step, _ask(owners, SaveTablesRequest(folder=str(new), names=saved_names), seconds))
            with writing(new):
                new.mkdir(exist_ok=True)
            with sealed_file(new / RECORD) as stream:
                stream.write(msgspec.json.encode(record))
        except Exception:
            with suppress(HalohopError):  # of an owner that is lost: the next save removes what is there
                _clear(owners, path, good)
            raise
        if not keep_others:
            _forget(owners, path, {new.name})


def forget_others(owners: TableOwners, folder: str | Path, *, step: int) -> None:
    """Removes all checkpoints of a folder but the one of this step."""
    path = Path(folder)
    with _alone_in(path):
        _forget(owners, path, {_find(path, step)[0].name})


def load_tables(names: TableNames, owners: TableOwners, folder: str | Path, *, step: int, chosen: Sequence[str] | None) -> None:
    """Reads a checkpoint, see `Tables.load`."""
    checkpoint, record = _find(Path(folder), step)
    known = {saved.spec.name: saved.spec for saved in record.tables}
    if unknown := sorted(set(chosen or ()) - set(known)):
        raise InputError(f"{checkpoint} has no tables {unknown}; it has {sorted(known)}")
    here = {listing.spec.name: listing.spec for listing in names.list()}
    for name in known if chosen is None else chosen:
        _provide(names, here.get(name, known[name]))
    saved = tuple(saved for saved in record.tables if chosen is None or saved.spec.name in chosen)
    seconds = _LONGEST_SYNC + 2 * sum(file.bytes for table in saved for file in table.files.values()) / _SLOWEST
    for only_check in (True, False):
        request = LoadTablesRequest(token=secrets.token_hex(8), folder=str(checkpoint), tables=saved, only_check=only_check)
        _check_rows(checkpoint, saved, _ask(owners, request, seconds))


def _provide(names: TableNames, spec: TableSpec) -> None:
    """Has the table at all owners; its rows come from the checkpoint."""
    try:
        names.make(spec)
    except ClusterError:  # an owner was started again, empty
        names.drop(spec.name)
        names.make(spec)


def _record_of(step: int, replies: Sequence[TablesSaved]) -> Record:
    """
    Raises:
        ClusterError: a table had other steps at one owner than at another.
    """
    saved = tuple(table for reply in replies for table in reply.tables)
    steps: dict[str, set[int]] = {}
    for table in saved:
        steps.setdefault(table.spec.name, set()).add(table.steps)
    if moved := {name: sorted(found) for name, found in steps.items() if len(found) > 1}:
        raise ClusterError(f"tables were changed while they were saved (steps at their owners: {moved}); save between steps")
    return Record(format=FORMAT, step=step, time_ns=time.time_ns(), tables=saved)


def _check_rows(checkpoint: Path, saved: Sequence[SavedTable], replies: Sequence[TablesLoaded]) -> None:
    """
    Raises:
        InputError: some of the rows have no owner.
    """
    for name in {table.spec.name for table in saved}:
        count = sum(table.num_rows for table in saved if table.spec.name == name)
        found = sum(reply.rows[name] for reply in replies)
        if found != count:
            raise InputError(
                f"{checkpoint} has {count} rows of table {name!r}, of which {found} are rows of this graph; load it into the "
                "graph that it was saved from, however that is divided"
            )


def _find(folder: Path, step: int) -> tuple[Path, Record]:
    """The checkpoint of a step; the latest one if there are several.

    Raises:
        InputError: there is none.
        DatasetError: there is one, whose record was changed.
    """
    known = _known(folder)
    good = [(path, record) for path, record in known.items() if isinstance(record, Record)]
    of_step = [found for found in good if found[1].step == step]
    if of_step:
        return max(of_step, key=lambda found: found[1].time_ns)
    for record in known.values():
        if isinstance(record, DatasetError):
            raise record
    if not good:
        raise InputError(f"{folder} has no checkpoint of tables; give the folder that they were saved to")
    raise InputError(
        f"the tables in {folder} are of step {', '.join(map(str, sorted({record.step for _, record in good})))}, and not of step "
        f"{step}, as the model is; load a model of the same step"
    )


def _known(folder: Path) -> dict[Path, Record | DatasetError]:
    """The finished checkpoints of a folder, and why a record cannot be read."""
    found: dict[Path, Record | DatasetError] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if CHECKPOINT.fullmatch(path.name) and (path / RECORD).exists():
            try:
                found[path] = _read(path / RECORD)
            except DatasetError as error:
                found[path] = error
    return found


def _read(file: Path) -> Record:
    data = read_sealed(file)
    if decode_json(data, file, dict[str, Any]).get("format") != FORMAT:
        raise VersionMismatchError(f"{file} is not of format {FORMAT}, which this halohop reads; save the tables again")
    return decode_json(data, file, Record)


def _forget(owners: TableOwners, folder: Path, keep: set[str]) -> None:
    """Removes checkpoints, first their records, so that none counts that misses files."""
    for path in _known(folder):
        if path.name not in keep:
            with writing(path):
                (path / RECORD).unlink()
    _clear(owners, folder, keep)


def _clear(owners: TableOwners, folder: Path, keep: set[str]) -> None:
    for path in list(folder.iterdir()):
        if CHECKPOINT.fullmatch(path.name) and path.name not in keep:
            remove(path)
    _ask(owners, ClearCheckpointsRequest(folder=str(folder), keep=tuple(sorted(keep))), _LONGEST_SYNC)


def _ask(owners: TableOwners, request: TableRequest[Any], seconds: float) -> list[Any]:
    """The replies of all owners."""
    return list(owners.ask(dict.fromkeys(range(owners.num_owners), request), seconds=seconds).values())


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Only one process at a time saves into a folder; it is made.

    Raises:
        ClusterError: another one does.
        InputError: a symbolic link is below the folder.
    """
    refuse_links(folder.resolve())
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(f"another process is saving tables into {folder}; give each its own folder") from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(descriptor)
