"""How kernels of a GPU are launched, and what several of them share."""

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256
"""Entries that one program of a kernel works on, unless it says otherwise."""


def kernel(function: Callable[..., Any]) -> Any:
    """Triton's `jit`: a function that programs of a GPU run, or that others call which do."""
    return triton.jit(function)


def launch(run: Any, count: int, *arguments: Any, block: int = BLOCK, **options: Any) -> None:
    """Runs a kernel on the current stream of the device of its first tensor, ``ceil(count / block)`` programs of it; none where
    there is nothing to do.

    Args:
        run: the kernel; takes the arguments, and `block`.
        count: entries.
        arguments: of the kernel.
        block: entries of a program.
        options: further constants of the kernel, and Triton's own (num_warps). A multiplication and an addition are not made
            one, as that rounds otherwise than the CPU.
    """
    if count:
        first = next(argument for argument in arguments if isinstance(argument, Tensor))
        with torch.cuda.device_of(first):
            run[(triton.cdiv(count, block),)](*arguments, block=block, **{"enable_fp_fusion": False} | options)


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
