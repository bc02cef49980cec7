"""Partitions of a graph as GLT's users have them: on disk, and in memory of each process."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halohop
import halohop.glt as glt
from halohop.datasets import synthetic, synthetic_hetero
from halohop.glt.data import Feature, Graph, Topology
from halohop.partitioning.assigners.division import Assignment
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE, EdgeDir

OWN = ("x", "y")


def one_type(num_nodes: int = 300) -> GraphTables:
    """A graph with features and labels of nodes, and features and weights of edges."""
    made = synthetic(None, num_nodes=num_nodes, avg_degree=6, num_features=4, num_classes=3)
    table, generator = made.edges[EDGE], torch.Generator().manual_seed(1)
    columns = {
        "edge_attr": torch.rand(table.num_edges, 2, generator=generator),
        "edge_weight": torch.rand(table.num_edges, generator=generator),
    }
    nodes = {name: rows for name, rows in made.nodes[NODE].columns.items() if name in OWN}
    return GraphTables(
        nodes={NODE: NodeTable(num_nodes=num_nodes, columns=nodes)},
        edges={EDGE: EdgeTable(src=table.src, dst=table.dst, columns=columns)},
    )


def several_types(num_papers: int = 80) -> GraphTables:
    """Papers, authors, institutions and fields; some types have features, one has labels."""
    made = synthetic_hetero(num_papers, num_features=4)
    nodes = {
        name: NodeTable(num_nodes=table.num_nodes, columns={key: rows for key, rows in table.columns.items() if key in OWN})
        for name, table in made.nodes.items()
    }
    return GraphTables(nodes=nodes, edges=made.edges)


def without_labels(tables: GraphTables) -> tuple[GraphTables, Any]:
    """The graph as partitions have it, and the labels that GLT's users keep beside it, by type where there are several."""
    labels = {name: table.columns["y"] for name, table in tables.nodes.items() if "y" in table.columns}
    nodes = {
        name: NodeTable(num_nodes=table.num_nodes, columns={key: rows for key, rows in table.columns.items() if key != "y"})
        for name, table in tables.nodes.items()
    }
    return GraphTables(nodes=nodes, edges=tables.edges), labels.get(NODE, labels)


def write_parts(tables: GraphTables, assignment: Assignment, folder: Path, edge_dir: EdgeDir) -> tuple[Path, Any]:
    """Partitions on disk, and the file or files of labels."""
    bare, labels = without_labels(tables)
    num_parts = int(max(part.max() for part in assignment.values())) + 1
    halohop.partition(bare, folder / "parts", num_parts=num_parts, method=assignment, edge_dir=edge_dir)
    by_type = labels if isinstance(labels, dict) else {NODE: labels}
    files = {name: folder / f"{name}.pt" for name in by_type}
    for name, file in files.items():
        torch.save(by_type[name], file)
    return folder / "parts", files if isinstance(labels, dict) else files[NODE]


def own_dataset(
    tables: GraphTables, assignment: Assignment, part: int, num_parts: int, edge_dir: EdgeDir, books: dict[str, Any] | None = None
) -> "glt.distributed.DistDataset":
    """One partition in memory; rows and edges are those of its owner, in a random order, and labels are whole."""
    bare, labels = without_labels(tables)
    generator = torch.Generator().manual_seed(part)

    def some(wanted: Tensor) -> Tensor:
        rows = wanted.nonzero().view(-1)
        return rows[torch.randperm(len(rows), generator=generator)]

    features, graphs, edge_features, edge_books = {}, {}, {}, {}
    for name, table in bare.nodes.items():
        if "x" in table.columns:
            rows = some(assignment[name] == part)
            index = torch.zeros(table.num_nodes, dtype=torch.int64)
            index[rows] = torch.arange(len(rows))
            features[name] = Feature(table.columns["x"][rows], index, dtype=None)
    for relation, edges in bare.edges.items():
        lists = edges.dst if edge_dir == "in" else edges.src
        edge_books[relation] = assignment[relation[2] if edge_dir == "in" else relation[0]][lists.long()]
        rows = some(edge_books[relation] == part)
        topo = Topology(
            (edges.src[rows], edges.dst[rows]),
            rows,
            edges.columns["edge_weight"][rows] if "edge_weight" in edges.columns else None,
        )
        graphs[relation] = Graph(topo, "CPU")
        if "edge_attr" in edges.columns:
            index = torch.zeros(edges.num_edges, dtype=torch.int64)
            index[rows] = torch.arange(len(rows))
            edge_features[relation] = Feature(edges.columns["edge_attr"][rows], index)
    given = graphs, features, edge_features or None, labels, books or assignment, edge_books
    if NODE in tables.nodes:
        given = tuple(values[next(iter(values))] if isinstance(values, dict) else values for values in given)
    return glt.distributed.DistDataset(num_parts, part, *given, edge_dir=edge_dir)
