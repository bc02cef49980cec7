"""What the host needs of a batch of a GPU to read rows for it."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.ops.device import DevicePool
from halohop.pyg.attributes import Rows
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock
from halohop.typing import EDGE_ID, TableKey


def block_of(batch: Batch, table: TableKey) -> NodeBlock | EdgeBlock:
    """The nodes of a type, or the edges of a relation."""
    return batch.nodes[table] if isinstance(table, str) else batch.edges[table]


def is_there(rows: Rows) -> bool:
    """Whether a column lies on a device itself."""
    return isinstance(rows.value, Tensor) and rows.value.is_cuda


def near(batch: Batch, tables: Sequence[TableKey], there: DevicePool) -> dict[TableKey, NodeBlock | EdgeBlock]:
    """The blocks of some tables with their ids on the host, which waits for them once; what else they have stays where it is."""
    blocks = {name: block_of(batch, name) for name in tables}
    wanted = []
    for block in blocks.values():
        wanted.append(block.gid)
        if isinstance(block, EdgeBlock):
            wanted.append(block.columns[EDGE_ID])
            wanted.append(block.gid[:0] if block.flips is None else block.flips.mask.long())
    if not wanted:
        return {}
    found = iter(there.bring(ops.join_rows(wanted)).split([len(ids) for ids in wanted]))
    near: dict[TableKey, NodeBlock | EdgeBlock] = {}
    for name, block in blocks.items():
        if isinstance(block, NodeBlock):
            near[name] = replace(block, gid=next(found))
            continue
        gid, ids, mask = (next(found) for _ in range(3))
        flips = None if block.flips is None else replace(block.flips, mask=mask.bool())
        near[name] = replace(block, gid=gid, flips=flips, columns={EDGE_ID: ids})
    return near


def check_place(rows: Rows, pool: DevicePool) -> None:
    """
    Raises:
        InputError: a column lies on another device than that of the pool.
    """
    if isinstance(rows.value, Tensor) and rows.value.is_cuda and not pool.holds(rows.value):
        raise InputError(
            f"{rows.key!r} lies on {rows.value.device}, and batches are made on {pool.device}; move it there, or to the CPU: "
            f"data.to({str(pool.device)!r}, {rows.key!r})"
        )
