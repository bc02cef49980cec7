"""The one batch record: what a sampler returns, what a loader collects rows into, what a face translates."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from halohop import ops
from halohop.ops import SparseRows
from halohop.ops.device import DevicePool
from halohop.sampling.link_seeds import End, LinkSeeds
from halohop.store.forms import AnyIds, Ids, Times
from halohop.typing import NodeType, Relation


class _WithoutLinks:
    """What nodes say of the links that a batch is about: there are none."""

    __slots__ = ()

    @property
    def ends(self) -> tuple[End, ...]:
        """None: sampling begins at the nodes alone."""
        return ()

    @property
    def excluded(self) -> dict[Relation, Tensor]:
        """None: every edge may be in the batch."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds(_WithoutLinks):
    """The nodes that a batch is about, and which batch it is.

    Args:
        node_type: their type.
        gid: int64 ``[n]``; a node may occur twice.
        input_id: where the user's `input_nodes` holds them, int64 ``[n]``.
        epoch, index: the batch's place; with the seed of the sampler they determine every draw.
        time: nothing later may be sampled around a seed, int64 or float64 ``[n]``; None without times.
    """

    node_type: NodeType
    gid: Ids
    input_id: Ids
    epoch: int
    index: int
    time: Times | None = None

    def __post_init__(self) -> None:
        assert self.gid.dim() == 1
        assert self.gid.shape == self.input_id.shape
        assert self.time is None or self.gid.shape == self.time.shape

    def starts(self, node_type: NodeType) -> Tensor:
        """The seeds of a type; one that occurs twice is two nodes of the batch."""
        return self.gid if node_type == self.node_type else self.gid[:0]

    def put(self, pool: DevicePool) -> "Seeds":
        """The same on the device of a pool."""
        time = None if self.time is None else pool.put(self.time)
        return replace(self, gid=pool.put(self.gid), input_id=pool.put(self.input_id), time=time)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSet(_WithoutLinks):
    """Nodes that make up a batch as they are, all alike: there are no few that it is about.

    Args:
        gid: by type, int64 ``[n]``, each node once; a type may be absent.
        epoch, index: the batch's place.
    """

    gid: dict[NodeType, AnyIds]
    epoch: int
    index: int

    def starts(self, node_type: NodeType) -> Tensor:
        """The nodes of a type."""
        return self.gid.get(node_type, torch.empty(0, dtype=torch.int64))

    def put(self, pool: DevicePool) -> "NodeSet":
        """The same on the device of a pool."""
        return replace(self, gid={name: pool.put(gid) for name, gid in self.gid.items()})

    @property
    def time(self) -> None:
        """None: nodes of a set are sampled regardless of time."""


