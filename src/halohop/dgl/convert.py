"""Graphs from pairs of ids, and graphs from graphs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.index import ptr2index

from halohop.dgl.graph import DEFAULT_ETYPE, DEFAULT_NTYPE, DGLGraph
from halohop.dgl.structure import Ends
from halohop.errors import IdError, InputError
from halohop.nn import Adjacency
from halohop.typing import Relation


def graph(data: Any, *, num_nodes: int | None = None, idtype: torch.dtype | None = None, device: Any = None) -> DGLGraph:
    """A graph of one type of nodes and one of edges.

    Args:
        data: sources and destinations ``[E]`` each, a tuple, an edge's id being its place; a list of pairs of both; or
            ``("coo", (sources, destinations))``, ``("csr", (pointers, destinations, edge ids))``,
            ``("csc", (pointers, sources, edge ids))``, where no edge ids mean their places.
        num_nodes: by default, as many as the largest id says.
        idtype: of ids, int64 or int32; by default that of the tensors, int64 for others.
        device: where the graph lies; by default where the tensors do.

    Raises:
        IdError: an id below 0, or not below num_nodes.
        InputError: another form, shape or dtype.

    Example:
        >>> graph(([0, 1], [1, 2]), num_nodes=4)
        Graph(num_nodes={'_N': 4}, num_edges={('_N', '_E', '_N'): 2})
    """
    return heterograph({DEFAULT_ETYPE: data}, None if num_nodes is None else {DEFAULT_NTYPE: num_nodes}, idtype, device)


def heterograph(
    data_dict: Mapping[Relation, Any],
    num_nodes_dict: Mapping[str, int] | None = None,
    idtype: torch.dtype | None = None,
    device: Any = None,
) -> DGLGraph:
    """A graph of several types, which are sorted by name, as relations are.

    Args:
        data_dict: by relation, what `graph` takes.
        num_nodes_dict: how many nodes each type has; by default, as many as the largest id says.
        idtype, device: as of `graph`.

    Raises:
        IdError, InputError: as of `graph`; a relation that is no triple, or a type without a count.

    Example:
        >>> heterograph({("user", "plays", "game"): ([0, 1], [1, 0])}).ntypes
        ['game', 'user']
    """
    ends = relations_of(data_dict, idtype, device)
    needed = least_counts(ends, 0)
    for kind, number in least_counts(ends, 2).items():
        needed[kind] = max(number, needed.get(kind, 0))
    counts = needed if num_nodes_dict is None else dict(num_nodes_dict)
    counts = {kind: counts[kind] for kind in sorted(counts)}
    check_counts(counts, needed, "num_nodes")
    return DGLGraph(counts, counts, adjacencies(ends, counts, counts))


def relations_of(data_dict: Mapping[Relation, Any], idtype: torch.dtype | None, device: Any) -> dict[Relation, Ends]:
    """The ends of the edges of each relation, sorted by its name, as tensors."""
    for relation in data_dict:
        if not (isinstance(relation, tuple) and len(relation) == 3 and all(isinstance(part, str) for part in relation)):
            raise InputError(f"{relation!r} is no relation; give (type of the source, name, type of the destination)")
    if not data_dict:
        raise InputError("there is no relation; give one, with empty tensors where it has no edge")
    found = {relation: ends_of(data_dict[relation], idtype, device) for relation in sorted(data_dict)}
    dtypes, devices = {src.dtype for src, _ in found.values()}, {src.device for src, _ in found.values()}
    if len(dtypes) > 1 or len(devices) > 1:
        raise InputError(f"relations have ids of {dtypes} on {devices}; give idtype and device")
    return found


def ends_of(data: Any, idtype: torch.dtype | None = None, device: Any = None) -> Ends:
    """Sources and destinations of edges, by edge id.

    Raises:
        InputError: what is given is neither.
    """
    form, pair = data if isinstance(data, tuple) and isinstance(data[0], str) else ("coo", data)
    if form == "coo" and isinstance(pair, list) and not (pair and isinstance(pair[0], Tensor | np.ndarray)):
        pair = _transposed(pair)
    if form not in ("coo", "csr", "csc") or not isinstance(pair, tuple | list | Tensor) or len(pair) != 2 + (form != "coo"):
        raise InputError(
            f"edges are a {type(data).__name__} of {form!r}; give (sources, destinations), or ('csr', (pointers, ids, edge ids))"
        )
    first, second = (ids_of(values, idtype, device) for values in pair[:2])
    if form != "coo":
        first = _pointed(first, second)
        if len(pair[2]):
            order = ids_of(pair[2], torch.int64, device).argsort()
            first, second = first[order], second[order]
    if first.shape != second.shape or first.dtype != second.dtype or first.device != second.device:
        raise InputError(
            f"sources are {first.dtype} {list(first.shape)} on {first.device}, destinations {second.dtype} "
            f"{list(second.shape)} on {second.device}; give as many of both, of one dtype"
        )
    return (second, first) if form == "csc" else (first, second)


def _transposed(pairs: list[Any]) -> tuple[list[Any], list[Any]]:
    """A list of pairs as their sources and their destinations."""
    if wrong := [pair for pair in pairs if not isinstance(pair, tuple | list) or len(pair) != 2]:
        raise InputError(f"a list of edges has pairs, and {wrong[0]!r} is none; give (sources, destinations), a tuple")
    return [source for source, _ in pairs], [destination for _, destination in pairs]


def _pointed(pointers: Tensor, ids: Tensor) -> Tensor:
    if not len(pointers) or pointers[0] or pointers[-1] != len(ids) or bool((pointers.diff() < 0).any()):
        raise InputError(f"pointers must begin with 0, never fall, and end with {len(ids)}, the number of edges")
    ids_of_lists: Tensor = ptr2index(pointers).to(ids.dtype)
    return ids_of_lists


def ids_of(values: Any, idtype: torch.dtype | None, device: Any) -> Tensor:
    """Ids as a tensor ``[n]``, int64 or int32."""
    ids = torch.as_tensor(values, device=device)
    if not ids.numel() and not isinstance(values, Tensor):
        ids = ids.long()
    if ids.dtype not in (torch.int64, torch.int32) or ids.dim() != 1 or idtype not in (None, torch.int64, torch.int32):
        raise InputError(f"ids are {ids.dtype} of shape {list(ids.shape)}, idtype is {idtype}; give int64 or int32 ids [E]")
    return ids if idtype is None else ids.to(idtype)


def least_counts(ends: Mapping[Relation, Ends], side: int) -> dict[str, int]:
    """How many nodes each type has at least, by the ids at one end of edges: 0 is the source, 2 the destination.

    Raises:
        IdError: an id below 0.
    """
    counts: dict[str, int] = {}
    for relation, pair in ends.items():
        ids = pair[side // 2]
        if len(ids) and int(ids.min()) < 0:
            raise IdError(f"edges {relation} have the node {int(ids.min())}; ids are numbered from 0")
        counts[relation[side]] = max(counts.get(relation[side], 0), int(ids.max()) + 1 if len(ids) else 0)
    return counts


def check_counts(counts: Mapping[str, int], needed: Mapping[str, int], name: str) -> None:
    """
    Raises:
        InputError: a type has no count.
        IdError: a count is not above the largest id.
    """
    for kind, least in needed.items():
        if kind not in counts:
            raise InputError(f"{name} has no {kind!r}, only {sorted(counts)}; give the count of each type")
        if counts[kind] < least:
            raise IdError(f"{name} of {kind!r} is {counts[kind]}, but edges have the node {least - 1}; give {least} or more")


def adjacencies(
    ends: Mapping[Relation, Ends], sources: Mapping[str, int], destinations: Mapping[str, int]
) -> dict[Relation, Adjacency]:
    """The edges of each relation."""
    return {relation: Adjacency(sources[relation[0]], destinations[relation[2]], pair) for relation, pair in ends.items()}
