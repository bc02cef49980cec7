"""Fetches the rows of a sampled batch: features, labels, and the user's own ids."""

import warnings
from dataclasses import replace

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import AnyGraph
from halohop.errors import InputError
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock
from halohop.sampling.columns import ALL, Columns
from halohop.store.requests import FetchReply, FetchRequest, RowQuery
from halohop.store.schema import Schema
from halohop.typing import EDGE_ID, RAW_ID, RAW_TEXT, NodeType, Relation, TableKey


def collect(graph: AnyGraph, batch: Batch, columns: Columns = ALL) -> Batch:
    """The batch with the user's ids of its nodes and edges and with their columns, as far as they are asked for.

    One request for everything, so a peer is asked once a batch whatever the number of features. A flip has its original's rows.
    Columns of nodes that the sampler itself has made stay.
    Empty places of a padded batch have ids -1, and zeros else.
    A batch that has its rows already stays as it is.
    """
    if batch.is_collected:
        return batch
    of_nodes = [query for name, block in batch.nodes.items() if (query := _node_query(graph, name, block, columns)) is not None]
    of_edges = [_edge_queries(graph, relation, block, columns) for relation, block in batch.edges.items()]
    queries = (*of_nodes, *(query for queries in of_edges for query in queries))
    reply = graph.fetch_stored(FetchRequest(queries=queries)) if queries else FetchReply(rows=(), sparse=())
    rows_of_nodes = {query.table: reply.columns(number, query.columns) for number, query in enumerate(of_nodes)}
    nodes, edges = {}, {}
    for name, block in batch.nodes.items():
        found = rows_of_nodes.get(name, {})
        raw = found.setdefault(RAW_ID, block.gid) if columns.node_ids else None
        if block.padded and raw is not None:
            assert isinstance(raw, Tensor)
            ops.fill_missing(raw, block.gid, -1)
        nodes[name] = _with(block, found) if found else block
    rows = iter(reply.rows[len(of_nodes) :])
    for asked, (relation, listed) in zip(of_edges, batch.edges.items(), strict=True):
        if asked:
            merged = listed.columns | _merged(graph, listed, asked, [next(rows) for _ in asked])
            listed = replace(listed, columns=merged)
        if listed.padded and EDGE_ID in listed.columns:
            ops.fill_missing(listed.columns[EDGE_ID], listed.gid, -1)
        edges[relation] = listed
    return replace(batch, nodes=nodes, edges=edges, is_collected=True)


def checked_layout(layout: torch.layout) -> torch.layout:
    """The layout, if `laid_out` can make it.

    Raises:
        InputError: it cannot.
    """
    if layout not in (torch.strided, torch.sparse_csr):
        raise InputError(f"layout={layout} is none of torch.strided (dense) and torch.sparse_csr")
    if layout == torch.sparse_csr:
        with warnings.catch_warnings():  # torch warns once in a process that CSR is young; who asks for it knows
            warnings.filterwarnings("ignore", "Sparse CSR tensor support")
            ops.SparseRows.of(torch.zeros(1, 1)).csr()
    return layout


def laid_out(batch: Batch, layout: torch.layout, graph: AnyGraph) -> Batch:
    """The batch with rows as users have them: in their dtypes, those that are stored sparse among the columns, dense
    (`torch.strided`) or as tensors in `torch.sparse_csr`."""
    nodes, edges = {}, {}
    for name, block in batch.nodes.items():
        if block.sparse or name in graph.narrow_tables:
            made = {key: rows.dense(graph.pool) if layout == torch.strided else rows.csr() for key, rows in block.sparse.items()}
            nodes[name] = replace(block, columns=_as_given(graph, name, block) | made, sparse={})
    for relation, listed in batch.edges.items():
        if relation in graph.narrow_tables:
            edges[relation] = replace(listed, columns=_as_given(graph, relation, listed))
    return replace(batch, nodes=batch.nodes | nodes, edges=batch.edges | edges) if nodes or edges else batch


def _as_given(graph: AnyGraph, table: TableKey, block: NodeBlock | EdgeBlock) -> dict[str, Tensor]:
    specs, places = graph.schema.table(table).columns, block.gid if block.padded else None
    return {
        name: specs[name].as_given(rows, graph.pool, places=places) if name in specs else rows
        for name, rows in block.columns.items()
    }


def _with(block: NodeBlock, found: dict[str, Tensor | ops.SparseRows]) -> NodeBlock:
    dense = {name: column for name, column in found.items() if isinstance(column, Tensor)}
    sparse = {name: column for name, column in found.items() if not isinstance(column, Tensor)}
    return replace(block, columns=block.columns | dense, sparse=sparse)


def _names(graph: AnyGraph, table: TableKey, columns: Columns) -> list[str]:
    """The columns of a table that the batch gets."""
    return [name for name in columns.of(table, graph.schema.table(table).columns) if name != RAW_TEXT]


def columns_of_batches(schema: Schema, table: TableKey) -> list[str]:
    """The columns of a table that batches may have: no model learns from ids that are strings."""
    return [column for column in schema.table(table).columns if column != RAW_TEXT]


def _node_query(graph: AnyGraph, name: NodeType, block: NodeBlock, columns: Columns) -> RowQuery | None:
    """For the rows of a block's nodes; None where the batch gets none, and their gids are the user's ids."""
    ids = (RAW_ID,) if columns.node_ids and name not in graph.identities else ()
    names = (*ids, *_names(graph, name, columns))
    return RowQuery(table=name, columns=names, gid=block.gid, padded=block.padded) if names else None


def _edge_queries(graph: AnyGraph, relation: Relation, block: EdgeBlock, columns: Columns) -> list[RowQuery]:
    """For the rows of a block's edges, as far as they are not there; where some are flips, one query for the others and one for
    these."""
    ids = (EDGE_ID,) if columns.edge_ids and EDGE_ID not in block.columns else ()
    names = (*ids, *_names(graph, relation, columns))
    if not names:
        return []
    if block.flips is None:
        return [RowQuery(table=relation, columns=names, gid=block.gid, padded=block.padded)]
    tables = (relation, block.flips.relation)
    return [
        RowQuery(table=table, columns=names, gid=ops.gather_rows(block.gid, places, pool=graph.pool))
        for table, places in zip(tables, block.own_and_flipped(), strict=True)
    ]


def _merged(graph: AnyGraph, block: EdgeBlock, queries: list[RowQuery], answers: list[tuple[Tensor, ...]]) -> dict[str, Tensor]:
    """The columns of a block in the order of its edges, by name; where some are flips, in the users' dtypes: each relation may
    be stored in a way of its own."""
    if not queries:
        return {}
    names = queries[0].columns
    if block.flips is None:
        return dict(zip(names, answers[0], strict=True))
    merged = []
    given = [graph.as_given(query, rows) for query, rows in zip(queries, answers, strict=True)]
    for own, flipped in zip(*given, strict=True):
        out = graph.pool.empty((len(block.gid), *own.shape[1:]), own.dtype)
        for values, positions in zip((own, flipped), block.own_and_flipped(), strict=True):
            ops.scatter_rows(values, positions, out, pool=graph.pool)
        if block.padded:
            ops.fill_missing(out, block.gid)
        merged.append(out)
    return dict(zip(names, merged, strict=True))
