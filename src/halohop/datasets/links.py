"""Graphs to predict edges on: the graph that messages pass through, and the edges of each split beside it, as arrays."""

from dataclasses import dataclass

import torch
from torch import Tensor

from halohop.errors import InputError, SchemaError
from halohop.store.tables import GraphTables
from halohop.typing import Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSplit:
    """Edges to learn from, or to predict, in the order of their file.

    Args:
        src, dst: rows in the node tables, int64 ``[n]``; rows of a matrix with a vector per node, too.
        src_raw, dst_raw: the same nodes by the user's ids, int64 ``[n]``, which is what loaders take.
        relation: position of each edge's relation in `LinkTables.relations`, int64 ``[n]``.
        time: when each edge happens, int64 ``[n]``; None where the data set has no times.

    Raises:
        InputError: an array of another length or dtype.
    """

    src: Tensor
    dst: Tensor
    src_raw: Tensor
    dst_raw: Tensor
    relation: Tensor
    time: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("src", "dst", "src_raw", "dst_raw", "relation", "time"):
            values = getattr(self, name)
            if values is not None and (values.dtype != torch.int64 or values.shape != (len(self.src),)):
                raise InputError(
                    f"{name} is {values.dtype} of shape {tuple(values.shape)}, expected int64 of shape ({len(self.src)},)"
                )

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTables:
    """A graph, and the splits "train", "val" and "test" of edges of its relations.

    Args:
        tables: the graph that messages pass through; edges of "val" and "test" are not in it unless a reader was asked for them.
        relations: those that are predicted, the first of ``tables.edges``; what `EdgeSplit.relation` counts. Those behind them
            (inverses) only carry messages.
        splits: the edges of each split.

    Raises:
        SchemaError: the relations are not the first ones of the graph.
    """

    tables: GraphTables
    relations: tuple[Relation, ...]
    splits: dict[str, EdgeSplit]

    def __post_init__(self) -> None:
        if tuple(self.tables.edges)[: len(self.relations)] != self.relations:
            raise SchemaError(f"relations {self.relations} are not the first of the graph, which has {tuple(self.tables.edges)}")

    def known(self) -> tuple[Tensor, Tensor, Tensor]:
        """Source, relation and destination of the edges of all splits: what filtered ranking takes for true."""
        parts = self.splits.values()
        return (
            torch.cat([split.src for split in parts]),
            torch.cat([split.relation for split in parts]),
            torch.cat([split.dst for split in parts]),
        )
