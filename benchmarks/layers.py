"""Models of each library's own layers: GraphSAGE, GCN, GAT and R-GCN, with 128 columns between them."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from benchmarks.model import CLASSES

KINDS = ("sage", "gcn", "gat", "rgcn")
HIDDEN, HEADS = 128, 4
RELATIONS, BASES = 8, 4
"""Edges have the remainder of their number for a relation, the same in every library."""


class Layers(nn.Module):
    """Layers with a ReLU between them.

    Args:
        convs: the layers.
        call: gives a layer rows and its edges, as its library wants them.
    """

    def __init__(self, convs: list[nn.Module], call: Callable[[Any, Tensor, Any], Tensor]) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self._call = call

    def forward(self, x: Tensor, hops: list[tuple[Tensor, Any, int]]) -> Tensor:
        for number, (conv, (_, edges, _)) in enumerate(zip(self.convs, hops)):  # noqa: B905
            x = self._call(conv, x, edges).flatten(1)
            x = x if number == len(self.convs) - 1 else x.relu()
        return x[: hops[-1][2]]


def widths(features: int, layers: int) -> list[tuple[int, int]]:
    """How many columns each layer reads and gives."""
    return list(pairwise([features, *[HIDDEN] * (layers - 1), CLASSES]))


def convs_of(library: Any, kind: str, features: int, layers: int) -> list[nn.Module]:
    """The layers of PyG's names in a library."""
    made: dict[str, Callable[[int, int], nn.Module]] = {
        "sage": lambda wide, narrow: library.SAGEConv(wide, narrow),
        "gcn": lambda wide, narrow: library.GCNConv(wide, narrow),
        "gat": lambda wide, narrow: library.GATConv(wide, *heads_of(narrow)),
        "rgcn": lambda wide, narrow: library.RGCNConv(wide, narrow, RELATIONS, num_bases=BASES, aggr="add"),
    }
    return [made[kind](wide, narrow) for wide, narrow in widths(features, layers)]


def heads_of(columns: int) -> tuple[int, int]:
    """The columns of a head, and how many heads give so many columns; the last layer has one."""
    return (columns // HEADS, HEADS) if columns == HIDDEN else (columns, 1)
