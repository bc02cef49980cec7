"""The lists of one partition, as they are stored: however its edges were found."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.partitioning.building.numbering import INT32_MAX, id_dtype
from halohop.store.part import EdgePart
from halohop.store.schema import ColumnSpec
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


def source_dtype(ends: tuple[int, int]) -> torch.dtype:
    """Of raw ids of sources as they are stored along the edges; `ends` are the least and the greatest of the whole node type."""
    low, high = ends
    return torch.int32 if low >= -INT32_MAX and high <= INT32_MAX else torch.int64


def is_number(column: Tensor) -> bool:
    """Whether a column may hold times."""
    return _holds_numbers(ColumnSpec.of(column))


def check_halo(halo: Sequence[str], columns: Iterable[Mapping[str, ColumnSpec]]) -> None:
    """Whether columns of nodes can be stored along the edges.

    Args:
        halo: their names.
        columns: of every node type.

    Raises:
        InputError: a name that is no column of one number per node.
    """
    if isinstance(halo, str):
        raise InputError(f"halo={halo!r} is a text; give a list of names, such as ({halo!r},)")
    specs = [(name, spec) for of_type in columns for name, spec in of_type.items()]
    for name in halo:
        having = [spec for known, spec in specs if known == name]
        if name != SOURCE_ID and not (having and all(map(_holds_numbers, having))):
            why = "is not one number per node" if having else "is no column of nodes"
            numbers = sorted({known for known, spec in specs if _holds_numbers(spec)})
            raise InputError(f"halo names {name!r}, which {why}; it can name {[SOURCE_ID, *numbers]}")


def _holds_numbers(spec: ColumnSpec) -> bool:
    return not spec.shape and not spec.sparse and getattr(torch, spec.dtype) in ops.TIME_DTYPES
