"""Every way in which PyG's users name seed nodes, fanouts and options of sampling, turned into one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import NumNeighbors

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.loading.examples import SeedDataset
from halohop.sampling.caps import CapsFrom, Padding
from halohop.sampling.fanouts import Fanouts
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation

InputNodes = Tensor | np.ndarray[Any, Any] | Sequence[int] | str | tuple[str, Any] | None


def fanouts_of(num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]], schema: Schema) -> Fanouts:
    """PyG's `num_neighbors`: one list for all relations, a dict with a list per relation, or PyG's object of either.

    Raises:
        SchemaError: an unknown relation.
        InputError: a relation is missing, or numbers that cannot be fanouts.
    """
    if isinstance(num_neighbors, NumNeighbors):
        num_neighbors = num_neighbors.get_values(list(schema.edges))
    if isinstance(num_neighbors, Mapping):
        named = {relation: whole_numbers(fanouts, "num_neighbors") for relation, fanouts in num_neighbors.items()}
        return Fanouts.by_relation(named, schema)
    return Fanouts.uniform(whole_numbers(num_neighbors, "num_neighbors"), schema)


def padding_of(pad: CapsFrom | Padding | None, schema: Schema) -> Padding | None:
    """`pad` as an object whose numbers are dicts.

    Raises:
        InputError: a word that says nothing, or a list where there are several types.
    """
    if pad is None or isinstance(pad, str):
        return None if pad is None else Padding(caps=pad)
    if not isinstance(pad, Padding):
        raise InputError(f"pad={pad!r} is neither 'measured' nor 'bound' nor a halohop.records.Padding")
    return replace(pad, nodes=_by_key(pad.nodes, schema.nodes, "nodes"), edges=_by_key(pad.edges, schema.edges, "edges"))


def _by_key(numbers: Any, known: Iterable[Any], what: str) -> Mapping[Any, Any] | None:
    if numbers is None:
        return None
    if not isinstance(numbers, Mapping):
        keys = list(known)
        if len(keys) != 1:
            raise InputError(f"{what}={numbers!r}: give a dict with such a list for any of {keys}")
        numbers = {keys[0]: numbers}
    return {key: whole_numbers(counts, what) for key, counts in numbers.items()}


def seed_dataset(
    graph: Graph,
    input_nodes: InputNodes,
    input_id: Tensor | None = None,
    *,
    node_type: NodeType | None = None,
    time: Tensor | None = None,
    time_attr: str | None = None,
) -> SeedDataset:
    """The seeds that `input_nodes` names.

    Args:
        graph: whose nodes they are.
        input_nodes: None (all nodes), raw ids, a bool mask over all nodes in ascending raw order, or the name of a stored
            split; in a heterogeneous graph a node type, or a pair of it and any of these.
        input_id: numbers to give out as the batches' `input_id` instead of positions.
        node_type: the type that they are of, which need not be named then.
        time: of every input node; by default their own `time_attr`.
        time_attr: the column of times that is sampled by; None samples regardless of time.

    Raises:
        SchemaError: an unknown node type or split, or another type than `node_type`.
        IdError: an id that the graph does not have.
        InputError: anything else that names no nodes.
    """
    node_type, nodes = _split_type(graph, input_nodes, node_type)
    if nodes is None or isinstance(nodes, str):
        gid, _ = graph.select(nodes, node_type)
        positions = torch.arange(len(gid))
    else:
        gid, positions = _listed(graph, node_type, nodes)
    if input_id is not None:
        positions = as_tensor(input_id, "input_id", flat=True)
        if positions.shape != gid.shape:
            raise InputError(f"input_id has {len(positions)} entries for {len(gid)} input nodes")
    times = times_of(graph, node_type, gid, time, time_attr)
    dataset = SeedDataset(node_type=node_type, gid=gid, input_id=positions, time=times)
    dataset.listed = not (nodes is None or isinstance(nodes, str) or as_tensor(nodes, "input_nodes").dtype == torch.bool)
    return dataset


def times_of(graph: Graph, node_type: NodeType, gid: Tensor, time: Tensor | None, time_attr: str | None) -> Tensor | None:
    """The time of every seed, int64 or float64 ``[n]``: as given, or else the nodes' own `time_attr`. None without one.

    Raises:
        InputError: there are no times, or they are not one for each.
    """
    if time_attr is None:
        if time is not None:
            raise InputError("input_time is given without time_attr; name the attribute that it is compared with")
        return None
    if time is None:
        if time_attr not in graph.schema.nodes[node_type].columns:
            raise InputError(f"nodes of {node_type!r} have no {time_attr!r}; give the time of every input node as input_time")
        query = RowQuery(table=node_type, columns=(time_attr,), gid=gid)
        ((time,),) = graph.fetch(FetchRequest(queries=(query,)))
    time = as_tensor(time, "input_time", flat=True)
    if time.shape != gid.shape:
        raise InputError(f"input_time has {len(time)} entries for {len(gid)} input nodes")
    return comparable_times(time)


def comparable_times(time: Tensor | None) -> Tensor | None:
    """Times as they are compared: float64 of floats, int64 of the others.

    Raises:
        InputError: they are complex.
    """
    if time is not None and time.is_complex():
        raise InputError(f"the times of seeds are {time.dtype}, which have no order; give real numbers")
    return None if time is None else time.double() if time.is_floating_point() else time.long()


def plain(value: Any) -> Any:
    """A number of Python's where NumPy or torch gave one; other values as they are."""
    return value.tolist() if isinstance(value, np.generic | Tensor) else value


