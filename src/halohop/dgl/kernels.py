"""Which of halohop's functions over lists computes what DGL's built-in functions ask for, and what does it where none fits."""

import math
import operator
from collections.abc import Callable

from torch import Tensor

from halohop.errors import InputError
from halohop.nn import Hop
from halohop.nn.functional import segment_add, segment_dot, segment_spmm

COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}


def combined(operation: str, left: Tensor, right: Tensor) -> Tensor:
    """Rows of both sides by a binary operation; where one side has fewer dimensions, ones are put before its columns.

    Raises:
        InputError: their shapes do not go together.
    """
    dims = max(left.dim(), right.dim())
    both = [rows.reshape(len(rows), *[1] * (dims - rows.dim()), *rows.shape[1:]) for rows in (left, right)]
    dot = operation == "dot" and dims > 1
    fits = all(a == b or (1 in (a, b) and not (dot and column == dims - 1)) for column, (a, b) in _columns(both))
    if not fits:
        raise InputError(f"rows of shape {list(left.shape[1:])} and {list(right.shape[1:])} do not go together by {operation!r}")
    if operation == "dot":
        products = both[0] * both[1]
        return products.sum(-1, keepdim=True) if dot else products
    return COMBINED[operation](both[0], both[1])


def scored(operation: str, left: Tensor, right: Tensor, hop: Hop) -> Tensor | None:
    """A binary operation on each edge's source and destination, in the order of the lists, without a row of either for an edge.

    Returns:
        None where halohop has no such function: another operation, or rows of different dtypes or shapes.
    """
    shape = left.shape[1:]
    if not left.is_floating_point() or left.dtype != right.dtype or shape != right.shape[1:]:
        return None
    if operation == "dot" and shape:
        there, here = (rows.reshape(len(rows), math.prod(shape[:-1]), shape[-1]) for rows in (left, right))
        return segment_dot(there, here, hop.src, hop.begins).view(hop.num_edges, *shape[:-1], 1)
    if operation in ("add", "sub"):
        there, here = (rows.reshape(len(rows), math.prod(shape)) for rows in (left, right))
        return segment_add(there, here if operation == "add" else -here, hop.src, hop.begins).view(hop.num_edges, *shape)
    return None


def heads_of(rows: Tensor, weight: Tensor) -> int | None:
    """How many weights an edge has for its source's row, where they multiply the row by parts of equal width.

    Example:
        >>> import torch
        >>> heads_of(torch.ones(5, 4, 8), torch.ones(9, 4, 1)), heads_of(torch.ones(5, 8), torch.ones(9))
        (4, 1)
        >>> heads_of(torch.ones(5, 4, 8), torch.ones(9, 8)) is None  # 8 weights for each of 4 parts
        True
    """
    shape, padded = rows.shape[1:], (1,) * (rows.dim() - weight.dim()) + weight.shape[1:]
    if len(padded) != len(shape):
        return None
    kept = next((place for place, (a, b) in enumerate(zip(shape, padded, strict=True)) if a != b), len(shape))
    return math.prod(shape[:kept]) if all(size == 1 for size in padded[kept:]) else None


def reduced(operation: str, rows: Tensor, at: Tensor, begins: Tensor, weight: Tensor | None = None) -> Tensor:
    """The sum, mean, greatest or least of rows, list by list, 0 for an empty one.

    Args:
        operation: "sum", "mean", "max" or "min".
        rows: of any shape ``[n, ...]``.
        at: which row each edge of the lists takes ``[E]``.
        begins: of the lists.
        weight: what rows are multiplied by, ``[E, ...]`` of a shape that `heads_of` knows.
    """
    if operation == "min":
        return 0 - reduced("max", 0 - rows, at, begins, weight)
    if weight is None:
        return segment_spmm(rows, at, begins, reduce=operation)  # type: ignore[arg-type]  # a `Reduction` has no other
    heads, width = weight.shape[1:].numel(), rows.shape[1:].numel()
    parts, weights = rows.reshape(len(rows), heads, width // max(heads, 1)), weight.reshape(len(weight), heads)
    found = segment_spmm(parts, at, begins, reduce=operation, weight=weights)  # type: ignore[arg-type]
    return found.reshape(len(found), *rows.shape[1:])


def _columns(both: list[Tensor]) -> list[tuple[int, tuple[int, int]]]:
    return list(enumerate(zip(both[0].shape[1:], both[1].shape[1:], strict=True), 1))
