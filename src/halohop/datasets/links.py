"""Graphs to predict edges on: the graph that messages pass through, and the edges of each split beside it, as arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from halohop.datasets.splits import EDGE_FRACTIONS, random_masks
from halohop.errors import InputError, SchemaError
from halohop.store.tables import EdgeTable, GraphTables
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

    def with_held_out(self) -> GraphTables:
        """The graph with the edges of all splits, which bool columns ``<split>_mask`` mark.

        Those that were in the graph before come first and are "train", as are all of the relations that only carry messages.
        It is what `halohop train --task link` takes.
        """
        edges = dict(self.tables.edges)
        for number, relation in enumerate(self.relations):
            table, held_out = edges[relation], {}
            for name, split in self.splits.items():
                if name != "train":
                    chosen = split.relation == number
                    held_out[name] = (split.src[chosen], split.dst[chosen], None if split.time is None else split.time[chosen])
            edges[relation] = _marked(table, held_out)
        edges |= {name: _marked(table, {}) for name, table in edges.items() if name not in self.relations}
        return replace(self.tables, edges=edges)


def random_edge_masks(tables: GraphTables, *, fractions: Sequence[float] = EDGE_FRACTIONS, seed: int = 0) -> GraphTables:
    """A graph whose edges have a random split: the bool columns ``train_mask``, ``val_mask`` and ``test_mask``.

    All edges between two nodes are in one split, whatever their direction, relation and number, so none gives another away.

    Args:
        tables: the graph.
        fractions: shares of train, val and test among the pairs of nodes with an edge; what they leave of 1 is in no split.
        seed: the same seed gives the same split.

    Raises:
        InputError: fractions that are not three shares of one whole.

    Example:
        >>> from halohop.datasets import synthetic
        >>> tables = random_edge_masks(synthetic("tiny"))
        >>> sorted(tables.edges["node", "to", "node"].columns)
        ['test_mask', 'train_mask', 'val_mask']
    """
    edges = dict(tables.edges)
    by_types: dict[tuple[str, str], list[Relation]] = {}
    for relation in edges:
        by_types.setdefault((min(relation[0], relation[2]), max(relation[0], relation[2])), []).append(relation)
    for (low_type, high_type), relations in by_types.items():
        pairs = [_pair(edges[relation], relation, low_type, tables.nodes[high_type].num_nodes) for relation in relations]
        distinct, which = torch.cat(pairs).unique(return_inverse=True)
        masks = random_masks(torch.zeros_like(distinct), fractions=fractions, seed=seed)
        for relation, numbers in zip(relations, which.split([len(pair) for pair in pairs]), strict=True):
            chosen = {name: mask[numbers] for name, mask in masks.items()}
            edges[relation] = replace(edges[relation], columns=edges[relation].columns | chosen)
    return replace(tables, edges=edges)


def _pair(table: EdgeTable, relation: Relation, low_type: str, num_high: int) -> torch.Tensor:
    """A number for the two ends of each edge, the same for both directions."""
    src, dst = table.src.long(), table.dst.long()
    if relation[0] == relation[2]:
        src, dst = torch.minimum(src, dst), torch.maximum(src, dst)
    elif relation[0] != low_type:
        src, dst = dst, src
    return src * num_high + dst


def _marked(table: EdgeTable, held_out: dict[str, tuple[Tensor, Tensor, Tensor | None]]) -> EdgeTable:
    """A table with held-out edges behind its own, and masks that mark them."""
    src, dst, columns = [table.src], [table.dst], {name: [column] for name, column in table.columns.items()}
    counts = [table.num_edges, *(len(ends[0]) for ends in held_out.values())]
    for more_src, more_dst, time in held_out.values():
        src.append(more_src)
        dst.append(more_dst)
        if time is not None:
            columns["time"].append(time)
    split = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    masks = {f"{name}_mask": split == number for number, name in enumerate(("train", *held_out))}
    return EdgeTable(
        src=torch.cat(src), dst=torch.cat(dst), columns={name: torch.cat(parts) for name, parts in columns.items()} | masks
    )
