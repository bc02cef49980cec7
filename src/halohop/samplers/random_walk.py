"""`halohop.random_walk`: walks over graphs that lie anywhere, in the user's ids."""

from collections.abc import Sequence
from typing import Literal, overload

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.flags import checks_flags
from halohop.loading.options import whole
from halohop.pyg.inputs import InputNodes, seed_dataset
from halohop.pyg.source import source_of
from halohop.samplers.node2vec import Node2VecWalker
from halohop.samplers.walks import NOWHERE, Walker, Walks, start_type
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.schema import Schema
from halohop.typing import EDGE_ID, RAW_ID, EdgeDir, Relation, TableKey

DeadEnd = Literal["stay", "stop"]


@overload
def random_walk(
    data: Data | HeteroData | Graph,
    start: InputNodes = ...,
    length: int | None = ...,
    *,
    metapath: Sequence[Relation] | None = ...,
    p: float = ...,
    q: float = ...,
    weight_attr: str | None = ...,
    dead_end: DeadEnd | None = ...,
    return_edge_ids: Literal[False] = ...,
    edge_dir: EdgeDir | None = ...,
    seed: int = ...,
    epoch: int = ...,
    batch: int = ...,
) -> Tensor: ...


@overload
def random_walk(
    data: Data | HeteroData | Graph,
    start: InputNodes = ...,
    length: int | None = ...,
    *,
    metapath: Sequence[Relation] | None = ...,
    p: float = ...,
    q: float = ...,
    weight_attr: str | None = ...,
    dead_end: DeadEnd | None = ...,
    return_edge_ids: Literal[True],
    edge_dir: EdgeDir | None = ...,
    seed: int = ...,
    epoch: int = ...,
    batch: int = ...,
) -> tuple[Tensor, Tensor]: ...


@checks_flags
def random_walk(
    data: Data | HeteroData | Graph,
    start: InputNodes = None,
    length: int | None = None,
    *,
    metapath: Sequence[Relation] | None = None,
    p: float = 1.0,
    q: float = 1.0,
    weight_attr: str | None = None,
    dead_end: DeadEnd | None = None,
    return_edge_ids: bool = False,
    edge_dir: EdgeDir | None = None,
    seed: int = 0,
    epoch: int = 0,
    batch: int = 0,
) -> Tensor | tuple[Tensor, Tensor]:
    """Random walks from many nodes at once.

    Uniform (DeepWalk, Perozzi et al. 2014), by weight, biased by p and q (node2vec, Grover & Leskovec 2016), or along a metapath
    (metapath2vec, Dong et al. 2017).

    Walks go against the arrows, as sampling does: from a node to one of its in-neighbours. In an undirected graph that makes no
    difference. With ``edge_dir="out"`` they go along the arrows.

    Args:
        data: a PyG `Data` or `HeteroData`, or a graph from `halohop.open`.
        start: where the walks begin, one for each entry: raw ids, a bool mask, the name of a stored split, or None for all nodes.
        length: how many steps; by default those of the metapath, which is gone through again for more.
        metapath: the relation of each step, ("a", "to", "b") leading from a "b" to an "a". In a graph of one relation it may be
            left out.
        p, q: biases of the second step and those after it: an edge that leads back to the node before counts 1 / p, one to a node
            to which the walker could have gone from that node directly counts 1, any other 1 / q; times its weight. They need
            steps along one relation between nodes of one type.
        weight_attr: the attribute of edges that holds weights to draw by, at least 0; 0 is never drawn.
        dead_end: what a walker does at a node without in-edges (or without one of positive weight). "stay": it remains there, as
            in `torch_cluster.random_walk`. "stop": the rest of its walk is -1, as in DGL and PyG's `MetaPath2Vec`. By default
            "stay" without a metapath, "stop" with one. To stay is possible only if all steps go along one relation.
        return_edge_ids: return the edges, too.
        edge_dir: "in", against the arrows, or "out", along them. A graph of halohop's was made for one of them, which None takes;
            of PyG's graphs None takes "in". Below, what is said of in-edges holds of out-edges then.
        seed, epoch, batch: name the stream of random numbers. Walks of the same number in calls that agree in all three are no
            independent ones, so count the calls of an epoch as batches.

    Returns:
        Raw ids, int64 ``[num_walks, length + 1]``, starts first; and, if asked for, positions of the edges in the user's edge
        list, int64 ``[num_walks, length]``, -1 where no step was taken.

    Raises:
        SchemaError: an unknown relation, type or split, or no metapath where there are several relations.
        IdError: a start that the graph does not have.
        InputError: any other argument that cannot work.

    Example:
        >>> path = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]), num_nodes=4)
        >>> walks, edges = random_walk(path, [3, 1], 2, return_edge_ids=True)
        >>> walks.tolist(), edges.tolist()
        ([[3, 2, 1], [1, 0, 0]], [[2, 1], [0, -1]])
        >>> random_walk(path, [3, 1], 2, dead_end="stop").tolist()
        [[3, 2, 1], [1, 0, -1]]
    """
    graph = source_of(data, (weight_attr,), edge_dir=edge_dir).graph
    path = _path(graph.schema, length, metapath)
    seed, epoch, batch = whole(seed, "seed"), whole(epoch, "epoch"), whole(batch, "batch")
    stays = _stays(path, dead_end, by_default=metapath is None)
    if (p, q) == (1, 1):
        walker = Walker(graph, path, seed=seed, weight=weight_attr)
    else:
        walker = Node2VecWalker(graph, path, p=p, q=q, seed=seed, weight=weight_attr)
    starts = seed_dataset(graph, start, node_type=start_type(graph, path))
    walks = walker.walk(starts.gid, epoch=epoch, batch=batch)
    nodes, edges = _user_ids(graph, path, walks.staying() if stays else walks, with_edges=return_edge_ids)
    return (nodes, edges) if return_edge_ids else nodes


