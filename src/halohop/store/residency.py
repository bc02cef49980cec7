"""Which arrays of mapped partitions fit into memory, and what the system is advised of each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from halohop.files.mapping import read_by_rows
from halohop.store.part import Part
from halohop.typing import TableKey

Key = tuple[TableKey, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """What of some partitions is in memory.

    Args:
        disk_arrays: addresses of the arrays that are mapped from files and do not fit.
        hot_bytes: of memory for copies of those rows of theirs that are read most.
        stored_arrays: addresses of all arrays that are mapped from files of the data set, which never change: they may be copied.
    """

    disk_arrays: frozenset[int] = frozenset()
    hot_bytes: int = 0
    stored_arrays: frozenset[int] = frozenset()


IN_MEMORY = Residency()


def residency_of(parts: Mapping[int, Part], memory: int, hot_bytes: int = 0) -> Residency:
    """Which arrays fit; the system is advised that rows of the others are read in no order.

    Of arrays of all sizes, those of the small ones stay in memory, as many as there is room for: that keeps as many of them there
    as possible, and what every hop reads (where lists begin, raw ids) is smaller than features. What belongs to one column stays
    or goes together, in all partitions.

    Args:
        parts: mapped from files, by number.
        memory: bytes that they may take.
        hot_bytes: as of `Residency`.
    """
    sizes: dict[Key, int] = {}
    found: dict[Key, list[Tensor]] = {}
    for part in parts.values():
        for key, array in _arrays(part):
            sizes[key] = sizes.get(key, 0) + array.nbytes
            found.setdefault(key, []).append(array)
    addresses, taken = set(), 0
    for key in sorted(sizes, key=lambda key: sizes[key]):
        taken += sizes[key]
        if taken <= memory:
            continue
        for array in found[key]:
            if array.nbytes:
                read_by_rows(array.data_ptr(), array.nbytes)
                addresses.add(array.data_ptr())
    stored = frozenset(array.data_ptr() for arrays in found.values() for array in arrays if array.nbytes)
    return Residency(disk_arrays=frozenset(addresses), hot_bytes=hot_bytes, stored_arrays=stored)


def _arrays(part: Part) -> Iterator[tuple[Key, Tensor]]:
    groups: list[tuple[TableKey, str, Mapping[str, Tensor | None]]] = []
    for name, nodes in part.nodes.items():
        ids = {"raw_id": nodes.raw_id, "block": nodes.block, "hotness": nodes.hotness}
        groups += [(name, "", ids), (name, "column", nodes.columns)]
        for column, rows in nodes.sparse.items():
            yield from (((name, "sparse", column), array) for array in (rows.indptr, rows.indices, rows.values))
    for relation, edges in part.edges.items():
        lists = {"indptr": edges.indptr, "indices": edges.indices, "edge_id": edges.edge_id}
        groups += [(relation, "", lists), (relation, "column", edges.columns), (relation, "halo", edges.halo)]
        groups += [(relation, "weight sums", edges.weight_sums)]
    for table, kind, arrays in groups:
        yield from (((table, kind, name), array) for name, array in arrays.items() if array is not None)
