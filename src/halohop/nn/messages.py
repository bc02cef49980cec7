"""Messages: what edges make of rows of their ends and of their own, and what destinations make of these, over lists of in-edges.

For layers that no function of `halohop.nn.functional` computes as a whole. Where one computes a part, no row is made for an edge.
"""

import math
import operator
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.nn.adjacency import Adjacency
from halohop.nn.functional import segment_add, segment_dot, segment_spmm
from halohop.nn.hops import Hop

End = Literal["src", "dst", "edge"]
Side = tuple[End, Tensor]

_COMBINED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "dot": operator.mul,
}


def messages(edges: Hop | Adjacency, operation: str, *sides: Side) -> Tensor:
    """A row for each edge, made of a row at each of one or two sides of it.

    Args:
        edges: the edges.
        operation: "copy" of one side; "add", "sub", "mul", "div" or "dot" of the first and the second. Where one side's rows have
            fewer dimensions, ones are put before their columns; "dot" sums the products over the last columns, to one.
        sides: which end, and its rows: ``("src", [num_src, *])``, ``("dst", [num_dst, *])``, ``("edge", [E, *])`` by edge id.

    Returns:
        ``[E, *]``, of a `Hop` in the order of its lists, of an `Adjacency` in that of ids.

    Raises:
        InputError: another operation, or rows whose shapes do not go together.

    Example:
        >>> hop = Hop(src=torch.tensor([1, 2, 0]), begins=torch.tensor([0, 2, 3]), num_src=3, num_dst=2, edges=slice(0, 3))
        >>> x, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 10.0, 100.0])
        >>> messages(hop, "sub", ("src", x), ("dst", x[:2])).tolist(), messages(hop, "mul", ("src", x), ("edge", w)).tolist()
        ([1.0, 2.0, -1.0], [2.0, 30.0, 100.0])
    """
    if operation not in ("copy", *_COMBINED) or len(sides) != 1 + (operation != "copy"):
        raise InputError(f"{operation!r} of {len(sides)} sides; give 'copy' and one, or one of {list(_COMBINED)} and two")
    hop = edges.hop if isinstance(edges, Adjacency) else edges
    if operation != "copy" and (found := _of_ends(hop, operation, *sides)) is not None:
        return hop.by_id(found) if isinstance(edges, Adjacency) else found
    rows = [_at(edges, side) for side in sides]
    return rows[0] if len(rows) == 1 else _combined(operation, rows[0], rows[1])


def reduce_messages(hop: Hop, reduce: str, operation: str, *sides: Side) -> Tensor:
    """What destinations make of the messages of their in-edges; 0 for those without any.

    Args:
        hop: the edges.
        operation, sides: as of `messages`.
        reduce: "sum", "mean", "max" or "min"; of equal messages at a maximum or minimum each has its share of the gradient.

    Returns:
        ``[num_dst, *]``.

    Raises:
        InputError: as of `messages`.

    Example:
        >>> hop = Hop(src=torch.tensor([1, 2, 0]), begins=torch.tensor([0, 2, 3]), num_src=3, num_dst=2, edges=slice(0, 3))
        >>> reduce_messages(hop, "max", "copy", ("src", torch.tensor([1.0, 2.0, 3.0]))).tolist()
        [3.0, 1.0]
    """
    if len(sides) == 2 and operation in ("add", "mul", "dot") and sides[1][0] == "src":
        sides = sides[1], sides[0]
    end, rows = sides[0]
    if operation == "copy" and len(sides) == 1:
        return _reduced(reduce, rows, {"src": hop.src, "dst": hop.dst, "edge": hop.edge_ids}[end], hop.begins)
    if operation == "mul" and (end, sides[1][0]) == ("src", "edge") and heads_of(rows, sides[1][1]) is not None:
        return _reduced(reduce, rows, hop.src, hop.begins, hop.of_edges(sides[1][1]))
    rows = messages(hop, operation, *sides)
    return _reduced(reduce, rows, torch.arange(len(rows), device=rows.device), hop.begins)


def heads_of(rows: Tensor, weight: Tensor) -> int | None:
    """How many weights an edge has for its source's row, where they multiply the row by parts of equal width.

    Example:
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


def _at(edges: Hop | Adjacency, side: Side) -> Tensor:
    """A side's row for each edge."""
    end, rows = side
    if isinstance(edges, Adjacency):
        return rows if end == "edge" else rows.index_select(0, edges.ends[end == "dst"])
    return edges.of_edges(rows) if end == "edge" else rows.index_select(0, edges.src if end == "src" else edges.dst)


def _combined(operation: str, left: Tensor, right: Tensor) -> Tensor:
    dims = max(left.dim(), right.dim())
    both = [rows.reshape(len(rows), *[1] * (dims - rows.dim()), *rows.shape[1:]) for rows in (left, right)]
    summed = operation == "dot" and dims > 1
    columns = enumerate(zip(both[0].shape[1:], both[1].shape[1:], strict=True), 1)
    if not all(a == b or (1 in (a, b) and not (summed and place == dims - 1)) for place, (a, b) in columns):
        raise InputError(f"rows of shape {list(left.shape[1:])} and {list(right.shape[1:])} do not go together by {operation!r}")
    found = _COMBINED[operation](both[0], both[1])
    return found.sum(-1, keepdim=True) if summed else found


def _of_ends(hop: Hop, operation: str, first: Side, second: Side) -> Tensor | None:
    """An operation on sources and destinations without a row of either for an edge; None where there is no function for it:
    another operation, or rows of different dtypes or shapes."""
    rows = dict((first, second))
    if rows.keys() != {"src", "dst"} or (operation == "sub" and first[0] == "dst"):
        return None
    left, right = rows["src"], rows["dst"]
    shape = left.shape[1:]
    if not left.is_floating_point() or left.dtype != right.dtype or shape != right.shape[1:]:
        return None
    if operation == "dot" and shape:
        there, here = (ends.reshape(len(ends), math.prod(shape[:-1]), shape[-1]) for ends in (left, right))
        return segment_dot(there, here, hop.src, hop.begins).view(hop.num_edges, *shape[:-1], 1)
    if operation in ("add", "sub"):
        there, here = (ends.reshape(len(ends), math.prod(shape)) for ends in (left, right))
        return segment_add(there, here if operation == "add" else -here, hop.src, hop.begins).view(hop.num_edges, *shape)
    return None


def _reduced(reduce: Any, rows: Tensor, at: Tensor, begins: Tensor, weight: Tensor | None = None) -> Tensor:
    """The rows at `at` ``[E]``, times weights of a shape that `heads_of` knows, list by list."""
    if reduce not in ("sum", "mean", "max", "min"):
        raise InputError(f"reduce={reduce!r}; give 'sum', 'mean', 'max' or 'min'")
    if reduce == "min":
        return 0 - _reduced("max", 0 - rows, at, begins, weight)
    if weight is None:
        return segment_spmm(rows, at, begins, reduce=reduce)
    heads, width = weight.shape[1:].numel(), rows.shape[1:].numel()
    parts, weights = rows.reshape(len(rows), heads, width // max(heads, 1)), weight.reshape(len(weight), heads)
    found = segment_spmm(parts, at, begins, reduce=reduce, weight=weights)
    return found.reshape(len(found), *rows.shape[1:])
