"""The in-edges of one relation in the partitions of this process, and the drawing of neighbours from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop import ops
from halohop.errors import SchemaError
from halohop.store.draw import Draw, Rules
from halohop.store.requests import HopAnswer, HopQuery
from halohop.store.weight_sums import refused_weight
from halohop.telemetry import Counters
from halohop.typing import SOURCE_ID, Relation

_TREE_STEP = 1 << 40
"""Between the streams of one node in two trees: raw ids are smaller."""

Int64s = NDArray[np.int64]  # sums are NumPy's: torch would wake its threads, which are the trainer's

_FIND_AT_ONCE = 256
_SIEVE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Answers hop queries about the destinations that this process owns.

    In a graph with lists of out-edges, what is called a destination here is the source, and the other way round.

    Args:
        relation: which edges these are. Their arrays may be on a device, as queries to it are then.
        drawn_as: the relation from neighbours to those that they are drawn for, which names the streams of random numbers.
        indptr, indices: as in `EdgePart`, a piece per partition.
        edge_bounds: gids of the partitions' edges, int64; an array, or a tensor of the device.
        edge_ids: the user's ids of the edges; None where id and gid are the same.
        dst_raw: raw ids of the destinations; None where raw id and gid are the same.
        columns: of the edges.
        halo, ascending: as in `EdgePart`; what is in `halo` need not be looked up at the sources.
        src_raw: raw ids of the sources; None where raw id and gid are the same.
        src_columns: of the sources.
        has_all_sources: whether all of them are in this process.
        weight_sums: of columns that are weights to draw by.
        near: the same lists in memory of the host, where these are a device's.
    """

    relation: Relation
    drawn_as: Relation
    indptr: ops.Pieces
    indices: ops.Pieces
    edge_bounds: NDArray[np.int64] | Tensor
    edge_ids: ops.Pieces | None
    dst_raw: ops.Pieces | None
    columns: Mapping[str, ops.Pieces]
    halo: Mapping[str, ops.Pieces]
    ascending: frozenset[str]
    src_raw: ops.Pieces | None
    src_columns: Mapping[str, ops.Pieces]
    has_all_sources: bool
    weight_sums: Mapping[str, ops.WeightSums] = field(default_factory=dict)
    near: "Topology | None" = None

    def sample(self, query: HopQuery, draw: Draw, pool: ops.Pool, counters: Counters) -> HopAnswer:
        """Draws neighbours; the same for every partitioning, since a draw is keyed by raw id and made by list position.

        Raises:
            IdError: a queried node is not owned by this process.
            InputError: weights or times that cannot be drawn by.
            SchemaError: what is asked about sources is known to other hosts only.
        """
        if query.src_gid is not None:
            answer = self._find(query, query.src_gid, draw, pool, counters)
            return replace(answer, edge_id=self._ids(query, answer.edge_gid, pool))
        with counters.span("draw"):
            counts, edge_gid = self._draw(query, draw, pool)
        if query.most is not None:
            src_gid = ops.gather_known(self.indices, edge_gid, pool=pool)
            ops.fill_missing(src_gid, edge_gid, -1)
            return HopAnswer(counts=counts, src_gid=src_gid, edge_gid=edge_gid)
        with counters.span("load"):
            src_gid, edge_id = ops.gather_rows(self.indices, edge_gid, pool=pool), self._ids(query, edge_gid, pool)
        return HopAnswer(counts=counts, src_gid=src_gid, edge_gid=edge_gid, edge_id=edge_id)

    def _ids(self, query: HopQuery, edge_gid: Tensor, pool: ops.Pool) -> Tensor | None:
        """The user's ids of edges, where they are asked for and not the gids."""
        if not query.edge_ids or self.edge_ids is None:
            return None
        return ops.gather_rows(self.edge_ids, edge_gid, pool=pool)

    def degrees(self, gid: Tensor, pool: ops.Pool) -> Tensor:
        """How many in-edges destinations have, int64 ``[n]``.

        Raises:
            IdError: one of them is not owned by this process.
        """
        return ops.list_lengths(self.indptr, gid, pool=pool)

    def _find(self, query: HopQuery, src_gid: Tensor, draw: Draw, pool: ops.Pool, counters: Counters) -> HopAnswer:
        """The edges between sources and destinations: every list is read once, some at a time, and most of it dropped at once."""
        assert query.fanout == -1
        sources = src_gid.numpy()
        dst_gid, row = np.unique(query.dst_gid.numpy(), return_inverse=True)
        width = int(sources.max()) + 1 if len(sources) else 1
        wanted, which = np.unique(row * width + sources, return_inverse=True)
        sieve = np.zeros(_SIEVE, np.bool_)
        sieve[sources & _SIEVE - 1] = True
        keys, gids = [wanted[:0]], [wanted[:0]]
        for begin in range(0, len(dst_gid), _FIND_AT_ONCE):
            some = torch.from_numpy(dst_gid[begin : begin + _FIND_AT_ONCE])
            whole = self.sample(HopQuery(relation=self.relation, fanout=-1, dst_gid=some), draw, pool, counters)
            found = whole.src_gid.numpy()
            likely = np.flatnonzero(sieve[found & _SIEVE - 1])
            likely = likely[found[likely] < width]
            of_row = np.searchsorted(np.cumsum(whole.counts.numpy()), likely, side="right") + begin
            keys.append(of_row * width + found[likely])
            gids.append(whole.edge_gid.numpy()[likely])
        counts, edge_gid = _matches(wanted, which, np.concatenate(keys), np.concatenate(gids))
        return HopAnswer(
            counts=torch.from_numpy(counts),
            src_gid=torch.from_numpy(np.repeat(sources, counts)),
            edge_gid=torch.from_numpy(edge_gid),
        )

    def _draw(self, query: HopQuery, draw: Draw, pool: ops.Pool) -> tuple[Tensor, Tensor]:
        rules, eligible = draw.rules, self._eligible(query, draw.rules)
        gather = ops.gather_rows if query.most is None else ops.gather_known
        raw = query.dst_gid if self.dst_raw is None else gather(self.dst_raw, query.dst_gid, pool=pool)
        try:
            return ops.sample_neighbors(
                self.indptr,
                query.dst_gid,
                raw if query.tree is None else ops.scaled_sum(raw, query.tree, _TREE_STEP),
                query.fanout,
                self._key(draw),
                replace=rules.replace,
                edge_bounds=self.edge_bounds,
                weights=self.columns.get(rules.weight) if rules.weight is not None else None,
                weight_sums=self._sums(rules, whole=eligible is None),
                eligible=eligible,
                sources=self._sources(query) if rules.labor else None,
                pool=pool,
                most=query.most,
            )
        except ops.WeightError as error:
            edge, ids = torch.tensor([error.position]), (self.near or self).edge_ids
            edge = edge if ids is None else ops.gather_rows(ids, edge)
            raise refused_weight(error, int(edge), self.relation, str(rules.weight)) from error

    def _sums(self, rules: Rules, *, whole: bool) -> ops.WeightSums | None:
        """Running sums of the weights, where draws read any; a device reads those of whole lists only."""
        if rules.weight is None or rules.labor or (self.near is not None and not whole):
            return None
        return self.weight_sums.get(rules.weight)

    def _key(self, draw: Draw) -> int:
        shared = (self.drawn_as[0], "", "")  # all relations from a type have the same numbers
        relation = shared if draw.rules.labor else self.drawn_as
        return ops.stream_key(seed=draw.seed, epoch=draw.epoch, batch=draw.batch, hop=draw.hop, relation=relation)

    def _sources(self, query: HopQuery) -> ops.Sources:
        ids, via = (self.indices, None) if self.src_raw is None else self._of_sources(SOURCE_ID, self.src_raw)
        return ops.Sources(ids=ids, via=via, shift=None if query.tree is None else ops.scaled(query.tree, _TREE_STEP))

    def _eligible(self, query: HopQuery, rules: Rules) -> ops.Eligible | None:
        """Which neighbours may be drawn; None means all."""
        times, via = self._times(rules.time)
        if times is None:
            return None if query.excluded is None else ops.Eligible(excluded=query.excluded)
        latest, window = query.latest, rules.time_window
        return ops.Eligible(
            times=times,
            via=via,
            latest=None if latest is None else ops.comparable(latest, times.dtype),
            earliest=None if latest is None or window is None else ops.window_start(latest, window, times.dtype),
            last=rules.last,
            times_sorted=via is None and rules.time in self.ascending,
            excluded=query.excluded,
        )

    def _times(self, column: str | None) -> tuple[ops.Pieces | None, ops.Pieces | None]:
        """The times of the edges or, perhaps through the second one, of their sources; none if the relation has none."""
        if column is None:
            return None, None
        if column in self.columns:
            return self.columns[column], None
        if column not in self.src_columns:
            return None, None
        if column == SOURCE_ID in self.halo:
            raise SchemaError(f"{column!r} of the halo is the ids of the sources, not their times; partition with other names")
        return self._of_sources(column, self.src_columns[column])

    def _of_sources(self, name: str, values: ops.Pieces) -> tuple[ops.Pieces, ops.Pieces | None]:
        """A column of every edge's source: stored along the edges, or looked up through the second one.

        Raises:
            SchemaError: neither, as a source may be on another host.
        """
        if name in self.halo:
            return self.halo[name], None
        if self.has_all_sources:
            return values, self.indices
        raise SchemaError(
            f"{name!r} of the sources is not stored along the edges {self.relation}, and not all sources are on this host; "
            f"partition with halo=({name!r},), on the command line --halo {name}, or let every host hold all partitions"
        )


def _matches(wanted: Int64s, which: Int64s, keys: Int64s, gids: Int64s) -> tuple[Int64s, Int64s]:
    """For each entry of `which`, the `gids` whose key is ``wanted[entry]``: their numbers, and themselves end to end."""
    place = np.searchsorted(wanted, keys)
    found = np.flatnonzero(place < len(wanted))
    found = found[wanted[place[found]] == keys[found]]
    place, gids = place[found], gids[found]
    gids = gids[np.argsort(place, kind="stable")]
    numbers = np.bincount(place, minlength=len(wanted))
    begins, counts = np.cumsum(numbers) - numbers, numbers[which]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return counts, gids[np.repeat(begins[which], counts) + within]
