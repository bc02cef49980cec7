"""How gradients change rows, in plain torch: the specification of `halohop.ops.rules`.

Row i of `grads` belongs to row lid[i]. Numbers of two bytes are computed with as float32 and rounded when they are written.
"""

import math

import numpy as np
import torch
from torch import Tensor


def sum_by_id(gid: Tensor | list[Tensor], rows: Tensor | list[Tensor], *, mean: bool = False) -> tuple[Tensor, Tensor]:
    gid, rows = (given if isinstance(given, Tensor) else torch.cat(given) for given in (gid, rows))
    ids = sorted(set(gid.tolist()))
    sums = []
    for v in ids:
        places = [place for place, other in enumerate(gid.tolist()) if other == v]
        total = rows[places[0]].clone()
        for place in places[1:]:
            total = total + rows[place]
        sums.append(total / len(places) if mean else total)
    return torch.tensor(ids, dtype=torch.int64), torch.stack(sums) if sums else rows[:0].clone()


def all_finite(rows: Tensor) -> bool:
    return all(math.isfinite(value) for value in rows.reshape(-1).tolist())


def any_huge(rows: Tensor) -> bool:
    least = 2.0**97 if rows.dtype == torch.float32 else 2.0**769
    return any(not abs(value) < least for value in rows.reshape(-1).tolist())


def sum_of_squares(rows: Tensor) -> float:
    """In float64: eight sums, of every eighth entry, folded in halves; what remains is added to the total one by one."""
    squares = [value * value for value in rows.double().reshape(-1).tolist()]
    whole = len(squares) - len(squares) % 8
    lanes = [0.0] * 8
    for place in range(whole):
        lanes[place % 8] += squares[place]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [one + other for one, other in zip(lanes[:half], lanes[half:], strict=True)]
    total = lanes[0]
    for value in squares[whole:]:
        total += value
    return total


def step_sgd(rows: Tensor, lid: Tensor, grads: Tensor, *, lr: float, scale: float = 1.0) -> None:
    _move(rows, lid, grads * scale, lr)


def step_adagrad(rows: Tensor, sums: Tensor, lid: Tensor, grads: Tensor, *, lr: float, eps: float, scale: float = 1.0) -> None:
    grads = grads * scale
    sums[lid] += grads * grads
    _move(rows, lid, grads / (_root(sums[lid]) + eps), lr)


def step_rowwise_adagrad(
    rows: Tensor, sums: Tensor, lid: Tensor, grads: Tensor, *, lr: float, eps: float, scale: float = 1.0
) -> None:
    factor = scale * scale / max(math.prod(grads.shape[1:]), 1)
    squares = [sum_of_squares(grad) * factor for grad in grads]
    sums[lid] += torch.tensor(squares, dtype=sums.dtype)
    root = _root(sums[lid]) + eps
    sizes = torch.full_like(root, lr) / root  # torch multiplies by the inverse where a number is divided by a tensor
    _move(rows, lid, grads * scale * sizes.view(-1, *[1] * (grads.dim() - 1)), 1.0)


def step_adam(
    rows: Tensor,
    mean: Tensor,
    square: Tensor,
    lid: Tensor,
    grads: Tensor,
    *,
    lr: float,
    eps: float,
    beta1: float,
    beta2: float,
    step: int = 1,
    row_steps: Tensor | None = None,
    scale: float = 1.0,
) -> None:
    grads = grads * scale
    mean[lid] += (grads - mean[lid]) * (1 - beta1)
    square[lid] += (grads * grads - square[lid]) * (1 - beta2)
    if row_steps is not None:
        row_steps[lid] += 1
    steps = [step] * len(lid) if row_steps is None else row_steps[lid].tolist()
    sizes = torch.tensor([lr * math.sqrt(1 - _power(beta2, t)) / (1 - _power(beta1, t)) for t in steps], dtype=grads.dtype)
    _move(rows, lid, (mean[lid] / (_root(square[lid]) + eps)) * sizes.view(-1, *[1] * (grads.dim() - 1)), 1.0)


def _power(base: float, exponent: int) -> float:
    """By squares, so that it has the same bits everywhere; `**` is the C library's."""
    result = 1.0
    while exponent:
        if exponent % 2:
            result *= base
        base, exponent = base * base, exponent // 2
    return result


def _move(rows: Tensor, lid: Tensor, by: Tensor, lr: float) -> None:
    """Moves rows against `by`."""
    rows[lid] = (rows[lid].to(by.dtype) - by * lr).to(rows.dtype)


def _root(values: Tensor) -> Tensor:
    """Rounded as IEEE 754 says; that of MKL, which torch takes on some processors, may be a bit off."""
    return torch.from_numpy(np.sqrt(values.numpy()))
