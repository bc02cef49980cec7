"""Data sets whose blocks are chosen: what `halohop.partition` writes where its method makes blocks."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data

from halohop.partitioning.building.build import Build, build_parts
from halohop.store.part import Part
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.store.writer import write_dataset
from halohop.typing import EDGE, NODE, NodeType


def write_in_blocks(
    out: Path, tables: GraphTables, block: dict[NodeType, Tensor], *, num_blocks: int, num_parts: int, halo: tuple[str, ...] = ()
) -> Path:
    """A folder whose partitions are runs of blocks, given the block of every row by type (uint8 or int16 ``[num_nodes]``)."""
    part = {name: (own.int() * num_parts // num_blocks).int() for name, own in block.items()}
    build = build_parts(tables, part, num_parts, halo=halo)
    with write_dataset(out) as writer:
        for made in _with_blocks(build, block):
            writer.add(made)
        bounds = {"node_bounds": build.book.nodes, "edge_bounds": build.book.edges}
        writer.finish(schema=build.schema, **bounds, partitioned={}, report={}, num_blocks=num_blocks)
    return out


def _with_blocks(build: Build, block: dict[NodeType, Tensor]) -> Iterator[Part]:
    for index, part in enumerate(build.parts):
        nodes = {}
        for name, own in part.nodes.items():
            first = build.book.offset(name, index)
            rows = torch.arange(first, first + own.num_nodes) if own.raw_id is None else own.raw_id.long()
            nodes[name] = replace(own, block=block[name][rows])
        yield replace(part, nodes=nodes)


def clustered(num_blocks: int, size: int, *, seed: int = 0) -> tuple[GraphTables, Tensor]:
    """A graph of groups of nodes, ids at random, and the group of each node, which nine in ten of its neighbours share."""
    generator = torch.Generator().manual_seed(seed)
    num_nodes = num_blocks * size
    block = torch.randperm(num_nodes, generator=generator) % num_blocks
    members = torch.argsort(block, stable=True).view(num_blocks, size)
    dst = torch.arange(num_nodes).repeat_interleave(8)
    near = members[block[dst], torch.randint(size, dst.shape, generator=generator)]
    far = torch.randint(num_nodes, dst.shape, generator=generator)
    src = torch.where(torch.rand(dst.shape, generator=generator) < 0.9, near, far)
    masks = {f"{name}_mask": torch.arange(num_nodes) % 4 == number for number, name in enumerate(("test", "val"))}
    masks["train_mask"] = ~(masks["test_mask"] | masks["val_mask"])
    columns = {"x": torch.randn(num_nodes, 3, generator=generator), "y": torch.arange(num_nodes) % 5, **masks}
    nodes = {NODE: NodeTable(num_nodes=num_nodes, columns=columns)}
    return GraphTables(nodes=nodes, edges={EDGE: EdgeTable(src=src, dst=dst)}), block.to(torch.uint8)


def as_data(tables: GraphTables) -> Data:
    """The graph as PyG has it."""
    edges = tables.edges[EDGE]
    return Data(edge_index=torch.stack([edges.src, edges.dst]), **tables.nodes[NODE].columns)
