"""Batches of whole sets of nodes, written down a second time: clusters, and the subgraphs of GraphSAINT. Slow and obvious."""

from collections.abc import Mapping, Sequence
from typing import Any

from halohop.store.tables import GraphTables
from halohop.testing.oracle import OracleBatch
from halohop.testing.oracle_subgraph import induced_edges, raw_ids
from halohop.typing import NODE, NodeType


def set_batch(tables: GraphTables, nodes: Mapping[NodeType, Sequence[int]]) -> OracleBatch:
    """The batch of these nodes, by raw id, and of all edges among them.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> set_batch(ring(5), {"node": [3, 2]}).edges["node", "to", "node"]
        [(1, 0, 2)]
    """
    listed = {name: list(nodes.get(name, [])) for name in tables.nodes}
    edges = induced_edges(tables, {name: [(0, raw) for raw in raws] for name, raws in listed.items()})
    return OracleBatch(
        nodes=listed,
        edges=edges,
        num_sampled_nodes={name: [len(raws)] for name, raws in listed.items()},
        num_sampled_edges=dict.fromkeys(edges),
    )


def cluster_nodes(
    tables: GraphTables, cluster: Mapping[NodeType, Sequence[int]], drawn: Sequence[int]
) -> dict[NodeType, list[int]]:
    """The nodes of the drawn clusters: cluster by cluster, each by ascending raw id.

    Args:
        cluster: of every node by type, in ascending order of raw ids.
        drawn: numbers of clusters.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> cluster_nodes(ring(5), {"node": [7, 0, 0, 7, 7]}, [7, 0])
        {'node': [0, 3, 4, 1, 2]}
    """
    return {
        name: [raw for wanted in drawn for raw, own in zip(sorted(raw_ids(tables, name)), numbers, strict=True) if own == wanted]
        for name, numbers in cluster.items()
    }


def as_oracle_batch(tables: GraphTables, batch: Any) -> OracleBatch:
    """A batch of a loader, PyG's `Data` or `HeteroData`, as the oracle writes it."""
    stores = {key: batch if list(tables.nodes) == [NODE] else batch[key] for key in (*tables.nodes, *tables.edges)}
    edges = {name: (*stores[name].edge_index.tolist(), stores[name].e_id.tolist()) for name in tables.edges}
    return OracleBatch(
        nodes={name: stores[name].n_id.tolist() for name in tables.nodes},
        edges={name: list(zip(*columns, strict=True)) for name, columns in edges.items()},
        num_sampled_nodes={name: stores[name].num_sampled_nodes for name in tables.nodes},
        num_sampled_edges={name: getattr(stores[name], "num_sampled_edges", None) for name in tables.edges},
    )
