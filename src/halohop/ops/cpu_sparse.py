"""CPU kernels of rows of which most entries are zero. `halohop.ops.reference` says in plain Python what they compute."""

from typing import Any

from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel


@kernel
def fill_rows(indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], width: Any, step: Any, out: NDArray[Any]) -> Any:
    """Writes the entries of all rows into `out`, flat and zero, `width` numbers a row; `step` is 0 where all are values[0].

    Returns how many rows were written: fewer than there are if the next one has an entry outside its row, or no such list.
    """
    for row in range(indptr.size - 1):
        begin, end = indptr[row], indptr[row + 1]
        if begin < 0 or end < begin or end > indices.size:
            return row
        for at in range(begin, end):
            if indices[at] < 0 or indices[at] >= width:
                return row
            out[row * width + indices[at]] = values[at * step]
    return indptr.size - 1
