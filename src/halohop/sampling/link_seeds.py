"""Edges as seeds: what a link task predicts, the negatives among them, and where sampling begins around them."""

from dataclasses import dataclass, field, replace

from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.ops.device import DevicePool
from halohop.store.forms import AnyIds, Ids, Times
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Nodes from which sampling begins; equal ones of one tree are one node of the batch.

    Args:
        node_type: their type.
        gid: int64 ``[n]``.
        tree: the number of the tree that each belongs to, int64 ``[n]``; of no meaning where all share one subgraph.
    """

    node_type: NodeType
    gid: Tensor
    tree: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSeeds:
    """The edges that a batch is about, positives first, and which batch it is.

    Without negatives, or with binary ones, source i and destination i are a pair. Triplets are positive pairs and, for each in
    turn, the same number of further destinations. An edge, its ends and its negatives make one tree.

    Args:
        relation: of the edges.
        src_gid: int64 ``[num_src]``.
        dst_gid: int64 ``[num_dst]``.
        input_id: where the user's `edge_label_index` holds the positives, int64 ``[num_pos]``.
        epoch, index: the batch's place; with the seed of the sampler they determine every draw.
        triplet: whether the negatives are destinations alone.
        label: of the positives and then of the binary negatives, ``[num_src, ...]``; None without labels.
        time: nothing later may be sampled around a positive, int64 or float64 ``[num_pos]``; None without times.
        excluded: edges that are not sampled, by relation: gids, int64, ascending.
    """

    relation: Relation
    src_gid: AnyIds
    dst_gid: AnyIds
    input_id: Ids
    epoch: int
    index: int
    triplet: bool = False
    label: Tensor | None = None
    time: Times | None = None
    excluded: dict[Relation, AnyIds] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pos, src, dst = self.num_pos, len(self.src_gid), len(self.dst_gid)
        fits = pos == src and dst % max(pos, 1) == 0 if self.triplet else src == dst
        labels = src if self.label is None else len(self.label)
        times = pos if self.time is None else len(self.time)
        if not (fits and pos <= min(src, dst) and (pos or not dst) and src == labels and pos == times):
            raise InputError(
                f"seeds of links do not fit together: {pos} positives, {src} sources, {dst} destinations, "
                f"{labels} labels, {times} times"
            )

    @property
    def num_pos(self) -> int:
        return len(self.input_id)

    @property
    def num_neg(self) -> int:
        return len(self.dst_gid) - self.num_pos

    def starts(self, node_type: NodeType) -> Tensor:
        """None: every node of a link task is an end, so that one that occurs twice is one node of the batch."""
        return self.src_gid[:0]

    @property
    def ends(self) -> tuple[End, ...]:
        """The sources, then the destinations."""
        src_type, _, dst_type = self.relation
        src, dst, positives = self.src_gid, self.dst_gid, self.num_pos
        src_tree = ops.link_trees(positives, len(src) - positives, triplet=False, beside=src)
        dst_tree = ops.link_trees(positives, self.num_neg, triplet=self.triplet, beside=dst)
        return End(node_type=src_type, gid=src, tree=src_tree), End(node_type=dst_type, gid=dst, tree=dst_tree)

    def put(self, pool: DevicePool) -> "LinkSeeds":
        """The same on the device of a pool."""
        return replace(
            self,
            src_gid=pool.put(self.src_gid),
            dst_gid=pool.put(self.dst_gid),
            input_id=pool.put(self.input_id),
            label=None if self.label is None else pool.put(self.label),
            time=None if self.time is None else pool.put(self.time),
            excluded={relation: pool.put(gid) for relation, gid in self.excluded.items()},
        )
