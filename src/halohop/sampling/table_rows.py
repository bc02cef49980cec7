"""Rows of tables that batches get along with their columns; see `halohop.tables`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.ops.device import DevicePool
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock
from halohop.sampling.columns import Columns
from halohop.typing import TableKey

Block = TypeVar("Block", NodeBlock, EdgeBlock)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesOfBatches:
    """The tables whose rows batches get.

    Args:
        names: by node type and relation.
    """

    names: dict[TableKey, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, columns: Mapping[TableKey, Sequence[str]]) -> "TablesOfBatches":
        """All tables of the graph that have a row for each node of a type, or each edge of a relation, and no column's name."""
        names: dict[TableKey, tuple[str, ...]] = {}
        for spec in (table.spec for table in graph.tables.list()):
            if spec.key is not None and spec.name not in columns[spec.key]:
                names[spec.key] = (*names.get(spec.key, ()), spec.name)
        return cls(names=names)

    def named(self, columns: Columns) -> "TablesOfBatches":
        """Those that are named among the columns of batches."""
        chosen = dict[TableKey, tuple[str, ...]]([*(columns.nodes or {}).items(), *(columns.edges or {}).items()])
        named = {key: tuple(name for name in known if name in chosen.get(key, ())) for key, known in self.names.items()}
        return TablesOfBatches(names={key: some for key, some in named.items() if some})

    def listed(self) -> list[str]:
        """The names of all."""
        return sorted(name for names in self.names.values() for name in names)

    def added(self, graph: Graph, batch: Batch) -> Batch:
        """The batch with their rows, as they are now; those of empty places are zeros. All owners are asked at once.

        Raises:
            InputError: edges of another relation are among those whose rows are wanted.
        """
        blocks: list[tuple[TableKey, NodeBlock | EdgeBlock]] = [*batch.nodes.items(), *batch.edges.items()]
        wanted = [(key, name, block) for key, block in blocks for name in self.names.get(key, ())]
        if not wanted:
            return batch
        for key, name, block in wanted:
            if isinstance(block, EdgeBlock) and block.flips is not None and block.flips.relation != key:
                raise InputError(
                    f"batches have edges of {block.flips.relation} among those of {key!r}, and table {name!r} has no rows of "
                    "them; leave it out, or draw with another subgraph_type"
                )
        there = graph.on_device
        gids = {key: block.gid for key, _, block in wanted}
        if there is not None:
            gids = _on_host(gids, there.pool)
        places = [_places(gids[key]) if block.padded else None for key, _, block in wanted]
        asked = [(name, gids[key] if at is None else gids[key][at]) for (key, name, _), at in zip(wanted, places, strict=True)]
        found = graph.tables.read_later(asked).result()
        rows: dict[TableKey, dict[str, Tensor]] = {}
        for (key, name, _), at, some in zip(wanted, places, found, strict=True):
            spread = some if at is None else _spread(some, at, len(gids[key]))
            rows.setdefault(key, {})[name] = spread if there is None else there.pool.put(spread)
        return replace(
            batch,
            nodes={key: _with(block, rows.get(key, {})) for key, block in batch.nodes.items()},
            edges={key: _with(block, rows.get(key, {})) for key, block in batch.edges.items()},
        )


def _on_host(gids: Mapping[TableKey, Tensor], pool: DevicePool) -> dict[TableKey, Tensor]:
    """The ids by which owners of tables are asked; the host waits for all of them at once."""
    near = pool.bring(torch.cat(list(gids.values()))).split([len(gid) for gid in gids.values()])
    return dict(zip(gids, near, strict=True))


def _places(gid: Tensor) -> Tensor:
    """The places that are not empty."""
    return (gid >= 0).nonzero().view(-1)


def _spread(rows: Tensor, places: Tensor, count: int) -> Tensor:
    return torch.zeros((count, *rows.shape[1:]), dtype=rows.dtype).index_copy_(0, places, rows)


def _with(block: Block, rows: dict[str, Tensor]) -> Block:
    return replace(block, columns=block.columns | rows) if rows else block
