"""Which edges train, validate and test a model that predicts them: bool columns ``<split>_mask`` of the edges."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from halohop.datasets.splits import EDGE_FRACTIONS, TIME_FRACTIONS, random_masks, time_masks
from halohop.errors import SchemaError
from halohop.store.tables import EdgeTable, GraphTables
from halohop.typing import Relation


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


def timed_edge_masks(tables: GraphTables, column: str, *, fractions: Sequence[float] = TIME_FRACTIONS) -> GraphTables:
    """A graph whose edges are split by time: those of val are later than those of train, those of test are the last.

    Args:
        tables: the graph.
        column: of the edges' times; relations without it stay as they are.
        fractions: shares of train, val and test, per relation, as of `time_masks`.

    Raises:
        SchemaError: no relation has such a column.
        InputError: as of `time_masks`.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> edges = EdgeTable(src=torch.tensor([0, 1, 2]), dst=torch.tensor([1, 2, 0]), columns={"when": torch.tensor([9, 5, 7])})
        >>> tables = GraphTables(nodes={"n": NodeTable(num_nodes=3)}, edges={("n", "to", "n"): edges})
        >>> timed_edge_masks(tables, "when", fractions=(0.4, 0.3, 0.3)).edges["n", "to", "n"].columns["test_mask"]
        tensor([ True, False, False])
    """
    timed = {relation: table for relation, table in tables.edges.items() if column in table.columns}
    if not timed:
        known = sorted({name for table in tables.edges.values() for name in table.columns})
        raise SchemaError(f"no relation has a column {column!r} of times; columns of edges: {known}")
    masks = {relation: time_masks(table.columns[column], fractions=fractions) for relation, table in timed.items()}
    split = {relation: replace(table, columns=table.columns | masks[relation]) for relation, table in timed.items()}
    return replace(tables, edges=tables.edges | split)


def _pair(table: EdgeTable, relation: Relation, low_type: str, num_high: int) -> Tensor:
    """A number for the two ends of each edge, the same for both directions."""
    src, dst = table.src.long(), table.dst.long()
    if relation[0] == relation[2]:
        src, dst = torch.minimum(src, dst), torch.maximum(src, dst)
    elif relation[0] != low_type:
        src, dst = dst, src
    return src * num_high + dst
