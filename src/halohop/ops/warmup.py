"""Compiling before the first batch, so that no batch pays for it silently."""

import logging
import platform
import threading
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path

import numba
from filelock import FileLock, Timeout

from halohop.cores import usable_cores
from halohop.errors import InputError, WriteError
from halohop.ops import cpu_jit, cpu_kept, variants
from halohop.ops.forked import call_all
from halohop.ops.variants import Call

_LOG = logging.getLogger(__name__)
_PROCESSES = 4  # that compile at the same time, at most
_READY, _NEAR_READY, _TABLES_READY = (threading.Event() for _ in range(3))  # those kernels are loaded, or compiled
_ANNOUNCED = threading.Event()  # this process has said that it compiles


def warm_up(announce: Callable[[str], None] = _LOG.warning) -> None:
    """Makes the kernels ready that a loader of neighbours needs: compiled once per machine and version, which takes seconds,
    afterwards loaded from disk. Others are compiled when they are first called, or by `compile_kernels`.

    Several processes may call it at once: one compiles, with others that it forks, the rest wait and load. A process that has
    them loaded does nothing. Where NUMBA_CACHE_DIR cannot be written, as in a container, machine code that is there already is
    used: compiled beforehand, with the same NUMBA_CPU_NAME.

    Args:
        announce: is given one line of text before compiling begins; not called where the kernels are there already.

    Raises:
        InputError: NUMBA_CPU_NAME names a processor that can do more than this one.
        WriteError: machine code cannot be kept, as on a full disk; names the folder.

    Example:
        >>> warm_up()
    """
    _make_ready(_READY, "", variants.common, announce)


def warm_up_near(announce: Callable[[str], None] = _LOG.warning) -> None:
    """`warm_up` of the kernels that are enough where the lists of a graph lie in one piece each, so that it is sooner done."""
    _make_ready(_NEAR_READY, "-near", variants.near, announce)


def warm_up_tables(announce: Callable[[str], None] = _LOG.warning) -> None:
    """`warm_up` of the kernels that only tables need, so that others do not wait for them. What is compiled is not loaded yet:
    most tables need few of them, and a kernel is loaded in milliseconds."""
    _make_ready(_TABLES_READY, "-tables", variants.of_tables, announce, load=False)


def compile_kernels(announce: Callable[[str], None] = _LOG.warning) -> None:
    """Compiles every kernel for every types of arguments, as for an image, where nothing can be kept later.

    Args:
        announce: as of `warm_up`.

    Raises:
        InputError, WriteError: as of `warm_up`; or there is no folder that can be written.
    """
    folder = cpu_kept.folders().written
    if folder is None:
        named = numba.config.CACHE_DIR
        raise InputError(
            f"NUMBA_CACHE_DIR={named} cannot be written, so no machine code can be kept; name another folder"
            if named
            else "there is no directory to keep machine code in; name one by NUMBA_CACHE_DIR"
        )
    from halohop.ops.variants_of_building import of_building  # whoever loads batches does without what it imports

    batches = chain(variants.near(), variants.common(), variants.others(), variants.of_layers(), variants.of_tables())
    _compile("-all", chain(batches, of_building()), announce)
    for kind in ("", "-near", "-tables"):
        _marker(folder, kind).touch()


def _make_ready(
    ready: threading.Event,
    kind: str,
    kernels: Callable[[], Iterable[Call]],
    announce: Callable[[str], None],
    *,
    load: bool = True,
) -> None:
    """Compiles the kernels of a kind, and loads them, unless this process has done so before."""
    if not ready.is_set():
        calls = list(kernels())
        _compile(kind, calls, announce)
        for call in calls if load else ():
            call()
        ready.set()


def _marker(folder: Path, kind: str) -> Path:
    """A file that is there when the kernels of a kind have been compiled."""
    return folder / f"halohop-{cpu_jit.fingerprint()}{kind}.warm"


def _compile(kind: str, calls: Iterable[Call], announce: Callable[[str], None]) -> None:
    """Compiles what is not there yet, or says that it will be compiled when it is called."""
    cpu_kept.check_processor()
    folders = cpu_kept.folders()
    if any(_marker(folder, kind).exists() for folder in folders.read):
        return
    cpu_kept.ANNOUNCED.set()
    if folders.written is not None:
        _compile_into(folders.written, kind, list(calls), announce)
    elif cpu_kept.is_read_only():
        _announce_once(
            announce,
            f"compiling kernels, in every process: NUMBA_CACHE_DIR={numba.config.CACHE_DIR} cannot be written, and has none for "
            f"processor {cpu_kept.processor()[0]}, Python {platform.python_version()} and numba {numba.__version__}",
        )
    else:
        _announce_once(
            announce,
            "compiling kernels, in every process: there is no directory to keep machine code in; NUMBA_CACHE_DIR names one",
        )


def _announce_once(announce: Callable[[str], None], line: str) -> None:
    """Announces the first compilation of this process only: other kinds of kernels follow it within seconds."""
    if not _ANNOUNCED.is_set():
        _ANNOUNCED.set()
        announce(line)


def _compile_into(directory: Path, kind: str, calls: list[Call], announce: Callable[[str], None]) -> None:
    """Compiles into a directory what is not there yet, on behalf of one process at a time."""
    marker = _marker(directory, kind)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(marker.with_suffix(".lock"), timeout=cpu_kept.PATIENCE) as lock:
            if not marker.exists():
                _announce_once(announce, f"compiling kernels, once per machine: machine code goes to {directory}")
                cpu_jit.load_compiler()  # before there are several processes, which all need it
                if not call_all(calls, processes=min(len(usable_cores()), _PROCESSES), deadline=cpu_kept.PATIENCE):
                    call_all(calls, processes=1, deadline=0.0)  # fails as the other process did
                for old in directory.glob("cpu_*.nb[ic]"):  # of versions that kept machine code in Numba's own cache
                    old.unlink(missing_ok=True)
                marker.touch()
            Path(lock.lock_file).unlink(missing_ok=True)
    except Timeout:
        announce(
            f"compiling kernels, beside another process, which holds {marker.stem}.lock for more than {cpu_kept.PATIENCE:.0f} s"
        )
    except OSError as error:
        raise WriteError.of(f"machine code to {directory} (NUMBA_CACHE_DIR names another)", error) from error
