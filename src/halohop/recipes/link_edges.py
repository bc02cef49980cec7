"""The edges of a relation to learn from, to validate with and to test: by stored masks, or by their times.

No split may see the answers of another. Without times, messages pass along the edges of "train" alone, which a mask tells the
sampler. With times, each edge sees what came before it, whichever split that belongs to; its own moment is left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from halohop import Graph
from halohop.datasets import time_masks
from halohop.errors import InputError, SchemaError
from halohop.records import Schema
from halohop.typing import EDGE_ID, NodeType, Relation

TRAIN_MASK = "train_mask"
"""The column that says along which edges messages pass, where there are no times."""

_SPLITS = ("train", "val", "test")
_CHUNK = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkEdges:
    """Edges of one split, in the order of the user's input.

    Args:
        index: the users' ids of both ends, int64 ``[2, n]``.
        seen_until: the latest time that each may see, int64 or float64 ``[n]``; None without times.
    """

    index: Tensor
    seen_until: Tensor | None


def find_relation(schema: Schema, name: tuple[str, ...] | None) -> Relation:
    """The relation to predict; with None the only one there is.

    Raises:
        SchemaError: there is no such relation, or several.
    """
    if name is not None:
        return schema.relation(name)
    if len(schema.edges) != 1:
        raise SchemaError(f"this graph has several relations, name the one to predict: {list(schema.edges)}")
    return next(iter(schema.edges))


def split_edges(graph: Graph, relation: Relation, time_attr: str | None) -> dict[str, LinkEdges]:
    """The edges of each split, "train" first: those of stored masks, else 70/15/15 by time.

    Every rank holds the ids of all edges of the relation, 40 bytes each while it reads them.

    Raises:
        SchemaError: no such column of times.
        InputError: neither masks nor times, no edge to learn from, or a reverse relation that would give the answers away.
    """
    check_splits(graph.schema, relation, time_attr)
    schema = graph.schema
    masks = {f"{name}_mask": f"{schema.split(relation, name)}_mask" for name in _SPLITS if schema.has_split(relation, name)}
    read = edge_columns(graph, relation, [*masks.values()] + ([] if time_attr is None else [time_attr]))
    time = None if time_attr is None else read[time_attr]
    divided = (
        time_masks(time)
        if time is not None and not masks
        else {name: read[column] for name, column in masks.items() if column in read}
    )
    edges = graph.edges(relation)
    ends = torch.stack([_raw_ids(graph, relation[0])[edges.src_gid], _raw_ids(graph, relation[2])[edges.dst_gid]])
    until = None if time is None else _just_before(time)
    found = {}
    for name in _SPLITS:
        chosen = divided.get(f"{name}_mask")
        if chosen is not None and (name == "train" or chosen.any()):
            found[name] = LinkEdges(index=ends[:, chosen], seen_until=None if until is None else until[chosen])
    if "train" not in found or not found["train"].index.numel():
        raise InputError(f"no edge of {relation} is in the split 'train'; mark some in the column {TRAIN_MASK!r}")
    return found


def check_splits(schema: Schema, relation: Relation, time_attr: str | None) -> None:
    """Looks for what divides the edges of a relation: a column of times, or masks.

    Raises:
        SchemaError: no such column of times.
        InputError: neither masks nor times, or a reverse relation that would give the answers away.
    """
    if time_attr is None:
        _check_masks(schema, relation)
    elif time_attr not in (columns := schema.edges[relation].columns):
        raise SchemaError(f"the edges {relation} have no column {time_attr!r}; their columns: {sorted(columns)}")


def _check_masks(schema: Schema, relation: Relation) -> None:
    if "train" not in schema.splits(relation):
        raise InputError(
            f"the edges {relation} have no bool column {TRAIN_MASK!r}, so nothing tells which of them to learn from; "
            "partition the graph with `--task link`, add masks, or name the column of the edges' times as time_attr"
        )
    reverse = schema.reverse_of(relation)
    if reverse is not None and "train" not in schema.splits(reverse):
        raise InputError(
            f"the edges {reverse} are the reverses of {relation} and have no column {TRAIN_MASK!r}: the model would see the "
            "edges of val and test; give them the masks of the edges that they are the reverses of"
        )


def edge_columns(graph: Graph, relation: Relation, names: list[str]) -> dict[str, Tensor]:
    """Columns of all edges of a relation, in the order of the user's input."""
    count = graph.schema.edges[relation].count
    chunks = []
    for gid in torch.arange(count).split(_CHUNK):
        chunks.append(graph.fetch_rows(relation, [EDGE_ID, *names], gid))
    if not chunks:
        return {}
    edge_id, *columns = (torch.cat(parts) for parts in zip(*chunks, strict=True))
    order = edge_id.argsort()
    return {name: column[order] for name, column in zip(names, columns, strict=True)}


def _raw_ids(graph: Graph, node_type: NodeType) -> Tensor:
    """Of all nodes of a type, by gid."""
    gid, raw = graph.select(None, node_type)
    return torch.empty_like(raw).scatter_(0, gid, raw)


def _just_before(time: Tensor) -> Tensor:
    if time.is_floating_point():
        time = time.double()
        return time.nextafter(torch.full_like(time, -torch.inf))
    return time.long() - 1
