"""A partition's arrays of a table, in memory or in files: what other processes of the machine map, and what goes with the owner.

Both are files without a name, which the owner holds open and maps: of memory (memfd_create), or on the owner's disk, where their
room is taken at once. Others of the same machine open them as ``/proc/PID/fd/N``. So nothing is left behind, however the owner
ends, and no owner can meet the files of another. A file on disk is mapped for writing: with its room taken, a disk that is full
later cannot end the process (SIGBUS).
"""

import errno
import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import DatasetError, InputError, WriteError
from halohop.files.aside import boot, writing
from halohop.files.mapping import map_privately, map_shared_file, read_by_rows
from halohop.linux import has_memory_files, memory_file, namespace, reserve
from halohop.memory import format_size, machine_bytes
from halohop.tables.messages import SharedPart
from halohop.tables.spec import TableSpec

CLOSED = -1
"""What `counts[0]` is when the table was dropped, or its owner has ended in good order: what others have mapped is the table no
more."""

_COUNTS = 2
_PAGE, _PIECE = 4096, 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedRows:
    """A partition's rows, in the memory of their owner.

    Args:
        rows: ``[n, *shape]``.
        touched: uint8 ``[n]``, 0 while a row is as it began; None where such rows are zeros.
        counts: int64 ``[2]``: a number that is odd while rows are written, to which every change adds 2, and which is `CLOSED`
            when the table is gone; and the steps of the table's optimiser so far.
        source: the rows for `ops.gather_rows`: where they lie on disk, it asks for pages before it reads them.
    """

    rows: Tensor
    source: ops.Pieces
    touched: Tensor | None
    counts: Tensor


class TableArrays:
    """The rows of one table in one partition, and the state of its optimiser; see `make_arrays`.

    Args:
        spec: of the table.
        num_rows: of the partition.
        folder: where the files lie; None: memory.

    Attributes:
        rows, touched, counts: see `MappedRows`; all zeros at first.
        states: of the optimiser, by name: ``[n, *row_shape]``.
        fills: what its arrays began with.
        on_disk: whether they lie in files.
    """

    def __init__(self, spec: TableSpec, num_rows: int, folder: Path | None) -> None:
        self._label, self._folder, self._num_rows = f"table {spec.name!r}", folder, num_rows
        self.on_disk = folder is not None
        self._file = _File(_layout(spec, num_rows)[-1], folder, f"{self._label}, {num_rows} rows")
        mapped = _rows_in(self._file.memory, spec, num_rows)
        self.rows, self.touched, self.counts = mapped.rows, mapped.touched, mapped.counts
        self.states: dict[str, Tensor] = {}
        self.fills: dict[str, float] = {}
        self._sources = {"": mapped.source}

    def add_state(self, name: str, row_shape: tuple[int, ...], dtype: torch.dtype, fill: float) -> Tensor:
        """Makes an array of the optimiser's state.

        Raises:
            WriteError, InputError: there is no room for it; nothing is changed then.
        """
        shape = (self._num_rows, *row_shape)
        size = math.prod(shape) * dtype.itemsize
        made = _File(size, self._folder, f"{self._label}, state {name!r} of {self._num_rows} rows")
        state = made.memory[:size].view(dtype).view(shape)
        made.release()  # it stays as long as it is mapped; no other process maps it
        if fill != 0:
            state.fill_(fill)
        self._sources[name] = _pieces(state, on_disk=self.on_disk)
        self.states[name], self.fills[name] = state, fill
        return state

    def drop_state(self, name: str) -> None:
        """Forgets an array of the state, and gives its room back."""
        for held in (self.states, self.fills, self._sources):
            del held[name]

    def write(self, lid: Tensor, rows: Tensor, state: str = "") -> None:
        """Writes rows, or rows of the state, of which each occurs once; those of a table count as touched."""
        array = self.states[state] if state else self.rows
        for part in ops.windows(self._sources[state], lid.numpy()):
            ops.scatter_rows(rows[part], lid[part], array)
        if self.touched is not None and not state:
            self.touched[lid] = 1

    def start_over(self) -> None:
        """Rows and state are as they began; called while they count as being written."""
        if self.counts[0] <= 1:
            return  # it is the first time: all are zeros, which take memory or time as soon as they are written
        (self.rows if self.touched is None else self.touched).zero_()
        for name, state in self.states.items():
            state.fill_(self.fills[name])

    def source(self, state: str = "") -> ops.Pieces:
        """The rows, or an array of the state, for `ops.gather_rows`: it asks for pages on disk before it reads them."""
        return self._sources[state]

    def windows(self, lid: Tensor) -> Iterable[slice]:
        """Parts of `lid` (int64 ``[n]``), in order, whose rows and state are to be changed before the next part: their pages on
        disk have been asked for. One part where they lie in memory."""
        return ops.windows(tuple(self._sources.values()), lid.numpy())

    def shared(self, part: int) -> SharedPart | None:
        """Where other processes of this machine find the rows; None where the system has no such files."""
        if self._file.descriptor is None or not _system():
            return None
        path = f"/proc/{os.getpid()}/fd/{self._file.descriptor}"
        return SharedPart(part=part, path=path, identity=_identity(self._file.descriptor), system=_system())

    @property
    def num_bytes(self) -> int:
        """Of rows and state."""
        return sum(array.nbytes for array in (self.rows, *self.states.values()))

    def close(self) -> None:
        """The table is gone: those who have mapped it see `CLOSED`, and its room is free when the last of them forgets it."""
        self.counts[0] = CLOSED
        self._file.release()


