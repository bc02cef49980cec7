"""The in-edges of one relation in the partitions of this process, and the drawing of neighbours from them."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from halohop import ops
from halohop.store.requests import Draw, HopAnswer, HopQuery
from halohop.telemetry import Counters
from halohop.typing import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Answers hop queries about the destinations that this process owns.

    Args:
        relation: which edges these are.
        indptr, indices: as in `EdgePart`, a piece per partition.
        edge_bounds: gids of the partitions' edges.
        dst_raw: raw ids of the destinations; None where raw id and gid are the same.
    """

    relation: Relation
    indptr: ops.Pieces
    indices: ops.Pieces
    edge_bounds: Sequence[int]
    dst_raw: ops.Pieces | None

    def sample(self, query: HopQuery, draw: Draw, pool: ops.Pool, counters: Counters) -> HopAnswer:
        """Draws neighbours; the same for every partitioning, since a draw is keyed by raw id and made by list position.

        Raises:
            IdError: a queried node is not owned by this process.
        """
        with counters.span("draw"):
            counts, edge_gid = self._draw(query, draw, pool)
        with counters.span("load"):
            src_gid = ops.gather_rows(self.indices, edge_gid, pool=pool)
        return HopAnswer(counts=counts, src_gid=src_gid, edge_gid=edge_gid)

    def _draw(self, query: HopQuery, draw: Draw, pool: ops.Pool) -> tuple[Tensor, Tensor]:
        raw = query.dst_gid if self.dst_raw is None else ops.gather_rows(self.dst_raw, query.dst_gid, pool=pool)
        key = ops.stream_key(seed=draw.seed, epoch=draw.epoch, batch=draw.batch, hop=draw.hop, relation=self.relation)
        return ops.sample_neighbors(
            self.indptr,
            query.dst_gid,
            raw,
            query.fanout,
            key,
            replace=draw.replace,
            edge_bounds=self.edge_bounds,
            pool=pool,
        )
