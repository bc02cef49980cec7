"""Every way in which PyG's users name seed edges, turned into one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.loading.examples import LinkDataset
from halohop.store.schema import Schema
from halohop.typing import Relation

InputEdges = Tensor | np.ndarray[Any, Any] | Sequence[Any] | None


def link_dataset(
    graph: Graph,
    edge_label_index: InputEdges,
    *,
    edge_label: Tensor | None = None,
    edge_label_time: Tensor | None = None,
    input_id: Tensor | None = None,
) -> LinkDataset:
    """The edges that `edge_label_index` names.

    Args:
        graph: whose nodes their ends are.
        edge_label_index: None (all edges), or raw ids of sources and destinations, ``[2, n]``; in a graph of several relations
            one of them, or a pair of it and any of these.
        edge_label, edge_label_time: per edge, ``[n, ...]`` and ``[n]``.
        input_id: numbers to give out as the batches' `input_id` instead of positions.

    Raises:
        SchemaError: an unknown relation.
        IdError: an id that the graph does not have.
        InputError: anything else that names no edges.
    """
    relation, index = _split_relation(graph.schema, edge_label_index)
    if index is None:
        edges = graph.edges(relation)
        src_gid, dst_gid = edges.src_gid, edges.dst_gid
    else:
        src_raw, dst_raw = _pairs(index)
        src_gid, dst_gid = graph.locate(src_raw, relation[0]), graph.locate(dst_raw, relation[2])
    time = _per_edge(edge_label_time, "edge_label_time", len(src_gid), dims=1)
    ids = _per_edge(input_id, "input_id", len(src_gid), dims=1)
    return LinkDataset(
        relation=relation,
        src_gid=src_gid,
        dst_gid=dst_gid,
        input_id=torch.arange(len(src_gid)) if ids is None else ids,
        label=_per_edge(edge_label, "edge_label", len(src_gid)),
        time=None if time is None else time.double() if time.is_floating_point() else time.long(),
    )


def relation_of(schema: Schema, name: Sequence[str]) -> Relation:
    """A relation by its three names, or by its ends alone where only one joins them.

    Raises:
        SchemaError: there is none, or several.
    """
    if len(name) == 2:
        joining = [known for known in schema.edges if (known[0], known[2]) == tuple(name)]
        if len(joining) == 1:
            return joining[0]
    return schema.relation(name)


def _split_relation(schema: Schema, given: InputEdges) -> tuple[Relation, Any]:
    relations = list(schema.edges)
    if isinstance(given, tuple | list) and given:
        if all(isinstance(part, str) for part in given):
            return relation_of(schema, given), None
        first = given[0]
        if len(given) == 2 and isinstance(first, tuple | list) and first and all(isinstance(part, str) for part in first):
            return relation_of(schema, first), given[1]
    if len(relations) != 1:
        example = f"({relations[0]!r}, edge_label_index); " if relations else ""
        raise SchemaError(f"edge_label_index must name a relation, e.g. {example}known: {relations}")
    return relations[0], given


def _pairs(index: Any) -> Tensor:
    pairs = _as_tensor(index, "edge_label_index")
    if pairs.dim() != 2 or pairs.size(0) != 2:
        raise InputError(f"edge_label_index has shape {tuple(pairs.shape)}, expected [2, n]: sources, then destinations")
    if (pairs.is_floating_point() or pairs.is_complex() or pairs.dtype == torch.bool) and pairs.numel():
        raise InputError(f"edge_label_index must hold integers, got {pairs.dtype}")
    return pairs.long()


def _per_edge(values: Any, name: str, count: int, *, dims: int | None = None) -> Tensor | None:
    if values is None:
        return None
    tensor = _as_tensor(values, name)
    if tensor.dim() == 0 or (dims is not None and tensor.dim() != dims):
        raise InputError(f"{name} has shape {tuple(tensor.shape)}, expected one entry for each of {count} edges")
    if len(tensor) != count:
        raise InputError(f"{name} has {len(tensor)} entries for {count} edges")
    return tensor


def _as_tensor(values: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(values).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as numbers: {error}") from error
