"""Negatives: pairs of nodes that a link task holds against the edges of a batch."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.sampling.link_seeds import LinkSeeds
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.schema import check_numbers
from halohop.typing import NodeType, Relation

_ROUNDS = 16
"""How often a pair that is an edge is drawn anew before what is none is listed: by then half of all pairs would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The nodes of a type among which an end of negatives is drawn.

    Args:
        node_type: their type.
        gid: ascending by raw id, or by time where there are times; int64 ``[n]``.
        time: when each begins to exist, ascending, ``[n]``; None if they always do.
        weight: how likely each is, float64 ``[n]``; None if all are alike.
    """

    node_type: NodeType
    gid: Tensor
    time: Tensor | None
    weight: Tensor | None

    @classmethod
    def of(cls, graph: Graph, node_type: NodeType, *, weight: Tensor | None, time: str | None) -> "Candidates":
        """All nodes of a type, with weights in ascending raw order; times are the column `time`, if they have it.

        Raises:
            InputError: weights of another number, not finite, below zero, or all zero; times that are not a number for each.
        """
        gid, _ = graph.select(None, node_type)
        if weight is not None:
            weight = _checked(weight, node_type, len(gid))
        columns = graph.schema.nodes[node_type].columns
        if time is None or time not in columns:
            return cls(node_type=node_type, gid=gid, time=None, weight=weight)
        check_numbers(columns[time], ops.TIME_DTYPES, "times", time, node_type)
        ((times,),) = graph.fetch(FetchRequest(queries=(RowQuery(table=node_type, columns=(time,), gid=gid),)))
        times = times.double() if times.is_floating_point() else times.long()
        order = torch.argsort(times, stable=True)
        return cls(node_type=node_type, gid=gid[order], time=times[order], weight=None if weight is None else weight[order])

    def pick(self, fractions: Tensor, latest: Tensor | None) -> Tensor:
        """A gid for each fraction in (0, 1), of nodes not later than `latest`.

        Raises:
            InputError: there is none.
        """
        places = pick_place(fractions, self.early(len(fractions), latest), self.weight, self.node_type)
        return ops.gather_rows(self.gid, places)

    def early(self, count: int, latest: Tensor | None) -> Tensor:
        """How many nodes, from the first on, each of `count` negatives may take; int64 ``[count]``."""
        if self.time is None or latest is None:
            return torch.from_numpy(np.full(count, len(self.gid)))
        return torch.from_numpy(np.searchsorted(self.time.numpy(), ops.comparable(latest, self.time.dtype).numpy(), side="right"))


def pick_place(fractions: Tensor, choices: Tensor, weight: Tensor | None, node_type: NodeType) -> Tensor:
    """A place below `choices` for each fraction, by weight where there are weights."""
    level, most = fractions.numpy(), choices.numpy()
    if weight is None:
        possible, places = most > 0, np.minimum((level * most).astype(np.int64), most - 1)
    else:
        sums = np.cumsum(weight.numpy())
        total = np.concatenate([[0.0], sums])[most]
        possible, places = total > 0, np.searchsorted(sums, level * total, side="right")
        places = np.minimum(places, np.searchsorted(sums, total))  # rounding must not lead past the last weight
    if not possible.all():
        raise InputError(
            f"no node of {node_type!r} can be a negative of edge {int(np.flatnonzero(~possible)[0])} of its batch: none has a "
            "weight above zero and is as early as that edge; leave such edges out, or draw no negatives"
        )
    return torch.from_numpy(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Negatives:
    """Adds negatives to the edges of a batch: a pure function of (seed, epoch, batch index, position).

    Args:
        graph: where the nodes are.
        relation: of the edges.
        triplet: further destinations of each source, instead of pairs.
        amount: negatives per positive, more than 0; in the whole batch rounded up.
        src, dst: what the ends are drawn from.
        seed: names the stream of random numbers.
        strict: no negative is an edge of the whole graph. Those that are, are drawn anew.

    Raises (when called):
        InputError: nothing can be drawn: no node is early enough, or every pair is an edge.
    """

    graph: Graph
    relation: Relation
    triplet: bool
    amount: float
    src: Candidates
    dst: Candidates
    seed: int
    strict: bool = False

    def __call__(self, links: LinkSeeds) -> LinkSeeds:
        num_pos, num_neg = links.num_pos, math.ceil(links.num_pos * self.amount)
        owner = ops.link_trees(num_pos, num_neg, triplet=self.triplet)[num_pos:]
        src_gid, dst_gid = _Ends(links=links, owner=owner, negatives=self).all()
        label = links.label
        if not self.triplet:
            label = torch.from_numpy(np.ones(num_pos, np.float32)) if label is None else label
            label = ops.gather_known(label, torch.from_numpy(np.append(np.arange(num_pos), np.full(num_neg, -1))))
        return replace(
            links,
            src_gid=links.src_gid if self.triplet else ops.join_rows([links.src_gid, src_gid]),
            dst_gid=ops.join_rows([links.dst_gid, dst_gid]),
            triplet=self.triplet,
            label=label,
        )

    def pairs(self, count: int, *, epoch: int, index: int) -> tuple[Tensor, Tensor]:
        """As many pairs that belong to no edge: gids of sources and of destinations, int64 ``[count]``."""
        none = torch.empty(0, dtype=torch.int64)
        links = LinkSeeds(relation=self.relation, src_gid=none, dst_gid=none, input_id=none, epoch=epoch, index=index)
        return _Ends(links=links, owner=torch.from_numpy(np.arange(count)), negatives=replace(self, triplet=False)).all()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """The drawing for one batch; `owner` is the positive to which each negative belongs."""

    links: LinkSeeds
    owner: Tensor
    negatives: Negatives

    def all(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations of all negatives."""
        return self.strictly_drawn() if self.negatives.strict else self.drawn(0, torch.from_numpy(np.arange(len(self.owner))))

    def drawn(self, attempt: int, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Sources and destinations of some negatives."""
        rules, latest = self.negatives, self._latest(positions)
        dst_gid = rules.dst.pick(self._fractions("destination", attempt, positions), latest)
        if rules.triplet:
            return ops.gather_rows(self.links.src_gid, self._owners(positions)), dst_gid
        return rules.src.pick(self._fractions("source", attempt, positions), latest), dst_gid

    def strictly_drawn(self) -> tuple[Tensor, Tensor]:
        """Those of all negatives, none of which is an edge."""
        wrong = torch.from_numpy(np.arange(len(self.owner)))
        src_gid, dst_gid = self.drawn(0, wrong)
        for attempt in range(_ROUNDS):
            wrong = self._wrong(wrong, src_gid, dst_gid)
            if not len(wrong):
                return src_gid, dst_gid
            for drawn, gid in zip(self.drawn(attempt + 1, wrong), (src_gid, dst_gid), strict=True):
                ops.scatter_rows(drawn, wrong, gid)
        for position in self._wrong(wrong, src_gid, dst_gid):
            src_gid[position], dst_gid[position] = self._listed(position, src_gid[position])
        return src_gid, dst_gid

    def _wrong(self, positions: Tensor, src_gid: Tensor, dst_gid: Tensor) -> Tensor:
        """Those of some negatives that are edges."""
        are_edges = self._are_edges(*(ops.gather_rows(gid, positions) for gid in (src_gid, dst_gid)))
        return ops.gather_rows(positions, torch.from_numpy(np.flatnonzero(are_edges.numpy())))

    def _listed(self, position: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
        """A pair chosen among all that are no edges of a source; of binary negatives' next source, if this one has none."""
        rules, one = self.negatives, position.view(1)
        fraction, latest = self._fractions("destination", _ROUNDS + 1, one), self._latest(one)
        choices = rules.dst.gid[: int(rules.dst.early(1, latest))]
        weight = torch.ones(len(choices), dtype=torch.float64) if rules.dst.weight is None else rules.dst.weight[: len(choices)]
        for candidate in source.view(1) if rules.triplet else self._sources_from(source, latest):
            free = weight * ~self._are_edges(candidate.expand(len(choices)), choices)
            if (free > 0).any():
                place = pick_place(fraction, torch.tensor([len(choices)]), free, rules.dst.node_type)
                return candidate, choices[place[0]]
        if not self.links.num_pos:
            raise InputError(f"every pair of nodes is joined by {rules.relation}; draw pairs with strict=False")
        raise InputError(
            f"edge {int(self.links.input_id[self.owner[position]])} of the input has no strict negative: its source is joined to "
            f"every node by {rules.relation}; leave it out, or set strict_negatives=False"
        )

    def _sources_from(self, source: Tensor, latest: Tensor | None) -> Tensor:
        """All that may be one, the given first."""
        rules = self.negatives
        num = int(rules.src.early(1, latest))
        gid = rules.src.gid[:num] if rules.src.weight is None else rules.src.gid[:num][rules.src.weight[:num] > 0]
        return gid.roll(-int((gid == source).nonzero()[0]))

    def _are_edges(self, src_gid: Tensor, dst_gid: Tensor) -> Tensor:
        found = self.negatives.graph.find(((self.negatives.relation, src_gid, dst_gid),))[0]
        return torch.from_numpy(found.counts.numpy() > 0)

    def _latest(self, positions: Tensor) -> Tensor | None:
        return None if self.links.time is None else ops.gather_rows(self.links.time, self._owners(positions))

    def _owners(self, positions: Tensor) -> Tensor:
        return ops.gather_rows(self.owner, positions)

    def _fractions(self, end: str, attempt: int, positions: Tensor) -> Tensor:
        links = self.links
        stream = ("", f"negative {end}", "")
        key = ops.stream_key(seed=self.negatives.seed, epoch=links.epoch, batch=links.index, hop=attempt, relation=stream)
        return ops.fractions(key, positions)


def _checked(weight: Tensor, node_type: NodeType, count: int) -> Tensor:
    if weight.shape != (count,):
        raise InputError(f"weights of negatives have shape {tuple(weight.shape)}, but {node_type!r} has {count} nodes")
    weight = weight.double().cpu()
    if not torch.isfinite(weight).all() or (weight < 0).any():
        wrong = (~torch.isfinite(weight) | (weight < 0)).nonzero()[0]
        raise InputError(f"the weight {float(weight[wrong])} of negatives of {node_type!r} is no finite number of at least 0")
    if count and not weight.sum() > 0:
        raise InputError(f"all weights of negatives of {node_type!r} are 0; give one node a weight above it")
    return weight
