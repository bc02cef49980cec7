"""Which rows of columns on disk are worth copies in memory: those of the nodes that are read most."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from halohop import ops
from halohop.partitioning.book import Book
from halohop.store.part import Part
from halohop.telemetry import Counters
from halohop.typing import NodeType, Relation

_BLOCK = 1 << 20  # neighbours that are counted at a time


def hot_rows(
    parts: Mapping[int, Part],
    columns: Mapping[NodeType, Mapping[str, ops.Pieces]],
    neighbors: Mapping[Relation, ops.Pieces],
    book: Book,
    num_bytes: int,
    counters: Counters,
) -> dict[NodeType, dict[str, ops.HotRows]]:
    """Columns on disk with copies of the hottest rows.

    A type of node gets a share of the memory that follows from the bytes that its nodes are read for; a node has copies in all
    columns on disk, or in none. How often nodes are read is stored with them (`NodePart.hotness`), or else follows from how often
    the lists that are here name them.

    Args:
        parts: the partitions that are here, by number.
        columns: of nodes, by type.
        neighbors: what the lists hold, by relation.
        book: who owns what.
        num_bytes: that the copies may take.
        counters: see `halohop.ops.HotRows`.
    """
    if num_bytes == 0:
        return {}
    parts = dict(sorted(parts.items()))
    on_disk = {
        name: {key: rows for key, rows in held.items() if rows.on_disk and rows.row_bytes} for name, held in columns.items()
    }
    widths = {name: sum(rows.row_bytes for rows in held.values()) for name, held in on_disk.items() if held}
    hotness = {name: hotness_of(parts, neighbors, book, name) for name in widths}
    read = {name: float(hotness[name].sum(dtype=np.float64)) * width for name, width in widths.items()}
    made: dict[NodeType, dict[str, ops.HotRows]] = {}
    for name, width in widths.items():
        count = int(num_bytes * read[name] / max(sum(read.values()), 1e-30)) // width
        chosen = _greatest(hotness[name], count)
        if len(chosen):
            rows = torch.from_numpy(_gids(parts, book, name, chosen))
            made[name] = {key: ops.HotRows(source, rows, counters) for key, source in on_disk[name].items()}
    return made


def hotness_of(
    parts: Mapping[int, Part], neighbors: Mapping[Relation, ops.Pieces], book: Book, node_type: NodeType
) -> NDArray[np.float32]:
    """Of the nodes that are here, partition after partition."""
    found = [part.nodes[node_type].hotness for part in parts.values()]
    stored = [column.numpy() for column in found if column is not None]
    if len(stored) == len(found):
        return np.concatenate(stored)
    bounds = book.bounds(node_type)
    counts = torch.zeros(bounds[-1], dtype=torch.int32)
    for relation in (relation for relation in neighbors if book.neighbor_type(relation) == node_type):
        for part in parts:
            first, last = book.bounds(relation)[part : part + 2]
            for begin in range(first, last, _BLOCK):
                edges = torch.arange(begin, min(begin + _BLOCK, last))
                ops.count_keys(ops.gather_rows(neighbors[relation], edges), counts)
    return np.concatenate([counts[bounds[part] : bounds[part + 1]].numpy() for part in parts]).astype(np.float32)


def _greatest(hotness: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Where the greatest are, ascending; nodes that are never read are none of them."""
    count = min(count, int(np.count_nonzero(hotness)))
    if count == 0:
        return np.empty(0, np.int64)
    return np.sort(np.argpartition(hotness, len(hotness) - count)[len(hotness) - count :])


def _gids(parts: Mapping[int, Part], book: Book, node_type: NodeType, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The gids of nodes by their places among those that are here."""
    sizes = np.array([part.nodes[node_type].num_nodes for part in parts.values()])
    begins = np.cumsum(sizes) - sizes
    offsets = np.array([book.offset(node_type, index) for index in parts])
    held = np.searchsorted(begins + sizes, places, side="right")
    gids: NDArray[np.int64] = places - begins[held] + offsets[held]
    return gids
