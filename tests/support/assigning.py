"""Graphs for the tests of assigners, and what an assignment does to them, counted the slow way."""

import torch
from torch import Tensor

from halohop.partitioning.assigners.division import Assignment
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE


def graph(src: Tensor, dst: Tensor, num_nodes: int, **columns: Tensor) -> GraphTables:
    return GraphTables(nodes={"node": NodeTable(num_nodes=num_nodes, columns=columns)}, edges={EDGE: EdgeTable(src=src, dst=dst)})


def power_law(num_nodes: int = 4000, num_edges: int = 40_000) -> GraphTables:
    generator = torch.Generator().manual_seed(0)
    weight = torch.arange(1, num_nodes + 1).double() ** -0.7
    src, dst = (torch.multinomial(weight, num_edges, replacement=True, generator=generator) for _ in range(2))
    return graph(src, dst, num_nodes, train_mask=torch.rand(num_nodes, generator=generator) < 0.1)


def clustered(clusters: int = 20, size: int = 100, in_cluster: int = 10) -> GraphTables:
    """Dense clusters, numbered at random; the first of them are for training."""
    generator = torch.Generator().manual_seed(0)
    name = torch.randperm(clusters * size, generator=generator)
    dst = torch.arange(clusters * size).repeat_interleave(in_cluster)
    near = dst // size * size + torch.randint(size, dst.shape, generator=generator)
    far = torch.randint(clusters * size, dst.shape, generator=generator)
    src = torch.where(torch.rand(dst.shape, generator=generator) < 0.95, near, far)
    train = torch.zeros(clusters * size, dtype=torch.bool)
    train[name[: 4 * size]] = True
    return graph(name[src], name[dst], clusters * size, train_mask=train)


def mixed() -> GraphTables:
    """Two node types, three relations; parallel edges and loops; nodes without edges."""
    generator = torch.Generator().manual_seed(1)

    def ends(high: int) -> Tensor:
        return torch.randint(high, (3000,), generator=generator)

    train = torch.rand(500, generator=generator) < 0.2
    return GraphTables(
        nodes={"paper": NodeTable(num_nodes=500, columns={"train_mask": train}), "author": NodeTable(num_nodes=300)},
        edges={
            ("paper", "cites", "paper"): EdgeTable(src=ends(450), dst=ends(450)),
            ("author", "writes", "paper"): EdgeTable(src=ends(300), dst=ends(500)),
            ("paper", "by", "author"): EdgeTable(src=ends(500).int(), dst=ends(300).int()),
        },
    )


def balances(tables: GraphTables, assignment: Assignment, num_parts: int) -> list[float]:
    """Maximum over mean (rounded up) of nodes, training nodes and in-edges, counted the slow way."""
    counts = torch.zeros(3, num_parts)
    for name, table in tables.nodes.items():
        for row, part in enumerate(assignment[name].tolist()):
            counts[0, part] += 1
            counts[1, part] += bool(table.columns["train_mask"][row]) if "train_mask" in table.columns else 0
    for (_, _, destination), edges in tables.edges.items():
        counts[2] += torch.bincount(assignment[destination][edges.dst.long()], minlength=num_parts)
    return (counts.max(1).values / counts.mean(1).ceil()).tolist()


def cut(tables: GraphTables, assignment: Assignment) -> float:
    crossing = [
        assignment[source][edges.src.long()] != assignment[destination][edges.dst.long()]
        for (source, _, destination), edges in tables.edges.items()
    ]
    return float(torch.cat(crossing).double().mean())
