"""Compiling before the first batch, so that no batch pays for it silently."""

import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import torch
from filelock import FileLock, Timeout

from halohop.errors import WriteError
from halohop.ops import cpu_index, cpu_jit, cpu_kept, cpu_paging
from halohop.ops.beginnings import fill_normal, fill_uniform
from halohop.ops.eligible import Eligible
from halohop.ops.index import bucket, build_csc, repeat_positions, stitch
from halohop.ops.labor import Sources
from halohop.ops.relabel import Relabeler
from halohop.ops.rows import gather_rows, scatter_rows
from halohop.ops.rules import FLOATS, gradient_dtype, step_adagrad, step_adam, step_rowwise_adagrad, step_sgd
from halohop.ops.sample import sample_neighbors
from halohop.ops.sparse import SparseRows
from halohop.ops.sums import all_finite, sum_by_id, sum_of_squares

_PATIENCE = 120.0  # seconds to wait for another process that compiles; then this one compiles too
_READY, _TABLES_READY = threading.Event(), threading.Event()  # those kernels are loaded in this process


def _say(line: str) -> None:
    """Prints a line for the user who started this process."""
    print(f"halohop: {line}", file=sys.stderr)


def warm_up(announce: Callable[[str], None] = _say) -> None:
    """Makes every kernel ready: compiled once per machine and version, which takes seconds, afterwards loaded from disk.

    Several processes may call it at once: one compiles, the others wait and load. A process that has them loaded does nothing.
    Where NUMBA_CACHE_DIR cannot be written, as in a container, machine code that is there already is used: compiled beforehand,
    with the same NUMBA_CPU_NAME.

    Args:
        announce: is given one line of text before compiling begins; not called where the kernels are there already.

    Raises:
        InputError: NUMBA_CPU_NAME names a processor that can do more than this one.
        WriteError: machine code cannot be kept, as on a full disk; names the folder.

    Example:
        >>> warm_up()
    """
    if not _READY.is_set():
        _compile("", _call_every_kernel, announce)
        _call_every_kernel()
        _READY.set()


def warm_up_tables(announce: Callable[[str], None] = _say) -> None:
    """`warm_up` of the kernels that only tables need, so that others do not wait for them. What is compiled is not loaded yet:
    most tables need few of them, and a kernel is loaded in milliseconds."""
    if not _TABLES_READY.is_set():
        _compile("-tables", _call_every_kernel_of_tables, announce)
        _TABLES_READY.set()


def _compile(kind: str, call_all: Callable[[], None], announce: Callable[[str], None]) -> None:
    """Compiles what is not there yet, or says that it will be compiled when it is called."""
    cpu_kept.check_processor()
    directory = cpu_jit.cache_directory(cpu_index.gather)
    if directory is None:
        announce("compiling kernels, in every process: there is no directory to keep machine code in; NUMBA_CACHE_DIR names one")
    else:
        _compile_into(directory, kind, call_all, announce)


def _compile_into(directory: Path, kind: str, call_all: Callable[[], None], announce: Callable[[str], None]) -> None:
    """Compiles into a directory what is not there yet, in one process at a time."""
    marker = directory / f"halohop-{cpu_jit.fingerprint()}{kind}.warm"
    if not marker.exists() and cpu_kept.is_read_only():
        announce(
            f"compiling kernels, in every process: NUMBA_CACHE_DIR={numba.config.CACHE_DIR} cannot be written, and has none for "
            f"processor {cpu_kept.processor()[0]}, Python {platform.python_version()} and numba {numba.__version__}"
        )
    elif not marker.exists():
        lock = FileLock(marker.with_suffix(".lock"), timeout=_PATIENCE)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with lock:
                if not marker.exists():
                    announce(f"compiling kernels, once per machine: machine code goes to {directory}")
                    call_all()
                    marker.touch()
        except Timeout:
            announce(f"compiling kernels, beside another process, which holds {lock.lock_file} for more than {_PATIENCE:.0f} s")
        except OSError as error:
            raise WriteError.of(f"machine code to {directory} (NUMBA_CACHE_DIR names another)", error) from error


def _call_every_kernel() -> None:
    """Calls every operation on a graph of two nodes, with every dtype of ids and every word that rows are made of."""
    indptr = torch.tensor([0, 2, 3])
    ids = torch.tensor([0, 1, 1])
    for fanout, replace in ((1, False), (100, False), (1, True)):
        sample_neighbors(indptr, ids, ids, fanout, 0, replace=replace)
    for replace in (False, True):
        sample_neighbors(indptr, ids, ids, 1, 0, replace=replace, weights=torch.ones(3))
    for dtype in (torch.int64, torch.int32):
        sample_neighbors(indptr, ids, ids, 1, 0, sources=Sources(ids=ids.to(dtype)))
    for dtype in (torch.int64, torch.float64):
        times = torch.zeros(3, dtype=dtype)
        eligible = Eligible(times=times, latest=times, last=True, excluded=ids)
        sample_neighbors(indptr, ids, ids, 1, 0, eligible=eligible)
    cpu_paging.will_need(np.zeros(0, np.uint64), np.uint64(0))
    stitch(torch.tensor([1, 2, 0]), torch.tensor([0, 2, 1]))
    repeat_positions(ids, 0, torch.empty(2, dtype=torch.int64))
    for dtype in (torch.int64, torch.int32):
        typed = ids.to(dtype)
        for word in (torch.int64, torch.int32, torch.uint8):
            source = torch.zeros(3, dtype=word)
            scatter_rows(gather_rows(source, typed), typed, source)
        bucket(typed, (0, 1, 2), (0, 1))
        build_csc(typed, 2)
        for dense_limit in (2, 0):
            relabeler = Relabeler(2, dense_limit=dense_limit)
            relabeler.start(typed)
            relabeler.add(typed)
            relabeler.find(typed)
    for values in (torch.int64, torch.int32, torch.int16, torch.uint8):
        for indices in (torch.int32, torch.int16):
            SparseRows(indptr=indptr, indices=ids.to(indices), values=torch.ones(3, dtype=values), width=2).dense()


def _call_every_kernel_of_tables() -> None:
    """Calls every operation on two rows of each dtype that can be trained."""
    lid = torch.tensor([1, 0])
    for dtype in FLOATS:
        rows, grads = torch.zeros(2, 1, dtype=dtype), torch.zeros(2, 1, dtype=gradient_dtype(dtype))
        state = torch.zeros_like(grads)
        step_sgd(rows, lid, grads, lr=0.0)
        step_adagrad(rows, state, lid, grads, lr=0.0, eps=1.0)
        step_rowwise_adagrad(rows, state[:, 0], lid, grads, lr=0.0, eps=1.0)
        step_adam(rows, state, torch.zeros_like(state), lid, grads, lr=0.0, eps=1.0, beta1=0.0, beta2=0.0)
    for dtype in (torch.float32, torch.float64):
        rows = torch.zeros(2, 1, dtype=dtype)
        sum_of_squares(sum_by_id([lid, lid], [rows, rows], mean=True)[1])
        all_finite(rows)
        for fill in (fill_uniform, fill_normal):
            fill(rows, 0, lid, 0.0, 1.0)
