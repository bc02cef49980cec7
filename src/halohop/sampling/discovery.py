"""What a hop loop has found so far: nodes, numbered in order of discovery, and edges."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from halohop import ops
from halohop.sampling.batch import AnySeeds, EdgeBlock, NodeBlock
from halohop.store.schema import Schema
from halohop.typing import EDGE_ID, NodeType


class Tables:
    """What numbers the nodes of a batch: a table for each node type and thread, made once and used for every batch.

    Args:
        schema: of the graph.
        disjoint: whether a node that is found around two seeds counts twice. Then a batch is a forest in a graph that has a copy
            of every node for every seed: node v in the tree of seed t.
        pool: where the memory of results comes from.
        room: places of each hop by type, and the most nodes that are found, where these are known beforehand.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        disjoint: bool,
        pool: ops.Pool,
        room: Mapping[NodeType, tuple[tuple[int, ...], int]] | None = None,
    ) -> None:
        self._room = room or {}
        self._counts = {name: spec.count for name, spec in schema.nodes.items()}
        self._disjoint = disjoint
        self._pool = pool
        self._per_thread = threading.local()

    def start(self, seeds: AnySeeds) -> "Discovery":
        """A new batch; ends the last one of this thread."""
        nodes: dict[NodeType, _Nodes] | None = getattr(self._per_thread, "nodes", None)
        if nodes is None:
            nodes = {
                name: _Nodes(count, disjoint=self._disjoint, pool=self._pool, room=self._room.get(name))
                for name, count in self._counts.items()
            }
            self._per_thread.nodes = nodes
        return Discovery(nodes, seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """Nodes to expand in a hop.

    Args:
        gid: int64 ``[n]``.
        tree: the number of each node's seed, int64 ``[n]``; None if all seeds share one subgraph.
        begin: the bid of the first node; the others follow it.
    """

    gid: Tensor
    tree: Tensor | None
    begin: int

    def tree_of(self, bids: Tensor) -> Tensor | None:
        """The trees of some of its nodes."""
        return None if self.tree is None else ops.gather_rows(self.tree, ops.shifted(bids, -self.begin))

    def slice(self, begin: int, end: int) -> "Frontier":
        """Some of its nodes, by their place in it."""
        tree = None if self.tree is None else self.tree[begin:end]
        return Frontier(gid=self.gid[begin:end], tree=tree, begin=self.begin + begin)


class Discovery:
    """The nodes of a batch by type, with the bounds between the hops that found them.

    Attributes:
        ends_bid: the bids of each of the seeds' ends.
    """

    def __init__(self, nodes: "dict[NodeType, _Nodes]", seeds: AnySeeds) -> None:
        self._nodes = nodes
        for name, found in nodes.items():
            found.start(seeds.starts(name))
        self.ends_bid = tuple(torch.empty_like(end.gid) for end in seeds.ends)
        for end, bids in zip(seeds.ends, self.ends_bid, strict=True):
            self.add(end.node_type, end.gid, end.tree, bids)
        self._num_sampled = {name: [count] for name, count in self._counts().items()}

    def frontier(self, *, expand_all: bool) -> dict[NodeType, Frontier]:
        """The nodes to expand now: those of the last hop, or all."""
        begins = {name: 0 if expand_all else sum(counts) - counts[-1] for name, counts in self._num_sampled.items()}
        frontiers = {}
        for name, found in self._nodes.items():
            gid, tree = found.since(begins[name])
            frontiers[name] = Frontier(gid=gid, tree=tree, begin=begins[name])
        return frontiers

    def add(self, node_type: NodeType, gid: Tensor, tree: Tensor | None, bids: Tensor) -> None:
        """Writes the bids of nodes, old and new."""
        self._nodes[node_type].add(gid, tree, bids)

    def find(self, node_type: NodeType, gid: Tensor, tree: Tensor | None) -> Tensor:
        """The bids of nodes; -1 where a node is not among those found."""
        return self._nodes[node_type].find(gid, tree)

    def end_hop(self) -> None:
        known = self._counts()
        for name, counts in self._num_sampled.items():
            counts.append(known[name] - sum(counts))

    def end_hops(self, counts: Sequence[Sequence[int]]) -> None:
        """Takes over what hops have found that were gone elsewhere: how many nodes of each type there are before each of them,
        and after the last one."""
        for sampled, *known in zip(self._num_sampled.values(), *counts, strict=True):
            sampled.extend(after - before for before, after in pairwise(known))

    def _counts(self) -> dict[NodeType, int]:
        """How many nodes of each type there are; a device is waited for once."""
        if relabelers := self.relabelers:
            relabelers[0].settle(relabelers)
        return {name: found.count for name, found in self._nodes.items()}

    @property
    def relabelers(self) -> list[ops.Relabeler]:
        """What numbers the nodes of each type."""
        return [found.relabeler for found in self._nodes.values()]

    def blocks(self) -> dict[NodeType, NodeBlock]:
        blocks = {}
        for name, nodes in self._nodes.items():
            gid, tree = nodes.since(0)
            blocks[name] = NodeBlock(gid=gid, tree=tree, num_sampled=tuple(self._num_sampled[name]))
        return blocks


class _Nodes:
    """The nodes of one type. In a forest node v of tree t has the key ``t * num_nodes + v``, else v.

    Attributes:
        relabeler: numbers the keys.
    """

    def __init__(
        self, num_nodes: int, *, disjoint: bool, pool: ops.Pool, room: tuple[tuple[int, ...], int] | None = None
    ) -> None:
        self._num_nodes = max(num_nodes, 1)
        self._disjoint = disjoint
        most_trees = 2**62 // self._num_nodes
        places, found = (None, 0) if room is None else room
        num_keys = most_trees * self._num_nodes if disjoint else num_nodes
        self.relabeler = ops.relabeler(num_keys, pool=pool, room=places, found=found)

    @property
    def count(self) -> int:
        return self.relabeler.count

    def start(self, gid: Tensor) -> None:
        """Every seed begins a tree of its own."""
        self.relabeler.start(self._keys(gid, ops.places_in(gid) if self._disjoint else None))

    def add(self, gid: Tensor, tree: Tensor | None, bids: Tensor) -> None:
        self.relabeler.add(self._keys(gid, tree), out=bids)

    def find(self, gid: Tensor, tree: Tensor | None) -> Tensor:
        return self.relabeler.find(self._keys(gid, tree))

    def since(self, begin: int) -> tuple[Tensor, Tensor | None]:
        """The nodes from bid `begin` on, and their trees in a forest."""
        keys = self.relabeler.nodes(begin)
        if not self._disjoint:
            return keys, None
        tree, gid = ops.quotients(keys, self._num_nodes)
        return gid, tree

    def _keys(self, gid: Tensor, tree: Tensor | None) -> Tensor:
        if tree is None or not self._disjoint:
            return gid
        return ops.scaled_sum(gid, tree, self._num_nodes)


class Trail:
    """The edges of one relation, hop after hop.

    The ends grow to the exact size in every hop, so those of the last one, which has most of the edges, are written once, where
    they stay. Ids are joined when all hops are there.

    Args:
        pool: where the memory comes from.
        list_end: see `Book.list_end`.
    """

    def __init__(self, pool: ops.Pool, *, list_end: int) -> None:
        self._pool = pool
        self._list_end = list_end
        self._ends_bid = pool.empty((2, 0), torch.int64)
        self._gids: list[Tensor] = []
        self._ids: list[Tensor] = []  # the user's
        self._ids_are_gids = True
        self._total, self._num_sampled = 0, list[int]()

    def extend(self, edge_gid: Tensor, edge_id: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Takes in a hop's edges; returns the room for the bids of neighbours, and of the nodes that they were drawn for.

        Args:
            edge_gid: int64 ``[n]``.
            edge_id: the user's ids of them, int32 or int64; None: they are not known, or the gids.
        """
        self._total += edge_gid.shape[0]
        self._ends_bid, rooms = ops.lengthened(self._ends_bid, self._total, self._pool)
        self._gids.append(edge_gid)
        self._ids.append(edge_gid if edge_id is None else edge_id)
        self._ids_are_gids = self._ids_are_gids and edge_id is None
        return rooms[1 - self._list_end], rooms[self._list_end]

    def end_hop(self) -> None:
        self._num_sampled.append(self._total - sum(self._num_sampled))

    def block(self, *, by_hop: bool = True, ids: bool = False) -> EdgeBlock:
        """The edges; `ids`: with the user's ids, which every answer had, as far as they are not the gids."""
        gid = self._joined(self._gids)
        return EdgeBlock(
            ends_bid=self._ends_bid,
            gid=gid,
            num_sampled=tuple(self._num_sampled) if by_hop else None,
            columns={EDGE_ID: gid if self._ids_are_gids else self._joined(self._ids)} if ids else {},
        )

    def _joined(self, hops: list[Tensor]) -> Tensor:
        if len(hops) == 1 and hops[0].dtype == torch.int64:
            return hops[0]
        return ops.join_ids(hops, self._pool.empty((self._total,), torch.int64))
