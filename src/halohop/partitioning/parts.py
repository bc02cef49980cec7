"""The lists of one partition, as they are stored: however its edges were found."""

import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.numbering import INT32_MAX, id_dtype
from halohop.store.part import EdgePart
from halohop.typing import SOURCE_ID


def edge_part(
    *,
    indptr: Tensor,
    src_gid: Tensor,
    num_sources: int,
    edge_id: Tensor | None,
    columns: dict[str, Tensor],
    halo: dict[str, Tensor],
) -> EdgePart:
    """A partition's edges of a relation, given list after list.

    Args:
        indptr, edge_id, columns, halo: as of `EdgePart`.
        src_gid: gids of the sources, int32 or int64 ``[num_edges]``.
        num_sources: nodes of their type in the whole graph.
    """
    times = {name: column for name, column in (columns | halo).items() if name != SOURCE_ID and is_number(column)}
    return EdgePart(
        indptr=indptr,
        indices=src_gid.to(id_dtype(num_sources)),
        edge_id=edge_id,
        columns=columns,
        halo=halo,
        ascending=frozenset(name for name, column in times.items() if ops.never_falls(indptr, column)),
    )


def source_ids(raw: Tensor, ends: tuple[Tensor, Tensor]) -> Tensor:
    """Raw ids of sources as they are stored along the edges; `ends` are the least and the greatest of the whole node type."""
    low, high = ends
    return raw.to(torch.int32 if low >= -INT32_MAX and high <= INT32_MAX else torch.int64)


def is_number(column: Tensor) -> bool:
    """Whether a column may hold times."""
    return column.dim() == 1 and column.dtype in ops.TIME_DTYPES
