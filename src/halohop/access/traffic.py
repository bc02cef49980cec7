"""Which rows the batches of each host read, and whose they are: some batches are sampled as that host would make them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.examples import Examples
from halohop.loading.locality import Locality, seed_blocks
from halohop.loading.seeds import Share, ShuffledPlan
from halohop.sampling.batch import Batch
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules
from halohop.store.replica import Replica
from halohop.typing import NodeType, TableKey
from halohop.world import World

_ID, _DRAWN_EDGE = 8, 20
"""Bytes of an id or count that is answered, and of an edge that is drawn: its gid, its id, and mostly 4 bytes of its source's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTraffic:
    """What the batches of one host read, each figure the mean of those that were sampled.

    Args:
        host: its number; partition `host` is there, and no other.
        steps: batches of an epoch.
        sampled: how many of them were sampled.
        rows: nodes of a batch.
        remote_rows: those of them that are on other hosts.
        remote_rows_error: the standard error of that mean; None with one batch.
        bytes_from: by owner, what a batch receives of it at most: rows, and drawn neighbours, where no row stays from batches
            before, and ids are sent at their full width; 0 from the host itself.
    """

    host: int
    steps: int
    sampled: int
    rows: float
    remote_rows: float
    remote_rows_error: float | None
    bytes_from: tuple[float, ...]

    @property
    def remote_share(self) -> float:
        return self.remote_rows / self.rows if self.rows else 0.0

    @property
    def remote_bytes(self) -> float:
        """What a batch receives."""
        return sum(self.bytes_from)


def traffic(
    graph: Graph,
    seeds: Examples,
    fanouts: Fanouts,
    *,
    batch_size: int,
    locality: Locality,
    row_bytes: Mapping[TableKey, float],
    batches: int,
    copies: Sequence[Replica | None] = (),
    seed: int = 0,
) -> tuple[HostTraffic, ...]:
    """What each host reads if there is one for every partition, with one trainer.

    Args:
        graph: all of whose partitions are here.
        seeds, fanouts, batch_size, locality: as of the loaders.
        row_bytes: what a row of each table weighs.
        batches: how many are sampled for each host, evenly over its first epoch.
        copies: by partition, what it has copied of others; empty where no partition has.
        seed: of the order of the seeds and the draws.

    Raises:
        InputError: batches < 1, batch_size < 1, or a locality that the graph does not have.
    """
    if batches < 1:
        raise InputError(f"batches={batches}: at least one batch is sampled")
    num_hosts = graph.book.num_parts
    blocks = seed_blocks(graph, seeds, locality)
    sampler = NeighborSampler(graph, fanouts, seed=seed, rules=Rules())
    hosts = []
    for host in range(num_hosts):
        world = World(rank=host, size=num_hosts)
        plan = ShuffledPlan(num_seeds=len(seeds), batch_size=batch_size, shuffle=True, seed=seed, world=world)
        shares = _some(list(plan.by_blocks(blocks).epoch(0)), batches)
        copied = copies[host] if copies else None
        found = [_read(graph, sampler.sample(seeds.seeds(0, share)), host, row_bytes, fanouts, copied) for share in shares]
        hosts.append(_mean(host, len(plan), found, num_hosts))
    return tuple(hosts)


def _some(shares: list[Share], count: int) -> list[Share]:
    """So many of them, evenly spread, but for empty ones."""
    full = [share for share in shares if len(share.positions)]
    return [full[len(full) * number // min(count, len(full))] for number in range(min(count, len(full)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What one batch read: nodes, those of other hosts, and bytes by owner."""

    rows: int
    remote_rows: int
    bytes_from: Tensor


def _read(
    graph: Graph,
    batch: Batch,
    host: int,
    row_bytes: Mapping[TableKey, float],
    fanouts: Fanouts,
    copied: Replica | None,
) -> _Read:
    book, sizes = graph.book, torch.zeros(graph.book.num_parts, dtype=torch.float64)
    rows = remote = 0
    for name, block in batch.nodes.items():
        asked = _per_owner(block.gid[_missing(block.gid, copied, name)], book.bounds(name))
        rows, remote = rows + len(block.gid), remote + int(asked.sum() - asked[host])
        sizes += asked * (row_bytes[name] + _ID)
    listed = copied if copied is not None and copied.first else None
    for relation, edges in batch.edges.items():
        name = book.list_type(relation)
        block = batch.nodes[name]
        assert block.num_sampled is not None
        if any(fanouts.per_relation.get(relation, ())):
            expanded = block.gid[: sum(block.num_sampled[:-1])]
            sizes += _per_owner(expanded[_missing(expanded, listed, name)], book.bounds(name)) * _ID
        drawn = edges.gid[_missing(block.gid[edges.ends_bid[book.list_end]], listed, name)]
        sizes += _per_owner(drawn, book.bounds(relation)) * (_DRAWN_EDGE + row_bytes[relation])
    sizes[host] = 0
    return _Read(rows=rows, remote_rows=remote, bytes_from=sizes)


def _per_owner(gid: Tensor, bounds: Sequence[int]) -> Tensor:
    """How many are of each partition."""
    inner = torch.tensor(bounds[1:-1], dtype=torch.int64)
    return torch.bincount(torch.bucketize(gid, inner, right=True), minlength=len(bounds) - 1)


def _missing(gid: Tensor, copied: Replica | None, name: NodeType) -> Tensor:
    """Which nodes are not among the copied ones, bool ``[n]``."""
    known = None if copied is None else copied.gid.get(name)
    if known is None or not len(known):
        return torch.ones(len(gid), dtype=torch.bool)
    at = torch.searchsorted(known, gid.to(known.dtype)).clamp_(max=len(known) - 1)
    return known[at] != gid


def _mean(host: int, steps: int, found: list[_Read], num_hosts: int) -> HostTraffic:
    count = len(found)
    remote = torch.tensor([read.remote_rows for read in found], dtype=torch.float64)
    total = sum((read.bytes_from for read in found), torch.zeros(num_hosts, dtype=torch.float64))
    return HostTraffic(
        host=host,
        steps=steps,
        sampled=count,
        rows=sum(read.rows for read in found) / max(count, 1),
        remote_rows=float(remote.mean()) if count else 0.0,
        remote_rows_error=float(remote.std()) / math.sqrt(count) if count > 1 else None,
        bytes_from=tuple((total / max(count, 1)).tolist()),
    )