AnySeeds = Seeds | LinkSeeds | NodeSet
"""What sampling of a batch begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBlock:
    """A batch's nodes of one type: seeds first, then in order of discovery.

    Args:
        gid: int64 ``[num_nodes]``.
        num_sampled: how many were found by each hop, seeds first: ``hops + 1`` numbers; None after a user has rearranged them.
        tree: the number of the seed around which each was found, int64 ``[num_nodes]``; None if all seeds share one subgraph.
        padded: whether some places are empty: gid -1.
        columns: rows of the nodes, ``[num_nodes, ...]`` each; empty until collected.
        sparse: rows that are stored sparse, until they are `columns`, too (see `halohop.sampling.collect.laid_out`).
    """

    gid: Tensor
    num_sampled: tuple[int, ...] | None
    tree: Tensor | None = None
    padded: bool = False
    columns: dict[str, Tensor] = field(default_factory=dict)
    sparse: dict[str, SparseRows] = field(default_factory=dict)

    def moved(self, move: "Move") -> "NodeBlock":
        """With its tensors elsewhere."""
        return replace(
            self,
            gid=move(self.gid),
            tree=None if self.tree is None else move(self.tree),
            columns={name: move(column) for name, column in self.columns.items()},
            sparse={name: rows.moved(move) for name, rows in self.sparse.items()},
        )

    def __post_init__(self) -> None:
        count = self.gid.shape[0]
        assert self.num_sampled is None or sum(self.num_sampled) == count
        for column in self.columns.values():
            assert column.shape[:1] == (count,)
        for rows in self.sparse.values():
            assert len(rows) == count


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Which edges of a block are flips of another relation's: bool ``[num_edges]``, `count` of them. Their gids are those of
    `relation`."""

    relation: Relation
    mask: Tensor
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBlock:
    """A batch's edges of one relation, hop after hop; of induced and bidirectional subgraphs ordered by destination.

    Args:
        ends_bid: positions of sources and destinations among the batch's nodes of their types, int64 ``[2, num_edges]``.
        gid: int64 ``[num_edges]``.
        num_sampled: how many were drawn by each hop: ``hops`` numbers; None where they are not in the order of hops.
        flips: of a bidirectional subgraph, the edges that come from the partner relation; None if there is none.
        padded: whether some places are empty: gid -1.
        num_empty: how many.
        columns: rows of the edges, ``[num_edges, ...]`` each; empty until collected.
    """

    ends_bid: Tensor
    gid: Tensor
    num_sampled: tuple[int, ...] | None
    flips: Flips | None = None
    padded: bool = False
    num_empty: int = 0
    columns: dict[str, Tensor] = field(default_factory=dict)

    @property
    def num_edges(self) -> int:
        """Edges, without empty places."""
        return self.gid.numel() - self.num_empty

    def own_and_flipped(self) -> tuple[Tensor, Tensor]:
        """The positions of the edges of the relation itself, and of the flips, int64 ``[n]`` each."""
        assert self.flips is not None
        return ops.places_apart(self.gid, self.flips.mask, (self.num_edges - self.flips.count, self.flips.count))

    def moved(self, move: "Move") -> "EdgeBlock":
        """With its tensors elsewhere."""
        return replace(
            self,
            ends_bid=move(self.ends_bid),
            gid=move(self.gid),
            flips=None if self.flips is None else replace(self.flips, mask=move(self.flips.mask)),
            columns={name: move(column) for name, column in self.columns.items()},
        )

    def __post_init__(self) -> None:
        count = self.gid.shape[0]
        assert self.ends_bid.shape == (2, count)
        assert self.flips is None or self.flips.mask.shape == self.gid.shape
        assert self.num_sampled is None or sum(self.num_sampled) == count
        for column in self.columns.values():
            assert column.shape[:1] == (count,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Places of a padded batch for input nodes or edges, and of links for pairs of ends, with the negatives."""

    seeds: int
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A sampled subgraph: every node type and relation of the graph has its block, also when it is empty.

    Args:
        seeds: what it is about.
        nodes, edges: the blocks.
        ends_bid: of a link task, the positions of the sources and of the destinations of `seeds`, int64 ``[num_src]`` and
            ``[num_dst]``; otherwise empty.
        room: of a padded batch, how many seeds it has places for; None if it is not padded.
        is_collected: whether its rows are there.
    """

    seeds: AnySeeds
    nodes: dict[NodeType, NodeBlock]
    edges: dict[Relation, EdgeBlock]
    ends_bid: tuple[Tensor, ...] = ()
    room: Room | None = None
    is_collected: bool = False

    @property
    def num_edges(self) -> int:
        """Edges, without empty places."""
        return sum(block.num_edges for block in self.edges.values())

    @property
    def num_bytes(self) -> int:
        """What its tensors weigh."""
        total = 0
        for block in self.nodes.values():
            total += _column_bytes(block.columns) + block.gid.nbytes
        for listed in self.edges.values():
            total += _column_bytes(listed.columns) + listed.gid.nbytes + listed.ends_bid.nbytes
        return total

    def put(self, pool: DevicePool) -> "Batch":
        """The same on the device of a pool: structure, and the rows that it has. A tensor that occurs twice is copied once."""
        moved: dict[int, Tensor] = {}

        def move(tensor: Tensor) -> Tensor:
            if id(tensor) not in moved:
                moved[id(tensor)] = pool.put(tensor)
            return moved[id(tensor)]

        return replace(
            self,
            seeds=self.seeds.put(pool),
            nodes={name: block.moved(move) for name, block in self.nodes.items()},
            edges={relation: listed.moved(move) for relation, listed in self.edges.items()},
            ends_bid=tuple(map(move, self.ends_bid)),
        )


Move = Callable[[Tensor], Tensor]
"""Copies a tensor to another place."""


def _column_bytes(columns: dict[str, Tensor]) -> int:
    return sum(map(tensor_bytes, columns.values()))


def tensor_bytes(column: Tensor) -> int:
    """What rows weigh, dense or in CSR."""
    if column.layout == torch.strided:
        return column.nbytes
    return column.crow_indices().nbytes + column.col_indices().nbytes + column.values().nbytes
