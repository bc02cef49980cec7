"""How kernels of a GPU are launched, and what several of them share."""

import threading
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
"""Entries that one program of a kernel works on, unless it says otherwise."""

_one_at_a_time = threading.Lock()
"""Triton shows a kernel to all threads before it has loaded it: one that launches it meanwhile would launch nothing, and
fail. Also each of them would compile it."""

_TILE, _MOST_COLUMNS = 1024, 256  # entries of a tile of rows, and of a row in it


def kernel(function: Callable[..., Any]) -> Any:
    """Triton's `jit`: a function that programs of a GPU run, or that others call which do.

    Arguments annotated as `tl.int64` are sizes that differ from batch to batch. For other numbers Triton compiles a kernel anew,
    where they are 1, multiples of 16, or 2**31 and more.
    """
    sizes = [name for name, kind in function.__annotations__.items() if kind is tl.int64]
    return triton.jit(function, do_not_specialize=sizes)


def launch(run: Any, count: int, *arguments: Any, block: int = BLOCK, **options: Any) -> None:
    """Runs a kernel on the current stream of the device of its first tensor, ``ceil(count / block)`` programs of it; none where
    there is nothing to do.

    Args:
        run: the kernel; takes the arguments, and `block`.
        count: entries.
        arguments: of the kernel; tensors without gaps, as kernels know addresses only.
        block: entries of a program.
        options: further constants of the kernel, and Triton's own (num_warps). A multiplication and an addition are not made
            one, as that rounds otherwise than the CPU.
    """
    if count:
        tensors = [argument for argument in arguments if isinstance(argument, Tensor)]
        assert all(tensor.is_contiguous() for tensor in tensors)
        with torch.cuda.device_of(tensors[0]), _one_at_a_time:
            run[(triton.cdiv(count, block),)](*arguments, block=block, **{"enable_fp_fusion": False} | options)


def launch_tiles(run: Any, count: int, width: int, *arguments: Any, least: int = 1, **options: Any) -> None:
    """Runs a kernel on rows of so many entries, a program a tile of rows and columns.

    Args:
        run: the kernel; takes the arguments, how many tiles a row has, and `columns` and `block`, those of a tile.
        count, width: rows, and entries of each.
        arguments, options: as of `launch`.
        least: columns that a tile has at least, a power of two.
    """
    columns = min(triton.next_power_of_2(max(width, least)), _MOST_COLUMNS)
    block, tiles = _TILE // columns, max(triton.cdiv(width, columns), 1)
    programs = triton.cdiv(count, block) * tiles
    launch(run, programs * block, *arguments, tiles, block=block, columns=columns, **options)


@kernel
def piece_of(rows: tl.tensor, bounds: tl.tensor, num_pieces: tl.tensor) -> tl.tensor:
    """The piece that each row lies in: pieces are few."""
    piece = tl.zeros_like(rows)
    for p in range(1, num_pieces):
        piece += (rows >= tl.load(bounds + p)).to(tl.int64)
    return piece


@kernel
def load_word(
    addresses: tl.tensor,
    bounds: tl.tensor,
    num_pieces: tl.tensor,
    rows: tl.tensor,
    column: tl.tensor,
    width: tl.tensor,
    live: tl.tensor,
    word: tl.constexpr,
) -> tl.tensor:
    """Word `column` of each row of an array in pieces, whose rows have `width` words."""
    piece = piece_of(rows, bounds, num_pieces)
    base = tl.load(addresses + piece, mask=live, other=0)
    first = tl.load(bounds + piece, mask=live, other=0)
    pointer = base.to(tl.pointer_type(word)) + ((rows - first) * width + column)
    return tl.load(pointer, mask=live, other=0)
