"""How features are scaled: as they are stored, from every source; `normalize_rows` divides them where that is asked for."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from halohop.datasets.staging import CHUNK_BYTES, Staging
from halohop.errors import InputError
from halohop.ops import SparsePieces, SparseRows
from halohop.store.tables import GraphTables, NodeTable, is_dense
from halohop.typing import NodeType

_SAMPLE = 1_000


def normalize_rows(
    tables: GraphTables, node_types: Iterable[NodeType] | None = None, *, staging: Staging | None = None
) -> GraphTables:
    """A graph whose features ``x`` sum to one in each row (without their signs); rows of zeros stay as they are.

    Integers become float32. It is what counts of words want: on raw ones GraphSAGE learns less, or not at all.

    Args:
        tables: the graph.
        node_types: whose features; None takes all that have any.
        staging: where dense features are collected; by default in memory.

    Raises:
        InputError: features are complex.

    Example:
        >>> words = NodeTable(num_nodes=2, columns={"x": torch.tensor([[1, 3], [0, 0]])})
        >>> normalize_rows(GraphTables(nodes={"node": words}, edges={})).nodes["node"].columns["x"].tolist()
        [[0.25, 0.75], [0.0, 0.0]]
    """
    nodes = dict(tables.nodes)
    for name in tables.nodes if node_types is None else node_types:
        if (x := nodes[name].columns.get("x")) is not None and x.is_complex():
            raise InputError(f"features `x` of {name!r} are {x.dtype}, which cannot be divided by their sum; leave out normalize")
        nodes[name] = _normalized(nodes[name], staging or Staging(), f"nodes.{name}.normalized")
    return replace(tables, nodes=nodes)


def scales(tables: GraphTables) -> list[str]:
    """How features are scaled, a line for a reader for each node type that has any; judged by 1,000 rows of each.

    Example:
        >>> words = NodeTable(num_nodes=2, columns={"x": torch.tensor([[1, 0], [0, 3]])})
        >>> scales(GraphTables(nodes={"node": words}, edges={}))[0][:69]
        'features taken as stored: x of node, which holds counts; --normalize,'
    """
    return [line for name, table in tables.nodes.items() if (line := _line(name, table.columns.get("x")))]


def gaps(tables: GraphTables) -> list[str]:
    """Describes features that are NaN or infinite: one line for each such column, which names its first such row.

    Example:
        >>> holes = NodeTable(num_nodes=2, columns={"x": torch.tensor([[1.0], [torch.nan]])})
        >>> gaps(GraphTables(nodes={"node": holes}, edges={}))
        ['features of node are not finite: x holds nan in row 1; models learn nothing from such rows, so fill them']
    """
    found = []
    columns = [(name, "x", table.columns.get("x")) for name, table in tables.nodes.items()]
    columns += [(" ".join(relation), "edge_attr", table.columns.get("edge_attr")) for relation, table in tables.edges.items()]
    for name, key, column in columns:
        if column is not None and is_dense(column) and column.is_floating_point():
            for row, value in _not_finite(column):
                remedy = "models learn nothing from such rows, so fill them"
                found.append(f"features of {name} are not finite: {key} holds {value} in row {row}; {remedy}")
    return found


def _not_finite(column: Tensor) -> Iterator[tuple[int, float]]:
    """The first row, and its value."""
    step = max(CHUNK_BYTES // max(column[:1].nbytes, 1), 1)
    for first in range(0, len(column), step):
        rows = column[first : first + step]
        wide = rows.float() if rows.element_size() == 1 else rows
        wrong = (~wide.isfinite()).nonzero()
        if len(wrong):
            yield first + int(wrong[0][0]), float(rows[tuple(wrong[0])])
            return


def _line(name: NodeType, x: Tensor | None) -> str | None:
    if x is None or x.dim() != 2 or not x.numel() or x.is_complex():
        return None
    picked = torch.linspace(0, len(x) - 1, min(len(x), _SAMPLE), dtype=torch.float64).long()
    rows = (x[picked] if is_dense(x) else SparsePieces([SparseRows.of(x)], [0, len(x)]).take(picked).dense()).double()
    sums = rows.sum(dim=1)
    if (rows >= 0).all() and ((sums - 1).abs() < 0.01)[sums > 0].all() and x.is_floating_point():
        return f"features divided by their sum: x of {name}"
    line = f"features taken as stored: x of {name}"
    if (rows >= 0).all() and (rows == rows.round()).all():
        line += ", which holds counts; --normalize, or normalize = true in graph.toml, divides each row by its sum"
    return line


def _normalized(table: NodeTable, staging: Staging, name: str) -> NodeTable:
    x = table.columns.get("x")
    if x is None:
        return table
    if not is_dense(x):
        return replace(table, columns=table.columns | {"x": _divided(x if x.is_floating_point() else x.float())})
    dense, parts = x, [*staging.slices(len(x), 4 * x[:1].numel())] if x.dim() > 1 else [slice(None)]
    return replace(table, columns=table.columns | {"x": staging.column(name, lambda: (_shares(dense[part]) for part in parts))})


def _shares(x: Tensor) -> Tensor:
    """Dense rows, each divided by the sum of its entries' sizes."""
    x = x if x.is_floating_point() else x.float()
    total = x.float().abs().sum(dim=-1, keepdim=True)
    return x / total.masked_fill_(total == 0, 1).to(x.dtype)


def _divided(x: Tensor) -> Tensor:
    """Sparse rows, each divided by the sum of its entries' sizes."""
    x = x.to_sparse_coo().coalesce()
    row = x.indices()[0]
    total = torch.zeros(len(x)).index_add_(0, row, x.values().float().abs())
    values = x.values() / total.masked_fill_(total == 0, 1).to(x.dtype)[row]
    return torch.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True, check_invariants=False)