def make_arrays(spec: TableSpec, num_rows: int, *, folder: Path | None) -> TableArrays:
    """The arrays of a table in a partition, all zeros; those of state come with `TableArrays.add_state`.

    Args:
        spec: of the table; its `storage` says where they lie.
        num_rows: of the partition.
        folder: where this owner may keep files; None: nowhere.

    Raises:
        InputError: a table on disk, and no folder; a table in memory that is larger than all of it; a table that this process
            may not map.
        WriteError: the disk has no room for it. Nothing is changed.
    """
    if spec.storage == "memory":
        return TableArrays(spec, num_rows, None)
    if folder is None:
        raise InputError(
            f"table {spec.name!r} is to lie on disk, and its owner has no folder for tables; give it one (tables=, --tables), "
            "or use storage='memory'"
        )
    return TableArrays(spec, num_rows, folder)


def map_shared(shared: SharedPart, spec: TableSpec, num_rows: int) -> MappedRows | None:
    """The rows of another process of this machine, in its memory: to be read, since nothing that is written here arrives there.

    Args:
        shared: from the owner.
        spec: of the table.
        num_rows: of the partition.

    Returns:
        None where they cannot be mapped: another machine, another namespace of processes, another user; or the table is gone.
    """
    size = _layout(spec, num_rows)[-1]
    if not shared.system or shared.system != _system():
        return None
    try:
        descriptor = os.open(shared.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _identity(descriptor) != shared.identity or os.fstat(descriptor).st_size != size:
            return None
        memory = torch.from_numpy(map_privately(descriptor, size, Path(shared.path)))
    except DatasetError:  # no address space for it, by a limit
        return None
    finally:
        os.close(descriptor)
    return _rows_in(memory, spec, num_rows)


class _File:
    """Bytes without a name, all zeros, mapped; a descriptor of them while others may open them."""

    def __init__(self, size: int, folder: Path | None, label: str) -> None:
        self.descriptor: int | None = None
        self._release: Callable[[], object] = lambda: None
        size = max(size, 1)
        if folder is None and size > machine_bytes():
            raise InputError(
                f"{label}, takes {format_size(size)}, and there are {format_size(machine_bytes())} of memory; "
                "use storage='disk', or more partitions"
            )
        if folder is None and not has_memory_files():
            self.memory = torch.zeros(size, dtype=torch.uint8)
            return
        descriptor = memory_file("halohop table", size) if folder is None else _disk_file(size, folder, label)
        self._release = weakref.finalize(self, os.close, descriptor)
        self.descriptor = descriptor
        try:
            self.memory = torch.from_numpy(map_shared_file(descriptor, size, label))
        except DatasetError as error:  # a limit of the process, or of the system
            self.release()
            raise InputError(
                f"{error}; raise this process's limit of address space (ulimit -v), or divide the graph into more partitions"
            ) from error

    def release(self) -> None:
        """Closes the descriptor; what is mapped stays."""
        self.descriptor = None
        self._release()


def _disk_file(size: int, folder: Path, label: str) -> int:
    """A descriptor of a file on disk without a name, whose room is taken."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
            found = os.statvfs(folder)
            free = found.f_bavail * found.f_frsize
            full = WriteError(
                f"{label}, takes {format_size(size)} below {folder}, where {format_size(free)} are free; make room there, give "
                "its owner another folder for tables (tables=, --tables), or divide the graph into more partitions"
            )
            if size > free:
                raise full
            try:
                reserve(stream.fileno(), size)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                raise full from error
            return os.dup(stream.fileno())


@cache
def _system() -> str:
    """Names the running system and the processes that this one sees in it; empty where others cannot open its files."""
    processes = namespace("pid")
    return f"{boot()} {processes}" if processes else ""


def _identity(descriptor: int) -> str:
    """Of an open file among all open ones: a number of a descriptor, or of a process, may be another's meanwhile."""
    found = os.fstat(descriptor)
    return f"{found.st_dev}:{found.st_ino}"


def _layout(spec: TableSpec, num_rows: int) -> tuple[int, int, int]:
    """Where the bytes of which rows were touched begin, where the rows do, and where these end; counts come first."""
    touched = _PAGE
    rows = touched + (0 if _begins_with_zeros(spec) else -(-num_rows // _PAGE) * _PAGE)
    return touched, rows, rows + num_rows * spec.row_bytes


def _begins_with_zeros(spec: TableSpec) -> bool:
    return spec.begin.kind == "constant" and spec.begin.low == 0


def _rows_in(memory: Tensor, spec: TableSpec, num_rows: int) -> MappedRows:
    touched, begin, end = _layout(spec, num_rows)
    rows = memory[begin:end].view(spec.torch_dtype).view(num_rows, *spec.shape)
    return MappedRows(
        rows=rows,
        touched=None if _begins_with_zeros(spec) else memory[touched : touched + num_rows],
        counts=memory[: _COUNTS * 8].view(torch.int64),
        source=_pieces(rows, on_disk=spec.storage == "disk"),
    )


def _pieces(array: Tensor, *, on_disk: bool) -> ops.Pieces:
    if on_disk:
        read_by_rows(array.data_ptr(), array.nbytes)
    return ops.Pieces([array], [0, len(array)], disk_arrays=(array.data_ptr(),) if on_disk else ())
