"""Random walks: every walker goes from a node to one of its in-neighbours, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.partitioning.book import Book
from halohop.store.draw import Draw, Rules
from halohop.store.requests import HopQuery, SampleRequest
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation

NOWHERE = -1
"""Stands where a walk has ended."""

_AT_ONCE = 1 << 20
"""Walkers that go together: their numbers count as trees, of which there may be 2**23."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walks:
    """Where n walkers went.

    Args:
        gid: where they were after 0, 1, ... steps, int64 ``[num_steps + 1, n]``; -1 after the end of a walk.
        edge_gid: the edges that they took, int64 ``[num_steps, n]``; -1 where none.
    """

    gid: Tensor
    edge_gid: Tensor

    def __post_init__(self) -> None:
        assert self.gid.shape == (len(self.edge_gid) + 1, *self.edge_gid.shape[1:])

    def staying(self) -> "Walks":
        """The same walks, but a walker that cannot go on stays. Only where all nodes are of one type."""
        gid = self.gid.numpy().copy()
        for before, after in pairwise(gid):
            np.copyto(after, before, where=after == NOWHERE)
        return Walks(gid=torch.from_numpy(gid), edge_gid=self.edge_gid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walkers:
    """Some walkers before a step.

    Args:
        epoch, batch: of the walks.
        step: 0, 1, ...
        number: of the walkers, int64 ``[n]``.
        gid: where they are, int64 ``[n]``.
        before: where they were a step ago, int64 ``[n]``; None in the first step.
    """

    epoch: int
    batch: int
    step: int
    number: Tensor
    gid: Tensor
    before: Tensor | None

    def of(self, rows: Tensor) -> "Walkers":
        """That of some of the walkers, by position."""
        before = None if self.before is None else ops.gather_rows(self.before, rows)
        number, gid = ops.gather_rows(self.number, rows), ops.gather_rows(self.gid, rows)
        return replace(self, number=number, gid=gid, before=before)


class Walker:
    """Walks along a path of relations, against the arrows: a step along ("a", "to", "b") leads from a "b" to an "a". In a graph
    with lists of out-edges it goes along the arrows instead.

    Each step takes one of the edges in the list of the walker's node, all equally likely or by weight. A walk ends at a node
    without any.
    What is drawn is a pure function of (seed, epoch, batch, step, walker's number, raw id): not of the partitions, nor of the
    other walkers.

    Args:
        graph: where the nodes are.
        path: the relation of every step.
        seed: names the stream of random numbers.
        weight: the column of edges to draw by; relations without it are drawn from uniformly.

    Raises:
        SchemaError: a relation that the graph does not have.
        InputError: a step that does not begin where the last one ends, or weights that no relation of the path has.
    """

    def __init__(self, graph: Graph, path: Sequence[Relation], *, seed: int = 0, weight: str | None = None) -> None:
        ops.warm_up()
        self.graph = graph
        self.path = tuple(graph.schema.relation(relation) for relation in path)
        _check_chain(self.path, graph.book)
        _check_weight(graph.schema, self.path, weight)
        self._seed = seed
        self._weight = weight
        self._rules = Rules(replace=True, weight=weight)

    def walk(self, start_gid: Tensor, *, epoch: int = 0, batch: int = 0) -> Walks:
        """Walks from nodes of the type that the path begins with, int64 ``[n]``; walker i begins at the i-th of them."""
        gid, edge_gid = (
            torch.from_numpy(np.full((steps, len(start_gid)), NOWHERE)) for steps in (len(self.path) + 1, len(self.path))
        )
        ops.copy_ids(start_gid, gid[0])
        for number in torch.from_numpy(np.arange(len(start_gid))).split(_AT_ONCE):
            here, before = ops.gather_rows(start_gid, number), None
            for step in range(len(self.path)):
                if not len(number):
                    break
                walkers = Walkers(epoch=epoch, batch=batch, step=step, number=number, gid=here, before=before)
                found, edges = self.take(walkers)
                ops.scatter_rows(found, number, gid[step + 1])
                ops.scatter_rows(edges, number, edge_gid[step])
                going = torch.from_numpy(np.flatnonzero(found.numpy() != NOWHERE))
                number, before, here = (ops.gather_rows(column, going) for column in (number, here, found))
        return Walks(gid=gid, edge_gid=edge_gid)

    def take(self, walkers: Walkers) -> tuple[Tensor, Tensor]:
        """Nodes and edges of a step; -1 where there is none."""
        return self.draw(walkers, attempt=0)

    def draw(self, walkers: Walkers, *, attempt: int) -> tuple[Tensor, Tensor]:
        """One in-neighbour of every node, and the edge; -1 where there is none. Attempts are independent."""
        query = HopQuery(
            relation=self.path[walkers.step],
            fanout=1,
            dst_gid=walkers.gid,
            tree=torch.from_numpy(walkers.number.numpy() % _AT_ONCE),
        )
        hop = self.hop(walkers, attempt)
        draw = Draw(seed=self._seed, epoch=walkers.epoch, batch=walkers.batch, hop=hop, rules=self._rules)
        (answer,) = self.graph.sample(SampleRequest(draw=draw, queries=(query,))).answers
        found = np.flatnonzero(answer.counts.numpy())  # NumPy, because torch would wake its threads for it
        gid, edge_gid = (np.full(len(walkers.gid), NOWHERE) for _ in range(2))
        gid[found], edge_gid[found] = answer.src_gid.numpy(), answer.edge_gid.numpy()
        return torch.from_numpy(gid), torch.from_numpy(edge_gid)

    @staticmethod
    def hop(walkers: Walkers, attempt: int) -> int:
        """The hop that the random numbers of an attempt belong to: walkers who do not go together have different ones, too."""
        flock = int(walkers.number[0]) // _AT_ONCE if len(walkers.number) else 0
        return (flock << 40) + (attempt << 32) + walkers.step


def start_type(graph: Graph, path: Sequence[Relation]) -> NodeType:
    """The type of the nodes that a path begins with; the only one there is, if the path is empty."""
    return graph.book.list_type(path[0]) if path else graph.schema.node_type(None)


def _check_chain(path: tuple[Relation, ...], book: Book) -> None:
    for one, other in pairwise(path):
        end, begin = book.neighbor_type(one), book.list_type(other)
        if end != begin:
            reverse = (other[2], f"rev_{other[1]}", other[0])
            way = "against" if book.list_end else "along"
            raise InputError(
                f"a step along {one} leads to {end!r}, and none along {other} begins there: steps go {way} the arrows, from "
                f"{begin!r} to {book.neighbor_type(other)!r}; for the other way name the reverse relation, such as {reverse}"
            )


def _check_weight(schema: Schema, path: tuple[Relation, ...], weight: str | None) -> None:
    if weight is not None and path and not any(weight in schema.edges[relation].columns for relation in path):
        columns = {relation: list(schema.edges[relation].columns) for relation in path}
        raise InputError(f"no relation of the path has weights {weight!r}; columns of its edges: {columns}")
