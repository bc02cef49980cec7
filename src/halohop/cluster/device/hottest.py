"""Which rows a cache on GPUs holds: the hottest, as many as have room with the table that says where they are."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from halohop.ops.cached_rows import HotPlaces
from halohop.typing import NodeType


def hottest(
    hotness: Callable[[NodeType], Tensor], widths: Mapping[NodeType, int], num_bytes: int, *, divided: bool = False
) -> dict[NodeType, Tensor]:
    """The rows of each node type that are copied, int64, ascending; all of a type where they have room, and none of those that
    are left out. A type's share follows from the bytes that are read of it.

    Args:
        hotness: how often each node of a type is read, ``[n]``.
        widths: bytes of a row, in all columns that are cached together.
        num_bytes: for rows, and for the tables that say where they are; a type of which all rows are here needs none, unless
            several devices hold them (`divided`).
    """
    widths = {name: width for name, width in widths.items() if width}
    if num_bytes <= 0:
        return {}
    known = {name: hotness(name) for name in widths}
    found: dict[NodeType, Tensor] = {}
    seen: set[NodeType] = set()
    left = num_bytes
    for name in sorted(widths, key=lambda name: len(known[name]) * widths[name]):  # what a small type does not need is others'
        reads = {other: float(known[other].sum(dtype=torch.float64)) * widths[other] for other in widths if other not in seen}
        share = left if len(reads) == 1 else int(left * reads[name] / max(sum(reads.values()), 1e-30))
        seen.add(name)
        total, table = len(known[name]), HotPlaces.num_bytes(len(known[name]))
        whole = total * widths[name] + (table if divided else 0) <= share
        count = total if whole else min(max(share - table, 0) // widths[name], total)
        if count:
            found[name] = known[name].topk(count).indices.sort().values
            left -= count * widths[name] + (0 if whole and not divided else table)
    return found