def _path(schema: Schema, length: int | None, metapath: Sequence[Relation] | None) -> list[Relation]:
    """The relation of every step."""
    if metapath is None:
        if length is None:
            raise InputError("neither length nor metapath is given; say how many steps to go")
        if len(schema.edges) != 1:
            raise SchemaError(
                f"this graph has {len(schema.edges)} relations; name those to walk along as metapath: {list(schema.edges)}"
            )
        metapath = list(schema.edges)
    metapath = [schema.relation(relation) for relation in metapath]
    if length is None:
        length = len(metapath)
    length = whole(length, "length")
    if length < 0:
        raise InputError(f"length={length} is below 0; give a number of steps")
    if length and not metapath:
        raise InputError(f"metapath is empty, but walks are {length} steps long; name a relation for each step")
    return [metapath[step % len(metapath)] for step in range(length)]


def _stays(path: list[Relation], dead_end: DeadEnd | None, *, by_default: bool) -> bool:
    if dead_end not in (None, "stay", "stop"):
        raise InputError(f"dead_end={dead_end!r} is neither 'stay' nor 'stop'")
    possible = len(set(path)) < 2 and all(relation[0] == relation[2] for relation in path)
    if dead_end == "stay" and not possible:
        raise InputError("dead_end='stay' needs steps along one relation between nodes of one type; use 'stop' for this metapath")
    return possible and (dead_end == "stay" or (dead_end is None and by_default))


def _user_ids(graph: Graph, path: list[Relation], walks: Walks, *, with_edges: bool) -> tuple[Tensor, Tensor]:
    """Raw ids ``[n, length + 1]``, and edge ids ``[n, length]``."""
    types = [start_type(graph, path), *(graph.book.neighbor_type(relation) for relation in path)]
    nodes = _user_column(graph, types, RAW_ID, walks.gid)
    return nodes, _user_column(graph, path, EDGE_ID, walks.edge_gid) if with_edges else walks.edge_gid.T


def _user_column(graph: Graph, tables: Sequence[TableKey], column: str, gid: Tensor) -> Tensor:
    """A column of ids for gids ``[steps, n]``, each step in its own table, as ``[n, steps]``; -1 remains."""
    known = gid != NOWHERE
    queries = tuple(
        RowQuery(table=table, columns=(column,), gid=row[at]) for table, row, at in zip(tables, gid, known, strict=True)
    )
    ids = torch.full((gid.size(1), len(gid)), NOWHERE)
    for step, (rows,) in enumerate(graph.fetch(FetchRequest(queries=queries)) if queries else ()):
        ids[known[step], step] = rows
    return ids
