"""Convolutions in two: what they multiply features with, and what they do with the products.

The products of a node's features are functions of that node alone. Where they are narrower than the features, they are best
computed once per node, before anything moves along edges.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from halohop.nn import GATConv
from halohop.recipes.models import MeanConv, SelfLoopMeanConv


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A convolution in two: what it multiplies a node's features to, and what it does with these products.

    Args:
        width: of the products.
        of: from features ``[n, ...]`` to products ``[n, width]``.
        rest: stands for the convolution when a layer is folded, and takes products for rows.
    """

    width: int
    of: Callable[[Tensor], Tensor]
    rest: Any


def product_of(conv: nn.Module) -> Product:
    """A recipe's convolution in two."""
    return _PRODUCTS[type(conv)](conv)


def _product_of_mean(conv: MeanConv) -> Product:
    width: int = conv.root.out_features
    rest = SimpleNamespace(root=lambda rows: rows[:, :width], neighbour=lambda rows: rows[:, width:])
    return Product(width=2 * width, of=lambda x: torch.cat([conv.root(x), conv.neighbour(x)], dim=1), rest=rest)


def _product_of_self_loop_mean(conv: SelfLoopMeanConv) -> Product:
    return Product(width=conv.weight.out_features, of=conv.weight, rest=SimpleNamespace(weight=lambda rows: rows))


def _product_of_attention(conv: GATConv) -> Product:
    kept = {name: getattr(conv, name) for name in ("heads", "out_channels", "att_src", "att_dst", "negative_slope", "bias")}
    return Product(width=conv.heads * conv.out_channels, of=conv.lin, rest=SimpleNamespace(lin=lambda rows: rows, **kept))


_PRODUCTS: dict[type[nn.Module], Callable[[Any], Product]] = {
    MeanConv: _product_of_mean,
    SelfLoopMeanConv: _product_of_self_loop_mean,
    GATConv: _product_of_attention,
}
