"""Evening out a partitioning: what METIS balances only in sum is balanced load by load."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halohop.partitioning.report import train_rows
from halohop.store.tables import GraphTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjacency:
    """An undirected graph: the neighbours of node v are ``neighbors[indptr[v]:indptr[v + 1]]``; all tensors int64."""

    indptr: Tensor
    neighbors: Tensor
    weights: Tensor

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1


def node_loads(tables: GraphTables) -> Tensor:
    """What each node adds to its partition, int64 ``[n, k]``: itself, itself if it is for training, its in-edges (the last).

    Nodes are numbered through all types; a load that no node has is left out.
    """
    in_edges = {name: torch.zeros(table.num_nodes, dtype=torch.int64) for name, table in tables.nodes.items()}
    for relation, table in tables.edges.items():
        in_edges[relation[2]] += torch.bincount(table.dst, minlength=len(in_edges[relation[2]]))
    train = torch.cat([train_rows(table.columns, table.num_nodes) for table in tables.nodes.values()]).long()
    edges = torch.cat(list(in_edges.values()))
    loads = torch.stack([torch.ones_like(edges), train, edges], dim=1)
    return loads[:, loads.any(0)]


def even_out(part: Tensor, loads: Tensor, graph: Adjacency, num_parts: int, tolerance: float) -> None:
    """Moves nodes, in place, until no partition carries more than ``1 + tolerance`` times the mean of any load, rounded up.

    Greedy and deterministic. The excess is the sum of the squares of what exceeds an aim, over partitions and loads. The worst
    partition gives nodes to one below the mean, to the best connected first, those first that cost the fewest cut edges for the
    excess that they take away; it gives as many as lower the excess most. Ends within the tolerance, or when no move helps. The
    aim is half of the tolerance: squares hardly fall near their zero, and conflicting loads would pass nodes to and fro there.

    Args:
        part: int64 ``[n]``.
        loads: int64 ``[n, k]``, see `node_loads`.
    """
    totals = torch.zeros((num_parts, loads.size(1)), dtype=torch.int64).index_add_(0, part, loads)
    mean = totals.sum(0).double() / num_parts  # single nodes of a large graph are too small for float32
    limit, aim = (torch.maximum((1 + share) * mean, mean.ceil()) for share in (tolerance, tolerance / 2))
    hopeless = torch.zeros_like(totals, dtype=torch.bool)
    for _ in range(32 * totals.numel()):  # a few rounds do; the bound is for unusual graphs
        excess = torch.where(hopeless, 0, totals / aim - 1)
        if (totals <= limit).all() or excess.max() <= 0:
            return
        giver, kind = divmod(int(excess.argmax()), loads.size(1))
        if any(_give(part, loads, graph, totals, aim, giver, taker, kind) for taker in _takers(part, graph, totals, giver, kind)):
            hopeless.zero_()
        else:
            hopeless[giver, kind] = True


def _takers(part: Tensor, graph: Adjacency, totals: Tensor, giver: int, kind: int) -> list[int]:
    """Partitions below the mean, the best connected with the giver first, and of these the emptiest."""
    neighbors, weights, _ = _edges_of((part == giver).nonzero().view(-1), graph)
    connection = torch.zeros(len(totals), dtype=torch.int64).index_add_(0, part[neighbors], weights)
    carried = totals[:, kind]
    below = (carried * len(totals) < carried.sum()).nonzero().view(-1).tolist()
    return sorted(below, key=lambda taker: (-int(connection[taker]), int(carried[taker]), taker))


def _give(part: Tensor, loads: Tensor, graph: Adjacency, totals: Tensor, aim: Tensor, giver: int, taker: int, kind: int) -> bool:
    """Moves nodes from `giver` to `taker` if that lowers the excess; whether it did."""

    def change(given: Tensor) -> Tensor:
        """By how much the excess changes if that much is given, for every row of ``given``."""
        before = _excess(totals[giver], aim) + _excess(totals[taker], aim)
        return _excess(totals[giver] - given, aim) + _excess(totals[taker] + given, aim) - before

    nodes = ((part == giver) & (loads[:, kind] > 0)).nonzero().view(-1)
    change_by_one = change(loads[nodes])
    helpful = change_by_one < 0
    nodes, benefit = nodes[helpful], -change_by_one[helpful]
    if len(nodes) == 0:
        return False
    neighbors, weights, position = _edges_of(nodes, graph)
    sign = (part[neighbors] == giver).long() - (part[neighbors] == taker).long()
    newly_cut = torch.zeros_like(nodes).index_add_(0, position, sign * weights)
    nodes = nodes[torch.argsort(newly_cut / benefit, stable=True)]
    given = loads[nodes].cumsum(0)
    count = int(change(given).argmin()) + 1
    part[nodes[:count]] = taker
    totals[giver] -= given[count - 1]
    totals[taker] += given[count - 1]
    return True


def _excess(carried: Tensor, aim: Tensor) -> Tensor:
    return (carried / aim - 1).clamp(min=0).square().sum(-1)


def _edges_of(nodes: Tensor, graph: Adjacency) -> tuple[Tensor, Tensor, Tensor]:
    """Neighbours and weights of some nodes' edges, and which of the nodes (its position) each edge belongs to."""
    begins = graph.indptr[nodes]
    degrees = graph.indptr[nodes + 1] - begins
    position = torch.repeat_interleave(torch.arange(len(nodes)), degrees)
    edges = torch.arange(len(position)) + torch.repeat_interleave(begins - (degrees.cumsum(0) - degrees), degrees)
    return graph.neighbors[edges], graph.weights[edges], position
