"""Gradients change rows on a GPU: what `halohop.ops.rules` computes, bit for bit.

Numbers of a rule are of float64, as Triton would otherwise pass float32. Rows of bfloat16 come as their bits, int16: Triton's
interpreter cuts bits off where a GPU rounds.
"""

import math
from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from halohop.errors import InputError
from halohop.ops.gpu_launch import kernel, launch, launch_tiles
from halohop.ops.gpu_numbers import divided, power, root, squares_of_rows
from halohop.ops.gpu_rows import faults_of
from halohop.ops.pool import Pool
from halohop.ops.rules import check_rows, check_state

_ROWS, _COLUMNS = 16, 64  # of a program that goes over whole rows


# --- rows ------------------------------------------------------------


@kernel
def touched_rows(
    lid: tl.tensor, num_rows: tl.int64, faults: tl.tensor, first: tl.tensor, count: tl.int64, block: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The places of some gradients, the rows that they belong to, and which of these are there: the others are faults."""
    i = first.to(tl.int64) * block + tl.arange(0, block)
    inside = i < count
    row = tl.load(lid + i, mask=inside, other=0)
    live = inside & (row >= 0) & (row < num_rows)
    tl.atomic_max(faults + tl.zeros_like(i), row, mask=inside & ~live, sem="relaxed")
    return i, row, live


@kernel
def scaled(grads: tl.tensor, i: tl.tensor, column: tl.tensor, width: tl.tensor, scale: tl.tensor, ok: tl.tensor) -> tl.tensor:
    """Entries of gradients, ``[rows, columns]``."""
    entries = tl.load(grads + i[:, None] * width + column[None, :], mask=ok, other=0.0)
    return entries * tl.full((), scale, entries.dtype)


@kernel
def moved(rows: tl.tensor, at: tl.tensor, by: tl.tensor, ok: tl.tensor, brain: tl.constexpr) -> tl.tensor:
    """Entries of rows, less what they are moved by, as they are stored; `brain`: as the bits of bfloat16."""
    words = tl.load(rows + at, mask=ok, other=0)
    if brain:
        value = (words.to(tl.uint16, bitcast=True).to(tl.uint32) << 16).to(tl.float32, bitcast=True) - by
        bits = value.to(tl.uint32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        found = tl.where(value == value, rounded, (bits >> 16) | 0x40).to(tl.int16)
    else:
        found = (words.to(by.dtype) - by).to(words.dtype)
    return found


# --- rules ------------------------------------------------------------


@kernel
def sgd(
    rows: tl.tensor,
    lid: tl.tensor,
    grads: tl.tensor,
    faults: tl.tensor,
    num_rows: tl.int64,
    width: tl.tensor,
    scale: tl.float64,
    lr: tl.float64,
    count: tl.int64,
    tiles: tl.tensor,
    brain: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    i, row, live = touched_rows(lid, num_rows, faults, program // tiles, count, block)
    column = (program % tiles) * columns + tl.arange(0, columns)
    ok = live[:, None] & (column < width)[None, :]
    grad = scaled(grads, i, column, width, scale, ok)
    at = row[:, None] * width + column[None, :]
    tl.store(rows + at, moved(rows, at, tl.full((), lr, grad.dtype) * grad, ok, brain), mask=ok)


@kernel
def adagrad(
    rows: tl.tensor,
    sums: tl.tensor,
    lid: tl.tensor,
    grads: tl.tensor,
    faults: tl.tensor,
    num_rows: tl.int64,
    width: tl.tensor,
    scale: tl.float64,
    lr: tl.float64,
    eps: tl.float64,
    count: tl.int64,
    tiles: tl.tensor,
    brain: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    i, row, live = touched_rows(lid, num_rows, faults, program // tiles, count, block)
    column = (program % tiles) * columns + tl.arange(0, columns)
    ok = live[:, None] & (column < width)[None, :]
    grad = scaled(grads, i, column, width, scale, ok)
    at = row[:, None] * width + column[None, :]
    total = tl.load(sums + at, mask=ok, other=1.0) + grad * grad
    tl.store(sums + at, total, mask=ok)
    by = divided(grad, root(total) + tl.full((), eps, grad.dtype))
    tl.store(rows + at, moved(rows, at, tl.full((), lr, grad.dtype) * by, ok, brain), mask=ok)


@kernel
def rowwise_adagrad(
    rows: tl.tensor,
    sums: tl.tensor,
    lid: tl.tensor,
    grads: tl.tensor,
    faults: tl.tensor,
    num_rows: tl.int64,
    width: tl.tensor,
    scale: tl.float64,
    lr: tl.float64,
    eps: tl.float64,
    factor: tl.float64,
    count: tl.int64,
    brain: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """`factor` makes the mean of a row's scaled and squared gradients of the sum of the squared gradients."""
    i, row, live = touched_rows(lid, num_rows, faults, tl.program_id(0), count, block)
    squares = squares_of_rows(grads, i, live, width, block)
    before = tl.load(sums + row, mask=live, other=1.0)
    total = before + (squares * tl.full((), factor, tl.float64)).to(before.dtype)
    tl.store(sums + row, total, mask=live)
    size = divided(tl.full((block,), lr, before.dtype), root(total) + tl.full((), eps, before.dtype))
    for begin in range(0, width, columns):
        column = begin + tl.arange(0, columns)
        ok = live[:, None] & (column < width)[None, :]
        grad = scaled(grads, i, column, width, scale, ok)
        at = row[:, None] * width + column[None, :]
        tl.store(rows + at, moved(rows, at, size[:, None] * grad, ok, brain), mask=ok)


@kernel
def count_steps(
    steps: tl.tensor, lid: tl.tensor, faults: tl.tensor, num_rows: tl.int64, count: tl.int64, block: tl.constexpr
) -> None:
    """Adds 1 to those of each row."""
    _, row, live = touched_rows(lid, num_rows, faults, tl.program_id(0), count, block)
    tl.store(steps + row, tl.load(steps + row, mask=live, other=0) + 1, mask=live)


@kernel
def adam(
    rows: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    steps: tl.tensor,
    lid: tl.tensor,
    grads: tl.tensor,
    faults: tl.tensor,
    num_rows: tl.int64,
    width: tl.tensor,
    scale: tl.float64,
    lr: tl.float64,
    eps: tl.float64,
    beta1: tl.float64,
    beta2: tl.float64,
    step: tl.int64,
    count: tl.int64,
    tiles: tl.tensor,
    by_row: tl.constexpr,
    brain: tl.constexpr,
    columns: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """`steps` counts those of each row, this one among them; else `step` is that of all."""
    program = tl.program_id(0)
    i, row, live = touched_rows(lid, num_rows, faults, program // tiles, count, block)
    column = (program % tiles) * columns + tl.arange(0, columns)
    ok = live[:, None] & (column < width)[None, :]
    number = tl.zeros_like(row) + step
    if by_row:
        number = tl.load(steps + row, mask=live, other=1).to(tl.int64)
    rate = tl.full((), lr, tl.float64) * tl.sqrt(1.0 - power(beta2, number)) / (1.0 - power(beta1, number))
    keep1, keep2 = 1.0 - tl.full((), beta1, tl.float64), 1.0 - tl.full((), beta2, tl.float64)
    grad = scaled(grads, i, column, width, scale, ok)
    at = row[:, None] * width + column[None, :]
    m = tl.load(mean + at, mask=ok, other=0.0)
    v = tl.load(square + at, mask=ok, other=1.0)
    m = m + (grad - m) * keep1.to(grad.dtype)
    v = v + (grad * grad - v) * keep2.to(grad.dtype)
    tl.store(mean + at, m, mask=ok)
    tl.store(square + at, v, mask=ok)
    by = divided(m, root(v) + tl.full((), eps, grad.dtype))
    tl.store(rows + at, moved(rows, at, rate.to(grad.dtype)[:, None] * by, ok, brain), mask=ok)


# --- the operations ------------------------------------------------------------


def step_sgd(rows: Tensor, lid: Tensor, grads: Any, *, lr: float, scale: float, pool: Pool | None) -> None:
    """`halohop.ops.step_sgd`."""
    words, own, width = _checked(rows, lid, grads, pool)
    launch_tiles(sgd, len(lid), width, words, *own, scale, lr, len(lid), brain=_is_brain(rows))


def step_adagrad(
    rows: Tensor, sums: Tensor, lid: Tensor, grads: Any, *, lr: float, eps: float, scale: float, pool: Pool | None
) -> None:
    """`halohop.ops.step_adagrad`."""
    words, own, width = _checked(rows, lid, grads, pool)
    check_state(sums, "sums", tuple(rows.shape), grads.dtype)
    launch_tiles(adagrad, len(lid), width, words, sums, *own, scale, lr, eps, len(lid), brain=_is_brain(rows))


def step_rowwise_adagrad(
    rows: Tensor, sums: Tensor, lid: Tensor, grads: Any, *, lr: float, eps: float, scale: float, pool: Pool | None
) -> None:
    """`halohop.ops.step_rowwise_adagrad`."""
    words, own, width = _checked(rows, lid, grads, pool)
    check_state(sums, "sums", (len(rows),), grads.dtype)
    numbers = scale, lr, eps, scale * scale / max(width, 1)
    options = {"brain": _is_brain(rows), "columns": _COLUMNS, "block": _ROWS}
    launch(rowwise_adagrad, len(lid), words, sums, *own, *numbers, len(lid), **options)


def step_adam(
    rows: Tensor,
    mean: Tensor,
    square: Tensor,
    lid: Tensor,
    grads: Any,
    *,
    lr: float,
    eps: float,
    beta1: float,
    beta2: float,
    step: int,
    row_steps: Tensor | None,
    scale: float,
    pool: Pool | None,
) -> None:
    """`halohop.ops.step_adam`."""
    words, own, width = _checked(rows, lid, grads, pool)
    check_state(mean, "mean", tuple(rows.shape), grads.dtype)
    check_state(square, "square", tuple(rows.shape), grads.dtype)
    if row_steps is not None:  # before: several programs read those of a row
        check_state(row_steps, "row_steps", (len(rows),), torch.int32)
        launch(count_steps, len(lid), row_steps, own[0], own[2], len(rows), len(lid))
    steps = own[0] if row_steps is None else row_steps
    numbers = scale, lr, eps, beta1, beta2, step
    options = {"by_row": row_steps is not None, "brain": _is_brain(rows)}
    launch_tiles(adam, len(lid), width, words, mean, square, steps, *own, *numbers, len(lid), **options)


def _checked(
    rows: Tensor, lid: Tensor, grads: Any, pool: Pool | None
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor, int, int], int]:
    """The rows for a kernel; what all of them get; and the width of a row."""
    if not isinstance(grads, Tensor):
        raise InputError("gradients of rows on a device are one tensor there; give SummedRows.tensor()")
    for name, tensor in (("lid", lid), ("grads", grads)):
        if not tensor.is_cuda:
            raise InputError(f"{name} lies on {tensor.device}, but the rows are on a device; give both on one")
    check_rows(rows, lid, grads)
    width = math.prod(rows.shape[1:])
    words = rows.detach().view(torch.int16) if _is_brain(rows) else rows.detach()
    return words, (lid.contiguous(), grads.detach(), faults_of(pool, lid), len(rows), width), width


def _is_brain(rows: Tensor) -> bool:
    return rows.dtype == torch.bfloat16