def whole_numbers(values: Any, name: str) -> list[Any]:
    """A number per hop, as ints where NumPy or torch gave them; `Fanouts` and its kin refuse other values."""
    if not isinstance(values, Iterable):
        raise InputError(f"{name}={values!r} is no list of numbers; give one per hop, such as [15, 10]")
    return [plain(value) for value in values]


def as_tensor(values: Any, name: str, *, flat: bool = False) -> Tensor:
    """A user's numbers as a tensor on the CPU.

    Raises:
        InputError: they are none; or not in one dimension, where `flat` asks for it.
    """
    try:
        tensor = torch.as_tensor(values).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as numbers: {error}") from error
    if flat and tensor.dim() != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {tuple(tensor.shape)}")
    return tensor


def _split_type(graph: Graph, input_nodes: InputNodes, node_type: NodeType | None) -> tuple[NodeType, Any]:
    types = list(graph.schema.nodes)
    if isinstance(input_nodes, str) and input_nodes in types:
        named, nodes = input_nodes, None
    elif isinstance(input_nodes, tuple | list) and len(input_nodes) == 2 and isinstance(input_nodes[0], str):
        named, nodes = graph.schema.node_type(input_nodes[0]), input_nodes[1]
    elif node_type is not None or len(types) == 1:
        return node_type or types[0], input_nodes
    else:
        raise SchemaError(f"input_nodes must name a node type, e.g. ({types[0]!r}, ids); known: {types}")
    if node_type not in (None, named):
        raise SchemaError(f"the nodes are of {named!r}, but nodes of {node_type!r} are needed here")
    return named, nodes


def _listed(graph: Graph, node_type: NodeType, nodes: Any) -> tuple[Tensor, Tensor]:
    nodes = as_tensor(nodes, "input_nodes", flat=True)
    if nodes.dtype == torch.bool:
        gid, _ = graph.select(None, node_type)
        if len(nodes) != len(gid):
            raise InputError(f"the mask has {len(nodes)} entries, but {node_type!r} has {len(gid)} nodes")
        positions = nodes.nonzero().view(-1)
        return gid[positions], positions
    if (nodes.is_floating_point() or nodes.is_complex()) and len(nodes):
        raise InputError(f"input_nodes must be integers or bool, got {nodes.dtype}")
    return graph.locate(nodes.long(), node_type), torch.arange(len(nodes))
