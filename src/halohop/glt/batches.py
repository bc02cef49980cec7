"""Batches of halohop under GLT's names: what every loader of the face returns."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.errors import InputError
from halohop.glt.typing import EdgeType, NodeType, reverse_edge_type

EDGE_IDS, WEIGHT = "e_id", "edge_weight"
"""The columns of edges that hold the user's ids of edges, and their weights."""


class EdgeIndex(NamedTuple):
    """The edges of one hop, as PyG's first `NeighborSampler` returned them.

    Args:
        edge_index: ``[2, n]``, sources first; destinations are the first `size[1]` nodes of the batch.
        e_id: ids of the edges, ``[n]``, or None.
        size: numbers of sources and of destinations, int64 ``[2]``.
    """

    edge_index: Tensor
    e_id: Tensor | None
    size: Tensor

    def to(self, *args: Any, **kwargs: Any) -> "EdgeIndex":
        """As `Tensor.to` of all three."""
        ids = None if self.e_id is None else self.e_id.to(*args, **kwargs)
        return EdgeIndex(self.edge_index.to(*args, **kwargs), ids, self.size.to(*args, **kwargs))


PyGv1 = tuple[int, Tensor, list[EdgeIndex]]


def options_of(
    graph: halohop.Graph,
    input_type: Any = None,
    *,
    with_edge: bool = False,
    with_weight: bool = False,
    features: bool = True,
    as_pyg_v1: bool = False,
) -> dict[str, Any]:
    """What halohop's loaders are given so that batches are GLT's: which columns, which weights, and what turns them into these.

    Args:
        graph: to draw from.
        input_type: the seeds' type, where they are nodes and there are several types; batches have the labels of no other.
        with_edge: whether batches have ids and features of edges.
        with_weight: whether weights are drawn by.
        features: whether batches have features.
        as_pyg_v1: whether batches are those of PyG's first `NeighborSampler`.

    Raises:
        InputError: there are no weights to draw by; or PyG's first format is asked for of several types.
    """
    schema = graph.schema
    stored = {name for table in schema.edges.values() for name in table.columns}
    weight = next((name for name in (WEIGHT, "weight") if name in stored), None)
    if with_weight and weight is None:
        raise InputError("with_weight=True, but the graph has no weights; give edge_weights where it is made")
    if as_pyg_v1 and not schema.is_homogeneous:
        raise InputError(f"as_pyg_v1=True is for one type of nodes, and there are {list(schema.nodes)}; leave it out")
    rows = {"x", "edge_attr"} if features and not as_pyg_v1 else set()
    of_seeds, of_edges = rows if as_pyg_v1 else rows | {"y"}, rows | {EDGE_IDS} if with_edge else set()

    def wanted(table: Any, names: set[str]) -> list[str]:
        return [name for name in table.columns if name in names]

    seeds = list(schema.nodes) if schema.is_homogeneous else [input_type]
    nodes = {name: wanted(table, of_seeds if name in seeds else rows) for name, table in schema.nodes.items()}
    edges = {name: wanted(table, of_edges) for name, table in schema.edges.items()}
    made = partial(to_pyg_v1 if as_pyg_v1 else to_glt, edge_dir=graph.book.edge_dir, with_edge=with_edge)
    options = {"node_columns": nodes, "edge_columns": edges, "transform": made, "toward_seeds": True}
    options["weight_attr"] = weight if with_weight else None
    return {**options, "expand": "all"} if as_pyg_v1 else options


def to_glt(batch: Any, *, edge_dir: str, with_edge: bool) -> Data | HeteroData:
    """A batch of halohop's loaders as GLT's loaders return it; for `transform=` of any of them, beside ``toward_seeds=True``.

    It has `node`, `edge` (with `with_edge`), `batch` (ids of the seeds), `batch_size`, `num_sampled_nodes` and
    `num_sampled_edges` (a `HeteroData` in dicts of int64 tensors, a `Data` as lists, which are all that PyG trims layers by), and
    no `n_id`, `e_id`, `input_id`. With "out" relations are named as `reverse_edge_type` does.

    Args:
        batch: `Data` or `HeteroData`, written to.
        edge_dir: of the graph that it was drawn from, "in" or "out".
        with_edge: whether ids of edges are wanted.
    """
    turned = edge_dir == "out"
    if isinstance(batch, Data):
        (store,) = batch.stores
        _rename_nodes(store, seeds=True)
        _rename_edges(store, turned, with_edge)
        return batch
    seed_types = _seed_types(batch)
    for name in batch.node_types:
        _rename_nodes(batch[name], seeds=name in seed_types)
    for relation in batch.edge_types:
        _rename_edges(batch[relation], turned, with_edge)
    if turned:
        stored = {reverse_edge_type(relation): batch[relation].to_dict() for relation in batch.edge_types}
        for relation in batch.edge_types:
            del batch[relation]
        for relation, attributes in stored.items():
            batch[relation].update(attributes)
    for key, stores in (("num_sampled_nodes", batch.node_items()), ("num_sampled_edges", batch.edge_items())):
        batch[key] = {name: torch.tensor(store.pop(key)) for name, store in stores if key in store}
    return batch


def to_pyg_v1(batch: Any, *, edge_dir: str, with_edge: bool) -> PyGv1:
    """A batch of a loader with ``expand="all"`` as (batch_size, n_id, adjs), `adjs` from the last hop to the first."""
    data = to_glt(batch, edge_dir=edge_dir, with_edge=with_edge)
    found, hops = torch.tensor(data.num_sampled_nodes).cumsum(0), data.num_sampled_edges
    edges = data.edge.split(hops) if with_edge else [None] * len(hops)
    sizes = torch.stack([found[1:], found[:-1]], dim=1)
    adjs = [EdgeIndex(*hop) for hop in zip(data.edge_index.split(hops, dim=1), edges, sizes, strict=True)]
    return data.batch_size, data.node, adjs[::-1]


def moved(batch: Any, device: torch.device) -> Any:
    """A batch on a device; from page-locked memory without waiting."""
    if device.type == "cpu":
        return batch
    if isinstance(batch, tuple):
        size, node, adjs = batch
        return size, node.to(device, non_blocking=True), [adj.to(device, non_blocking=True) for adj in adjs]
    return batch.to(device, non_blocking=True)


def _rename_nodes(store: Any, *, seeds: bool) -> None:
    store["node"] = node = store.pop("n_id")
    if not seeds:
        return
    if "batch_size" in store:
        del store["input_id"]
    else:  # the ends of edges
        store["batch_size"] = store["num_sampled_nodes"][0]
    store["batch"] = node[: store["batch_size"]]


def _rename_edges(store: Any, turned: bool, with_edge: bool) -> None:
    ids = store.pop("e_id", None)
    if with_edge:
        store["edge"] = ids
    store.pop("input_id", None)
    if turned and "edge_label_index" in store:
        store["edge_label_index"] = store["edge_label_index"].flip(0)


def _seed_types(batch: HeteroData) -> set[NodeType]:
    """The type of the seeds, or those of both ends where they are edges."""
    types = {name for name in batch.node_types if "batch_size" in batch[name]}
    links: Iterator[EdgeType] = (relation for relation in batch.edge_types if "input_id" in batch[relation])
    return types or {end for relation in links for end in relation[::2]}
