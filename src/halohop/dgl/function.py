"""DGL's built-in functions: `copy_u`, `copy_e`, ``u_add_v``, ``u_mul_e``, ``e_dot_v`` and their kin; `sum`, `mean`, `max`, `min`.

A message is made of columns at two of an edge's source (u), its destination (v) and itself (e), by add, sub, mul, div or dot.

    >>> import torch, halohop.dgl as dgl, halohop.dgl.function as fn
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 2]), num_nodes=3)
    >>> g.ndata["x"], g.edata["w"] = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 10.0, 100.0])
    >>> g.update_all(fn.u_mul_e("x", "w", "m"), fn.sum("m", "y"))
    >>> g.ndata["y"].tolist()
    [0.0, 1.0, 320.0]
"""

from dataclasses import dataclass
from functools import partial
from itertools import permutations, product
from typing import Any

OPERATIONS = ("add", "sub", "mul", "div", "dot")
BINARY = {f"{left}_{op}_{right}": (op, left, right) for (left, right), op in product(permutations("uve", 2), OPERATIONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message made of columns.

    Args:
        operation: one of OPERATIONS, or "copy" of one side.
        sides: at which end a column is ("u", "v", "e"), and its name.
        out: the message's name.
    """

    operation: str
    sides: tuple[tuple[str, str], ...]
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What a destination makes of its messages: "sum", "mean", "max" or "min"; 0 where there is none."""

    operation: str
    message: str
    out: str


def copy_u(u: str, out: str) -> Message:
    """The source's column."""
    return Message(operation="copy", sides=(("u", u),), out=out)


def copy_e(e: str, out: str) -> Message:
    """The edge's column."""
    return Message(operation="copy", sides=(("e", e),), out=out)


def copy_src(src: str, out: str) -> Message:
    """`copy_u` by its older name."""
    return copy_u(src, out)


def copy_edge(edge: str, out: str) -> Message:
    """`copy_e` by its older name."""
    return copy_e(edge, out)


def sum(msg: str, out: str) -> Reduction:
    """The sum of messages."""
    return Reduction(operation="sum", message=msg, out=out)


def mean(msg: str, out: str) -> Reduction:
    """The mean of messages."""
    return Reduction(operation="mean", message=msg, out=out)


def max(msg: str, out: str) -> Reduction:
    """The greatest message, in each column. Messages that are equal share the gradient."""
    return Reduction(operation="max", message=msg, out=out)


def min(msg: str, out: str) -> Reduction:
    """The least message, in each column. Messages that are equal share the gradient."""
    return Reduction(operation="min", message=msg, out=out)


def _binary(name: str, lhs_field: str, rhs_field: str, out: str) -> Message:
    operation, left, right = BINARY[name]
    return Message(operation=operation, sides=((left, lhs_field), (right, rhs_field)), out=out)


def __getattr__(name: str) -> Any:
    if name not in BINARY:
        raise AttributeError(f"halohop.dgl.function has no {name!r}; names are of the form u_mul_e, with {', '.join(OPERATIONS)}")
    return partial(_binary, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *BINARY})
