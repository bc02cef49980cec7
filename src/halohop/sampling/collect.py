"""Fetches the rows of a sampled batch: features, labels, and the user's own ids."""

from dataclasses import replace

from halohop.cluster.graph import Graph
from halohop.sampling.batch import Batch
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import EDGE_ID, RAW_ID


def collect(graph: Graph, batch: Batch) -> Batch:
    """The batch with every column of its nodes and edges, and ``raw_id`` and ``edge_id`` among them.

    One request for everything, so a peer is asked once a batch whatever the number of features.
    """
    queries = [
        RowQuery(table=name, columns=(RAW_ID, *graph.schema.nodes[name].columns), gid=block.gid)
        for name, block in batch.nodes.items()
    ] + [
        RowQuery(table=relation, columns=(EDGE_ID, *graph.schema.edges[relation].columns), gid=block.gid)
        for relation, block in batch.edges.items()
    ]
    rows = graph.fetch(FetchRequest(queries=tuple(queries)))
    columns = {query.table: dict(zip(query.columns, got, strict=True)) for query, got in zip(queries, rows, strict=True)}
    return replace(
        batch,
        nodes={name: replace(block, columns=columns[name]) for name, block in batch.nodes.items()},
        edges={relation: replace(block, columns=columns[relation]) for relation, block in batch.edges.items()},
    )
