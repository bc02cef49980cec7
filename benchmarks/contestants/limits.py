"""The machine's own limits, measured beside the others: what memory gives when nothing else is asked of the processor.

    lines   cache lines read at random places of 512 MiB
    rows    rows of 400 bytes read at random places; "moves": and written to a buffer that is used again
    copy    bytes copied in order, into a buffer that is used again

Each thread has an output of its own. Memory is on huge pages where the system grants them, as a limit should be.
"""

import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np

from benchmarks.protocol import Info, serve, timed
from halohop.ops.cpu_jit import prefetch

TABLE_BYTES = 1 << 29
ROW_BYTES = 400
LINES, ROWS = 1 << 20, 1 << 18  # touched in a batch

u64 = np.uint64
AHEAD = u64(64)  # lines between asking for one and reading it
ROWS_AHEAD = u64(8)
WORDS = u64(ROW_BYTES // 8)
WORDS_A_LINE = u64(8)
compiled = numba.njit(nogil=True, error_model="numpy")


@compiled
def _read_lines(table: Any, places: Any) -> Any:
    total, last = u64(0), u64(places.size - 1)
    for i in range(u64(places.size)):
        prefetch(table, places[min(i + AHEAD, last)])
        total += table[places[i]]
    return total


@compiled
def _ask_for_row(rows: Any, begin: Any) -> None:
    for word in range(u64(0), WORDS, WORDS_A_LINE):
        prefetch(rows, begin + word)
    prefetch(rows, begin + WORDS - u64(1))  # a row that begins inside a line may end in one more


@compiled
def _read_rows(rows: Any, places: Any) -> Any:
    total, last = u64(0), u64(places.size - 1)
    for i in range(u64(places.size)):
        _ask_for_row(rows, places[min(i + ROWS_AHEAD, last)] * WORDS)
        begin = places[i] * WORDS
        for word in range(WORDS):
            total += rows[begin + word]
    return total


@compiled
def _move_rows(rows: Any, places: Any, out: Any) -> None:
    last = u64(places.size - 1)
    for i in range(u64(places.size)):
        _ask_for_row(rows, places[min(i + ROWS_AHEAD, last)] * WORDS)
        begin, end = places[i] * WORDS, i * WORDS
        for word in range(WORDS):
            out[end + word] = rows[begin + word]


def huge(num_bytes: int) -> np.ndarray[Any, Any]:
    """Zeros on huge pages if the system grants them, every page touched."""
    memory = mmap.mmap(-1, num_bytes)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, np.uint64)
    array.fill(0)
    return array


def start(kind: str, threads: int = 1) -> tuple[Info, Any]:
    table = huge(TABLE_BYTES)
    count, choices = (LINES, TABLE_BYTES // 8) if kind == "lines" else (ROWS, TABLE_BYTES // ROW_BYTES)
    rng = np.random.default_rng(0)
    places = [rng.integers(choices, size=count, dtype=np.uint64) for _ in range(8)]
    own = threading.local()

    def out() -> Any:
        if not hasattr(own, "rows"):
            own.rows = huge(ROWS * ROW_BYTES)
        return own.rows

    def make(number: int) -> dict[str, float]:
        chosen = places[number % len(places)]
        match kind:
            case "lines":
                _read_lines(table, chosen)
                return {"batches": 1, "lines": LINES}
            case "rows":
                _read_rows(table, chosen)
            case "moves":
                _move_rows(table, chosen, out())
            case "copy":
                begin = number % 4 * ROWS * int(WORDS)
                np.copyto(out(), table[begin : begin + ROWS * int(WORDS)])
        return {"batches": 1, "rows": ROWS, "bytes": ROWS * ROW_BYTES}

    pool = ThreadPoolExecutor(threads) if threads > 1 else None
    return Info(versions={"numba": numba.__version__}), lambda batches: timed(make, range(batches), pool)


if __name__ == "__main__":
    serve(start)
