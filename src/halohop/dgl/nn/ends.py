"""What every layer reads of a graph: its edges as lists of the destinations, and rows of both ends that fit to them."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from halohop.errors import InputError
from halohop.nn import Hop

Rows = Tensor | tuple[Tensor, Tensor]
"""Rows of all nodes, or those of the sources and those of the destinations."""


def pair(widths: int | tuple[int, int]) -> tuple[int, int]:
    """How many columns the rows of the sources and of the destinations have.

    Example:
        >>> pair(5), pair((5, 7))
        ((5, 5), (5, 7))
    """
    return (widths, widths) if isinstance(widths, int) else (widths[0], widths[1])


def rows_of(graph: Any, feat: Rows, widths: tuple[int, int] | None = None) -> tuple[Hop, Rows]:
    """The edges of a graph of one relation, and the rows that a layer is given for its nodes.

    Args:
        graph: a `DGLGraph` or a block.
        feat: rows of all nodes, of a block those of its sources, ``[num_src, *, columns]``; or a pair.
        widths: how many columns they should have.

    Raises:
        InputError: rows of another number, of another width, or not of floats.
    """
    hop = graph.hop()
    there, here = feat if isinstance(feat, tuple) else (feat, None)
    for rows in (there, here) if isinstance(feat, tuple) else (there,):
        if not isinstance(rows, Tensor) or not rows.is_floating_point():
            kind = rows.dtype if isinstance(rows, Tensor) else type(rows).__name__
            raise InputError(f"rows are {kind}, and this layer reads a tensor of floats, or a tuple of two of them; convert them")
    if here is None and not graph.is_block and hop.num_src != hop.num_dst:
        raise InputError(
            f"these edges lead from {hop.num_src} nodes to {hop.num_dst} of another kind; give (rows of the sources, rows of the "
            "destinations)"
        )
    if here is None and widths is not None and widths[0] != widths[1]:
        raise InputError(
            f"the layer was made for rows of {widths[0]} and {widths[1]} columns, and is given one tensor; give both"
        )
    for name, rows, number, place in (("sources", there, hop.num_src, 0), ("destinations", here, hop.num_dst, 1)):
        if rows is None:
            continue
        if len(rows) != number:
            raise InputError(f"{len(rows)} rows for the {number} {name} of the edges; give one row for each of these nodes")
        if widths is not None and rows.shape[-1] != widths[place]:
            raise InputError(
                f"the rows of the {name} have {rows.shape[-1]} columns, and the layer is for {widths[place]}; give "
                "others, or make it anew"
            )
    return hop, feat


def applied(change: nn.Module, feat: Rows) -> Rows:
    """Both rows, changed."""
    return (change(feat[0]), change(feat[1])) if isinstance(feat, tuple) else change(feat)


def both(hop: Hop, feat: Rows) -> tuple[Tensor, Tensor]:
    """Rows of the sources and of the destinations, which are the first sources where there is one tensor for both."""
    if isinstance(feat, tuple):
        return feat
    return feat, feat if len(feat) == hop.num_dst else feat[: hop.num_dst]


def in_lists(hop: Hop) -> Hop:
    """The same edges, numbered in the order of the lists."""
    return replace(hop, edges=slice(0, hop.num_edges))


def one_each(hop: Hop, weight: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The number that each edge is given, ``[E]`` in the order of the lists.

    Raises:
        InputError: there are more or fewer.
    """
    if weight is None:
        return None
    if weight.numel() != hop.num_edges or len(weight) != hop.num_edges:
        raise InputError(
            f"edge weights of shape {tuple(weight.shape)} for {hop.num_edges} edges; give one number for each, or multiply rows "
            "by update_all with u_mul_e"
        )
    return hop.of_edges(weight.reshape(-1)).to(dtype)


class Strict(nn.Module):
    """A layer that refuses destinations without in-edges, unless it is told to allow them."""

    _allow_zero_in_degree: bool

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes may be without in-edges."""
        self._allow_zero_in_degree = set_value

    def read(self, graph: Any, feat: Rows, widths: tuple[int, int] | None = None) -> tuple[Hop, Rows]:
        """As `rows_of`.

        Raises:
            InputError: a destination has no in-edge, too.
        """
        hop, feat = rows_of(graph, feat, widths)
        empty = 0 if self._allow_zero_in_degree else hop.num_dst - int((hop.begins.diff() > 0).sum())
        if empty:
            raise InputError(
                f"{empty} of {hop.num_dst} nodes have no in-edges (zero in-degree), so this layer has nothing to make their rows "
                "of; add loops with dgl.add_self_loop(g), or give allow_zero_in_degree=True for rows of zeros"
            )
        return hop, feat
