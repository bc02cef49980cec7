"""Checkpoints of tables at their owner: where they may lie, and one thread that writes and reads them."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from halohop.errors import InputError
from halohop.files.aside import remove, writing
from halohop.files.reading import resolve_below
from halohop.files.whole import sync_tree
from halohop.store.manifest import quoted_name
from halohop.tables import loading, saving
from halohop.tables.kept import KeptTable
from halohop.tables.messages import (
    CheckpointsCleared,
    ClearCheckpointsRequest,
    LoadTablesRequest,
    SavedTable,
    SaveTablesRequest,
    TablesLoaded,
    TablesSaved,
)

Reply = TypeVar("Reply")


class Tables(Protocol):
    """Gives tables by their names, none of which changes within the block; they are `whole` if their rows are to be read."""

    def __call__(self, names: Sequence[str], *, whole: bool) -> AbstractContextManager[Mapping[str, KeptTable]]: ...


Restores = Callable[[SavedTable], AbstractContextManager[KeptTable]]
"""Gives a table with the optimiser's state that was saved; what happens within the block is one change of it."""

CHECKPOINT = re.compile(r"step-[0-9]+-[0-9a-f]{8}")
"""The name of a checkpoint's folder; no other folder is ever removed."""

_REMEMBERED = 64
_LONGEST, _SHOWN = 4096, 300
"""Characters of a path, and of one that an error names."""


class Checkpoints:
    """Writes and reads an owner's tables, one request after the other. What was asked before is not done again.

    Args:
        folder: below which they lie; None: there is none.
        anywhere: this process may name other folders, too; without a folder, its peers name those below the working directory.
        tables, restores: give the owner's tables.
    """

    def __init__(self, folder: Path | None, *, anywhere: bool, tables: Tables, restores: Restores) -> None:
        root = Path() if folder is None and anywhere else folder
        self._folder = None if root is None else root.resolve()
        self._anywhere = anywhere
        self._tables, self._restores = tables, restores
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="halohop table checkpoints")
        self._lock = threading.Lock()
        self._asked: dict[str, Future[Any]] = {}

    def answer(
        self, request: SaveTablesRequest | LoadTablesRequest | ClearCheckpointsRequest, *, peer: bool = False
    ) -> "Future[Any]":
        """The reply: it comes when all is written, read or removed.

        Args:
            request: what is asked.
            peer: another process asks.

        Raises (here, or in the future):
            InputError: a folder where nothing may be written; a table that is another than the one that was saved.
            SchemaError: no such table.
            WriteError: it cannot be written; what was there before is as it was.
            DatasetError: what was saved cannot be read.
        """
        anywhere = self._anywhere and not peer
        folder = self._allowed(request.folder, anywhere, itself=isinstance(request, ClearCheckpointsRequest))
        match request:
            case SaveTablesRequest():
                for name in request.names:
                    self._allowed(f"{folder}/{quoted_name(name)}", anywhere)
                return self._once(f"save {folder}", lambda: self._save(request, folder))
            case LoadTablesRequest():
                for saved in request.tables:
                    self._allowed(f"{folder}/{saved.path}", anywhere)
                return self._once(f"load {request.token}", lambda: self._load(request, folder))
            case ClearCheckpointsRequest():
                return self._thread.submit(self._clear, request, folder)

    def close(self) -> None:
        """Waits for what is being written or read, and does nothing more."""
        self._thread.shutdown(cancel_futures=True)

    def _once(self, key: str, action: Callable[[], Reply]) -> "Future[Reply]":
        """What a request that was sent again, since the connection broke, gets as well."""
        with self._lock:
            asked = self._asked.get(key)
            if asked is None:
                asked = self._asked[key] = self._thread.submit(action)
                for old in list(self._asked)[:-_REMEMBERED]:
                    del self._asked[old]
            return asked

    def _save(self, request: SaveTablesRequest, folder: Path) -> TablesSaved:
        if not CHECKPOINT.fullmatch(folder.name):
            raise InputError(f"{request.folder} is no name of a checkpoint, such as step-10-00c0ffee")
        with writing(folder), self._tables(request.names, whole=True) as tables:
            folder.mkdir(parents=True, exist_ok=True)
            saved = tuple(saving.save(table, folder) for _, table in sorted(tables.items()))
        for table in saved:
            sync_tree(folder / table.path)
        return TablesSaved(tables=saved)

    def _load(self, request: LoadTablesRequest, folder: Path) -> TablesLoaded:
        by_name: dict[str, list[SavedTable]] = {}
        for saved in request.tables:
            by_name.setdefault(saved.spec.name, []).append(saved)
        with self._tables(tuple(by_name), whole=False) as tables:
            rows = {name: loading.check(tables[name], parts, folder) for name, parts in by_name.items()}
        if not request.only_check:
            for name, parts in by_name.items():
                with self._restores(parts[0]) as table:
                    rows[name] = loading.load(table, parts, folder)
        return TablesLoaded(rows=rows)

    def _clear(self, request: ClearCheckpointsRequest, folder: Path) -> CheckpointsCleared:
        for path in folder.iterdir() if folder.is_dir() else ():
            if CHECKPOINT.fullmatch(path.name) and path.name not in request.keep:
                with writing(path):
                    remove(path)
        return CheckpointsCleared()

    def _allowed(self, asked: str, anywhere: bool, *, itself: bool = False) -> Path:
        """The folder that a request names; `itself`: it may be the owner's own, whose checkpoints lie in it.

        Raises:
            InputError: it lies outside of the owner's folder, or a link in it leads there.
        """
        if anywhere:
            return Path(asked).absolute()
        if self._folder is None:
            raise InputError(
                f"folder {asked!r}: this server names no folder for tables; start it with one (tables=, --tables FOLDER)"
            )
        path = resolve_below(self._folder, asked) if 0 < len(asked) <= _LONGEST and "\0" not in asked else None
        if path is None or (path == self._folder and not itself):
            who = "trainer" if self._anywhere else "server"
            raise InputError(
                f"folder {asked[:_SHOWN]!r} lies outside the folder for tables that the {who} names; give a path below it, or "
                "name another one there (tables=FOLDER)"
            )
        return path
