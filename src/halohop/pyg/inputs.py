"""Every way in which PyG's users name seed nodes and fanouts, turned into one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.loading.loader import SeedDataset
from halohop.sampling.fanouts import Fanouts
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation

InputNodes = Tensor | np.ndarray[Any, Any] | Sequence[int] | str | tuple[str, Any] | None


def fanouts_of(num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]], schema: Schema) -> Fanouts:
    """PyG's `num_neighbors`: one list for all relations, or a dict with a list per relation.

    Raises:
        SchemaError: an unknown relation.
        InputError: a relation is missing, or numbers that cannot be fanouts.
    """
    if isinstance(num_neighbors, Mapping):
        return Fanouts.by_relation(num_neighbors, schema)
    return Fanouts.uniform(num_neighbors, schema)


def seed_dataset(graph: Graph, input_nodes: InputNodes, input_id: Tensor | None = None) -> SeedDataset:
    """The seeds that `input_nodes` names.

    Args:
        graph: whose nodes they are.
        input_nodes: None (all nodes), raw ids, a bool mask over all nodes in ascending raw order, or the name of a stored
            split; in a heterogeneous graph a node type, or a pair of it and any of these.
        input_id: numbers to give out as the batches' `input_id` instead of positions.

    Raises:
        SchemaError: an unknown node type or split.
        IdError: an id that the graph does not have.
        InputError: anything else that names no nodes.
    """
    node_type, nodes = _split_type(graph, input_nodes)
    if nodes is None or isinstance(nodes, str):
        gid, _ = graph.select(nodes, node_type)
        positions = torch.arange(len(gid))
    else:
        gid, positions = _listed(graph, node_type, nodes)
    if input_id is not None and len(input_id) != len(gid):
        raise InputError(f"input_id has {len(input_id)} entries for {len(gid)} input nodes")
    return SeedDataset(node_type=node_type, gid=gid, input_id=positions if input_id is None else input_id)


def _split_type(graph: Graph, input_nodes: InputNodes) -> tuple[NodeType, Any]:
    types = list(graph.schema.nodes)
    if isinstance(input_nodes, str) and input_nodes in types:
        return input_nodes, None
    if isinstance(input_nodes, tuple | list) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        return graph.schema.node_type(input_nodes[0]), input_nodes[1]
    if len(types) > 1:
        raise SchemaError(f"input_nodes must name a node type, e.g. ({types[0]!r}, ids); known: {types}")
    return types[0], input_nodes


def _listed(graph: Graph, node_type: NodeType, nodes: Any) -> tuple[Tensor, Tensor]:
    nodes = torch.as_tensor(nodes)
    if nodes.dim() != 1:
        raise InputError(f"input_nodes must be one-dimensional, got shape {tuple(nodes.shape)}")
    if nodes.dtype == torch.bool:
        gid, _ = graph.select(None, node_type)
        if len(nodes) != len(gid):
            raise InputError(f"the mask has {len(nodes)} entries, but {node_type!r} has {len(gid)} nodes")
        positions = nodes.nonzero().view(-1)
        return gid[positions], positions
    if nodes.is_floating_point() and len(nodes):
        raise InputError(f"input_nodes must be integers or bool, got {nodes.dtype}")
    return graph.locate(nodes.long().cpu(), node_type), torch.arange(len(nodes))
