"""Machine code of kernels on disk: a file for each kernel and each types of its arguments, named after all that it depends on.

So a file is whole and right, or absent: processes that compile at the same time write the same, and one that is killed while it
writes leaves nothing that is found. A folder may be copied, or made for another processor, and need not be writable.
"""

import hashlib
import inspect
import logging
import os
import platform
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba
from filelock import FileLock, Timeout
from numba.core import serialize
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import _nrt_python

from halohop.errors import CorruptDatasetError, IncompleteDatasetError, InputError
from halohop.files.aside import writing
from halohop.files.whole import read_sealed, sealed_file

PATIENCE = 120.0
"""Seconds to wait for another process that compiles; then this one compiles, too."""

ANNOUNCED = threading.Event()
"""Set when whoever started this process knows that kernels are being compiled."""

_LOG = logging.getLogger(__name__)
_SUFFIX = ".kernel"
_HERE = Path(__file__).parent / "__pycache__"

_LEVELS: Mapping[str, frozenset[str]] = {
    "x86-64-v2": frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"}),
    "x86-64-v3": frozenset({"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}),
    "x86-64-v4": frozenset({"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}),
}
"""What each level of the x86-64 psABI asks of a processor, beside what the level before it does; by LLVM's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where machine code is.

    Args:
        written: where new code goes; None: nowhere, each process compiles for itself.
        read: where code is looked for, in this order.
    """

    written: Path | None
    read: tuple[Path, ...]


def folders() -> Folders:
    """NUMBA_CACHE_DIR where it is set, else beside the kernels' sources, else the user's folder of caches."""
    return _folders(numba.config.CACHE_DIR, os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", ""))


@cache
def _folders(named: str, caches: str, home: str) -> Folders:
    if named:
        folder = Path(named) / "halohop"
        if _writable(folder):
            return Folders(written=folder, read=(folder,))
        if Path(named).is_dir():
            return Folders(written=None, read=(folder,))
    own = Path(caches) if caches else Path(home) / ".cache"
    users = [own / "halohop" / "kernels"] if caches or home else []
    for folder in (_HERE, *users):
        if _writable(folder):
            return Folders(written=folder, read=tuple(dict.fromkeys((folder, _HERE))))
    return Folders(written=None, read=(*users, _HERE))


def _writable(folder: Path) -> bool:
    """Whether files can be made there, or the folder itself, which is not made yet."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)


class MachineCode(_Cache):  # type: ignore[misc]
    """That of one kernel, as Numba looks for it: no index, no stamps of time.

    Args:
        function: the kernel's Python function.
        known: machine code of the kernels that it may call.

    Attributes:
        sources: digests of the files that it is made from, as they are when this is imported.
    """

    def __init__(self, function: Callable[..., Any], known: "Iterable[MachineCode]" = ()) -> None:
        source = Path(inspect.getfile(function))
        self._name = f"{source.stem}.{function.__qualname__}"
        own = digest_of(source), digest_of(Path(__file__).with_name("cpu_jit.py"))
        self.sources: frozenset[str] = frozenset(own).union(*(code.sources for code in known))

    @property
    def cache_path(self) -> str | None:
        written = folders().written
        return None if written is None else str(written)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """What was compiled for a signature; None if nothing was.

        Of Numba only what machine code calls is made ready: loading all that it compiles with takes half a second.
        """
        _name_runtime()
        for folder in folders().read:
            with suppress(IncompleteDatasetError, CorruptDatasetError, PermissionError):  # it is compiled, and written anew
                code = read_sealed(folder / self._file(signature))
                return CompileResult._rebuild(target, *serialize.loads(code))
        if not ANNOUNCED.is_set():
            ANNOUNCED.set()
            _LOG.info("compiling %s and what else is used for the first time on this machine, a second or two each", self._name)
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """
        Raises:
            WriteError: it cannot be written, as on a full disk; names the file.
        """
        folder = folders().written
        if folder is None or compiled.library.has_dynamic_globals:
            return
        file = folder / self._file(signature)
        with writing(file):
            folder.mkdir(parents=True, exist_ok=True)
        with sealed_file(file) as stream:
            stream.write(serialize.dumps(compiled._reduce()))
        if folder == _HERE:  # of one installation: what its older sources became is not needed any more
            for stale in folder.glob(f"{self._name}-{self._variant(signature)}-*{_SUFFIX}"):
                if stale != file:
                    stale.unlink(missing_ok=True)

    @contextmanager
    def alone(self, signature: Any) -> Iterator[None]:
        """No other process compiles the same while the block lasts, or for as long as the patience lasts."""
        places, name = folders(), self._file(signature)
        if places.written is None or any((folder / name).exists() for folder in places.read):
            yield
            return
        with writing(places.written):
            places.written.mkdir(parents=True, exist_ok=True)
        lock = FileLock((places.written / name).with_suffix(".lock"), timeout=PATIENCE)
        with suppress(Timeout):
            lock.acquire()
        try:
            yield
        finally:
            if lock.is_locked:
                Path(lock.lock_file).unlink(missing_ok=True)  # who waits for it finds the file that it guards
                lock.release()

    def enable(self) -> None:
        """It always is."""

    def disable(self) -> None:
        """It never is."""

    def flush(self) -> None:
        """Files may be removed at any time."""

    def _file(self, signature: Any) -> str:
        return f"{self._name}-{self._variant(signature)}-{_digest(*sorted(self.sources))}{_SUFFIX}"

    def _variant(self, signature: Any) -> str:
        return _digest(str(signature), *system())


def is_read_only() -> bool:
    """Whether NUMBA_CACHE_DIR names a folder that is there and cannot be written."""
    return bool(numba.config.CACHE_DIR) and folders().written is None


@cache
def _name_runtime() -> None:
    """Tells the loader of machine code where Numba's functions are that allocate and free arrays.

    Numba's `rtsys.initialize` also compiles what new machine code is made of: 30 ms, needed only if there is some to make.
    """
    for name, address in _nrt_python.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


@cache
def digest_of(source: Path) -> str:
    """Of a file's contents, when this is first called."""
    return hashlib.blake2b(source.read_bytes(), digest_size=8).hexdigest()


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()


def system() -> tuple[str, ...]:
    """What machine code depends on beside its source and types: compiler, Python and processor."""
    return (numba.__version__, llvmlite.__version__, sys.version, platform.machine(), *processor())


def processor() -> tuple[str, str]:
    """Name and features of the processor that is compiled for, as LLVM calls them: NUMBA_CPU_NAME, or else this machine's."""
    try:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on this platform; Numba compiles for none then
        features = ""
    name, given = numba.config.CPU_NAME, numba.config.CPU_FEATURES
    return llvmlite.binding.get_host_cpu_name() if name is None else name, features if given is None else given


def check_processor() -> None:
    """
    Raises:
        InputError: NUMBA_CPU_NAME is a level of x86-64 that this machine does not have: its code would end the process.
    """
    name = numba.config.CPU_NAME
    if name not in _LEVELS:
        return
    levels = list(_LEVELS)
    needed = frozenset().union(*(_LEVELS[level] for level in levels[: levels.index(name) + 1]))
    has = {feature for feature, there in llvmlite.binding.get_host_cpu_features().items() if there}
    if missing := sorted(needed - has):
        raise InputError(
            f"NUMBA_CPU_NAME={name}, but this machine's processor ({llvmlite.binding.get_host_cpu_name()}) has no "
            f"{', '.join(missing)}; name a lower level and compile the kernels for it, or run where all processors have it"
        )
