"""Walks that remember where they come from: node2vec (Grover & Leskovec 2016), by rejection."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.samplers.walks import NOWHERE, Walker, Walkers
from halohop.store.draw import Draw, Rules
from halohop.store.requests import FetchRequest, HopQuery, RowQuery, SampleRequest
from halohop.typing import Relation

_ROUNDS = 32
"""How many candidates a walker refuses before all are listed."""

_LISTED_AT_ONCE = 2**22
_GREATEST = 1e100
_STEEP = 8
"""A greatest bias so many times the least is too much for candidates to be refused by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turns:
    """The extra chance to turn around at once, for n walkers.

    Args:
        before: where each turns to, int64 ``[n]``.
        edge_gid: the edges there, those of a walker from ``begins[i]`` on, ``counts[i]`` of them, int64.
        extra: of one edge, as a part of the chance of all candidates together, float64 ``[n]``.
    """

    before: NDArray[np.int64]
    edge_gid: NDArray[np.int64]
    begins: NDArray[np.int64]
    counts: NDArray[np.int64]
    extra: NDArray[np.float64]

    @classmethod
    def of(cls, graph: Graph, relation: Relation, walkers: Walkers, back: float) -> "_Turns":
        assert walkers.before is not None
        (edges,) = graph.find_neighbors(((relation, walkers.before, walkers.gid),))
        counts, degrees = edges.counts.numpy(), graph.degrees(relation, walkers.gid).numpy()
        return cls(
            before=walkers.before.numpy(),
            edge_gid=edges.edge_gid.numpy(),
            begins=np.cumsum(counts) - counts,
            counts=counts,
            extra=(back - 1) / np.maximum(degrees, 1),
        )

    def taken(
        self, level: NDArray[np.float64], rows: NDArray[np.int64], candidates: NDArray[np.int64], edges: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The level, 0 for those of some walkers who turn; writes where they go."""
        level = level * (1 + self.extra[rows] * self.counts[rows])
        turned = np.flatnonzero(level >= 1)
        who = rows[turned]
        copy = np.minimum(((level[turned] - 1) / self.extra[who]).astype(np.int64), self.counts[who] - 1)
        candidates[turned], edges[turned] = self.before[who], self.edge_gid[self.begins[who] + copy]
        level[turned] = 0
        return level


class Node2VecWalker(Walker):
    """From the second step on, an edge is as likely as its weight times a bias, which depends on where the walker comes from.

    The bias of an edge is 1 / p if it leads back to the node before; otherwise 1 if the walker could have gone there from that
    node directly; otherwise 1 / q. It is exact: a candidate is drawn by weight and accepted in proportion to its bias (as in
    KnightKing, Yang et al. 2019), and a walker that has refused many chooses by bias among all edges of the node. So a hub
    rarely costs its whole list, and edges are looked up only where the answer matters: with q = 1 never.

    Where the way back is so likely that other candidates would be refused too often, what it has above the other biases is an
    extra chance to turn around at once (the outliers of KnightKing). Not with weights: their sum is not known.

    Args:
        graph, path, seed, weight: as of `Walker`; the path goes along one relation, between nodes of one type.
        p: how unlikely a walker is to turn back.
        q: how unlikely it is to go farther away.

    Raises:
        SchemaError, InputError: as of `Walker`; p or q is not above 0; or the path has several relations or types.
    """

    def __init__(
        self, graph: Graph, path: Sequence[Relation], *, p: float, q: float, seed: int = 0, weight: str | None = None
    ) -> None:
        super().__init__(graph, path, seed=seed, weight=weight)
        for name, value in (("p", p), ("q", q)):
            if not 1 / _GREATEST <= value <= _GREATEST:
                raise InputError(f"{name}={value}: give a number above 0 (and from {1 / _GREATEST} to {_GREATEST})")
        if len(set(self.path)) > 1 or any(relation[0] != relation[2] for relation in self.path):
            raise InputError(f"p={p} and q={q} need steps along one relation between nodes of one type; leave them at 1 here")
        weighted = any(weight in graph.schema.edges[relation].columns for relation in self.path)
        ceiling = max(1.0, 1 / q)
        if weighted or max(1 / p, ceiling) <= _STEEP * min(1.0, 1 / q):
            ceiling = max(1 / p, ceiling)
        self._back, self._near, self._far = 1 / p / ceiling, 1.0 / ceiling, 1 / q / ceiling

    def take(self, walkers: Walkers) -> tuple[Tensor, Tensor]:
        if walkers.before is None:
            return self.draw(walkers, attempt=0)
        turns = _Turns.of(self.graph, self.path[walkers.step], walkers, self._back) if self._back > 1 else None
        gid, edge_gid = torch.full_like(walkers.gid, NOWHERE), torch.full_like(walkers.gid, NOWHERE)
        undecided = torch.arange(len(gid))
        for attempt in range(_ROUNDS):
            asked = walkers.of(undecided)
            candidates, edges = self.draw(asked, attempt=attempt)
            level = ops.fractions(self._key(asked, attempt), asked.number).numpy()
            if turns is not None:
                level = turns.taken(level, undecided.numpy(), candidates.numpy(), edges.numpy())
            accepted = self._accepted(asked, candidates.numpy(), level)
            chosen, refused = (torch.from_numpy(np.flatnonzero(mask)) for mask in (accepted, ~accepted))
            for found, room in ((candidates, gid), (edges, edge_gid)):
                ops.scatter_rows(ops.gather_rows(found, chosen), ops.gather_rows(undecided, chosen), room)
            undecided = ops.gather_rows(undecided, refused)
            if not len(undecided):
                return gid, edge_gid
        listed = self._listed(walkers.of(undecided))
        for found, room in zip(listed, (gid, edge_gid), strict=True):
            ops.scatter_rows(found, undecided, room)
        return gid, edge_gid

    def _accepted(self, walkers: Walkers, candidates: NDArray[np.int64], level: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which candidates are taken, those whose bias is above the level; to find none at all is accepted, too."""
        assert walkers.before is not None
        before = walkers.before.numpy()
        low, high = min(self._near, self._far), max(self._near, self._far)
        accepted: NDArray[np.bool_] = (level < np.where(candidates == before, self._back, low)) | (candidates == NOWHERE)
        unsure = np.flatnonzero(~accepted & (candidates != before) & (level < high))
        near = self._are_near(torch.from_numpy(candidates[unsure]), torch.from_numpy(before[unsure]))
        accepted[unsure] = near.numpy() == (self._near > self._far)
        return accepted

    def _are_near(self, gid: Tensor, before: Tensor) -> Tensor:
        """Whether a step leads from the nodes before to those now, bool ``[n]``."""
        if not len(gid):
            return torch.zeros(0, dtype=torch.bool)
        return self.graph.find_neighbors(((self.path[0], gid, before),))[0].counts > 0

    def _listed(self, walkers: Walkers) -> tuple[Tensor, Tensor]:
        """A choice among all edges, for walkers that have some."""
        gid, edge_gid = torch.empty_like(walkers.gid), torch.empty_like(walkers.gid)
        order = torch.argsort(walkers.gid, stable=True)  # walkers on one node share its list
        entries = self.graph.degrees(self.path[walkers.step], walkers.gid[order]).cumsum(0)
        _, sizes = torch.unique_consecutive(entries // _LISTED_AT_ONCE, return_counts=True)
        for rows in order.split(sizes.tolist()):
            gid[rows], edge_gid[rows] = self._chosen(walkers.of(rows))
        return gid, edge_gid

    def _chosen(self, walkers: Walkers) -> tuple[Tensor, Tensor]:
        assert walkers.before is not None
        relation = self.path[walkers.step]
        nodes, which = walkers.gid.unique(return_inverse=True)
        query = HopQuery(relation=relation, fanout=-1, dst_gid=nodes)
        draw = Draw(seed=0, epoch=0, batch=0, hop=0, rules=Rules(weight=self._weight))
        (lists,) = self.graph.sample(SampleRequest(draw=draw, queries=(query,))).answers
        counts, begins = lists.counts[which], (lists.counts.cumsum(0) - lists.counts)[which]
        ends = counts.cumsum(0)
        walker = torch.repeat_interleave(counts)
        entry = torch.arange(len(walker)) + (begins - ends + counts)[walker]
        src_gid, edge_gid = lists.src_gid[entry].long(), lists.edge_gid[entry]
        share = self._bias(src_gid, walkers.before[walker])
        if self._weight in self.graph.schema.edges[relation].columns:
            share *= self._weights(relation, lists.edge_gid)[entry]
        indptr = torch.cat([ends[:1] - ends[:1], ends])
        rows, key = torch.arange(len(counts)), self._key(walkers, _ROUNDS)
        _, places = ops.sample_neighbors(indptr, rows, walkers.number, 1, key, replace=True, weights=share)
        return src_gid[places], edge_gid[places]

    def _bias(self, gid: Tensor, before: Tensor) -> Tensor:
        """How likely an edge is taken, besides its weight, float64 ``[n]``."""
        bias = torch.full((len(gid),), self._far, dtype=torch.float64)
        if self._near != self._far:
            bias[self._are_near(gid, before)] = self._near
        bias[gid == before] = self._back
        return bias

    def _weights(self, relation: Relation, edge_gid: Tensor) -> Tensor:
        assert self._weight is not None
        ((weights,),) = self.graph.fetch(FetchRequest(queries=(RowQuery(table=relation, columns=(self._weight,), gid=edge_gid),)))
        return weights.double()

    def _key(self, walkers: Walkers, attempt: int) -> int:
        """Of the random numbers that decide on candidates; those that draw them have the relation's name."""
        stream = ("", "node2vec", "")
        hop = self.hop(walkers, attempt)
        return ops.stream_key(seed=self._seed, epoch=walkers.epoch, batch=walkers.batch, hop=hop, relation=stream)
