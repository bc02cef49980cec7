"""Which nodes of other partitions are worth a copy: the hottest ones, by the room that they take."""

from collections.abc import Mapping

import torch
from torch import Tensor

from halohop.access.vip import Probabilities
from halohop.partitioning.book import Book
from halohop.typing import NodeType


def chosen(hot: Probabilities, book: Book, part: int, cost: Mapping[NodeType, Tensor], room: float) -> dict[NodeType, Tensor]:
    """The nodes that a partition copies: of all types together those that are needed most for what they cost.

    Args:
        hot: how probable it is that a batch of the partition has each node.
        book: who owns what.
        part: the partition.
        cost: of a copy of each node, float64 ``[num_nodes]`` by gid.
        room: what all copies may cost together.

    Returns:
        Gids by type, ascending, int64 ``[n]``. Nodes that no batch needs are not among them.

    Example:
        >>> book, ones = Book(nodes={"node": (0, 2, 5)}, edges={}), torch.ones(5, dtype=torch.float64)
        >>> hot = torch.tensor([0.9, 0.1, 0.5, 0.0, 0.7], dtype=torch.float64)
        >>> chosen({"node": hot}, book, 0, {"node": ones}, 2)
        {'node': tensor([2, 4])}
    """
    found = {}
    for name, chances in hot.items():
        wanted = chances > 0
        wanted[book.bounds(name)[part] : book.bounds(name)[part + 1]] = False
        found[name] = wanted.nonzero().view(-1)
    worth = torch.cat([hot[name][gid] / cost[name][gid] for name, gid in found.items()])
    order = worth.argsort(descending=True, stable=True)
    prices = torch.cat([cost[name][gid] for name, gid in found.items()])[order]
    taken = torch.zeros(len(order), dtype=torch.bool)
    taken[order[prices.cumsum(0) <= room]] = True
    return {name: gid[some] for (name, gid), some in zip(found.items(), taken.split([*map(len, found.values())]), strict=True)}
