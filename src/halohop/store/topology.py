"""The in-edges of one relation in one partition, and the drawing of neighbours from them."""

from dataclasses import dataclass

from torch import Tensor

from halohop import ops
from halohop.store.part import EdgePart
from halohop.store.requests import Draw, HopAnswer, HopQuery
from halohop.typing import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Answers hop queries about the destinations that one partition owns.

    Args:
        relation: which edges these are.
        edges: their arrays.
        dst_raw: raw ids of the destinations by lid; None where raw id and gid are the same.
        dst_offset, edge_offset: gid of the partition's first destination and first edge.
    """

    relation: Relation
    edges: EdgePart
    dst_raw: Tensor | None
    dst_offset: int
    edge_offset: int

    def sample(self, query: HopQuery, draw: Draw, pool: ops.Pool) -> HopAnswer:
        """Draws neighbours; the same for every partitioning, since a draw is keyed by raw id and made by list position.

        Raises:
            IdError: a queried node is not owned by this partition.
        """
        rows = query.dst_gid - self.dst_offset if self.dst_offset else query.dst_gid
        raw = query.dst_gid if self.dst_raw is None else ops.gather_rows(self.dst_raw, rows, pool=pool)
        key = ops.stream_key(seed=draw.seed, epoch=draw.epoch, batch=draw.batch, hop=draw.hop, relation=self.relation)
        counts, positions = ops.sample_neighbors(self.edges.indptr, rows, raw, query.fanout, key, replace=draw.replace, pool=pool)
        src_gid = ops.gather_rows(self.edges.indices, positions, pool=pool)
        edge_gid = positions.add_(self.edge_offset) if self.edge_offset else positions
        return HopAnswer(counts=counts, src_gid=src_gid, edge_gid=edge_gid)
