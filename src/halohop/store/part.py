"""One partition's arrays. Built in memory or mapped from disk, it looks the same."""

from dataclasses import dataclass, field

from torch import Tensor

from halohop.ops import SparseRows
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePart:
    """The nodes of one type that a partition owns, in lid order.

    Args:
        num_nodes: how many.
        raw_id: int64 ``[num_nodes]``, ascending; None where the raw id is the gid itself.
        columns: ``[num_nodes, ...]`` each.
        sparse: columns of which only entries that are not zero are stored, `num_nodes` rows each.
        block: which block each node belongs to, uint8 or int16 ``[num_nodes]``; None where the data set has no blocks.
        hotness: how often each node is read, float32 ``[num_nodes]``; None where that is not stored.
    """

    num_nodes: int
    raw_id: Tensor | None
    columns: dict[str, Tensor]
    sparse: dict[str, SparseRows] = field(default_factory=dict)
    block: Tensor | None = None
    hotness: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePart:
    """The in-edges of those nodes for one relation, in compressed sparse column (CSC) form.

    Args:
        indptr: int64 ``[num_dst + 1]``: the in-edges of lid v are the positions ``indptr[v]:indptr[v + 1]``.
        indices: gids of the source nodes, int32 or int64 ``[num_edges]``; each list keeps the user's order.
        edge_id: the edges' positions in the user's input, int32 or int64 ``[num_edges]``; None where it is the edge gid itself.
        columns: ``[num_edges, ...]`` each, in the same order as `indices`.
        halo: columns of the *source* of every edge, ``[num_edges]`` each, copied here to spare a question to its owner;
            "raw_id" is one that may be. No name of `columns` is among them.
        ascending: the names of `columns` and `halo` that never fall within a list.
        weight_sums: running sums of some `columns`, which are weights, float64: see `halohop.ops.sum_weights`.
    """

    indptr: Tensor
    indices: Tensor
    edge_id: Tensor | None
    columns: dict[str, Tensor]
    halo: dict[str, Tensor] = field(default_factory=dict)
    ascending: frozenset[str] = frozenset()
    weight_sums: dict[str, Tensor] = field(default_factory=dict)

    @property
    def num_edges(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A partition: its nodes of every type and their in-edges of every relation (empty ones included)."""

    nodes: dict[NodeType, NodePart]
    edges: dict[Relation, EdgePart]
