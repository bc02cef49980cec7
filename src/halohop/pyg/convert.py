"""Between PyG's objects and ours: `Data` and `HeteroData` in, batches out."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import BaseStorage, EdgeStorage, NodeStorage

from halohop import ops
from halohop.errors import InputError
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, Room, Seeds
from halohop.sampling.links import LinkSeeds
from halohop.store.schema import Schema
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
_STRUCTURE = ("edge_index", "num_nodes")
_NODE_ROWS, _EDGE_ROWS = ("x", "pos"), ("edge_attr", "edge_weight")
"""Attributes that mean rows. (PyG takes any tensor whose length is neither of nodes nor of edges for a graph-level one.)"""


def is_homogeneous(schema: Schema) -> bool:
    """Whether batches of this graph are PyG `Data`: one node type and one relation, under their default names."""
    return list(schema.nodes) == [NODE] and list(schema.edges) == [EDGE]


def tables_from_pyg(data: Data | HeteroData) -> GraphTables:
    """The tables of a PyG graph; columns share its memory.

    Every tensor that PyG counts as node-level or edge-level becomes a column; the rest stays behind.

    Raises:
        InputError: the graph lies on a GPU, stores `adj_t`, does not know its number of nodes, or holds an attribute that
            cannot be divided into rows.

    Example:
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> tables_from_pyg(data).nodes["node"].num_nodes
        3
    """
    if isinstance(data, Data | HeteroData):
        data = copy.copy(data)  # PyG notes in a graph what it was asked about attributes; the user's stays as it is
    if isinstance(data, Data):
        nodes, edges = {NODE: data._store}, {EDGE: data._store}
    elif isinstance(data, HeteroData):
        nodes = {name: data[name] for name in data.node_types}
        edges = {relation: data[relation] for relation in data.edge_types}
    else:
        raise InputError(f"expected a PyG Data or HeteroData, got {type(data).__name__}")
    if not nodes:
        raise InputError("the graph has no node type; store nodes first, such as data['paper'].x = ...")
    return GraphTables(
        nodes={name: _node_table(name, store) for name, store in nodes.items()},
        edges={relation: _edge_table(store) for relation, store in edges.items()},
    )


def template_of(data: Data | HeteroData) -> Data | HeteroData:
    """A copy of `data` without rows: what batches of it inherit (its class, and its graph-level attributes)."""
    template = copy.copy(data)
    for store in template.stores:
        for key in [key for key in store if key in _STRUCTURE or _is_row_attr(store, key)]:
            del store[key]
    return template


def to_pyg(batch: Batch, template: Data | HeteroData) -> Data | HeteroData:
    """The batch as PyG's NeighborLoader or LinkNeighborLoader would return it."""
    out = copy.copy(template)
    for name, block in batch.nodes.items():
        _fill_nodes(out._store if isinstance(out, Data) else out[name], block)
    for relation, edges in batch.edges.items():
        _fill_edges(out._store if isinstance(out, Data) else out[relation], edges)
    match batch.seeds:
        case Seeds() as seeds:
            _tell_seeds(out if isinstance(out, Data) else out[seeds.node_type], seeds, batch.room)
        case LinkSeeds() as links:
            _tell_links(out, links, batch)
    return out


def _tell_seeds(store: Any, seeds: Seeds, room: Room | None) -> None:
    size = len(seeds.input_id) if room is None else room.seeds
    store.input_id = _lengthened(seeds.input_id, size, -1)
    store.batch_size = size
    if seeds.time is not None:
        store.seed_time = _lengthened(seeds.time, size, 0)
    if room is not None:
        store.seed_mask = _first(len(seeds.input_id), size)


def _tell_links(out: Data | HeteroData, links: LinkSeeds, batch: Batch) -> None:
    src_type, _, dst_type = links.relation
    sources, edges, destinations = (out if isinstance(out, Data) else out[key] for key in (src_type, links.relation, dst_type))
    told = link_metadata(links, *batch.ends_bid)
    if batch.room is not None:
        edges.seed_mask = _first(links.num_pos, batch.room.seeds)
        if not links.triplet:
            edges.edge_label_mask = _first(len(links.dst_gid), batch.room.pairs)
        told = _padded_links(told, links, batch, batch.room)
    edges.input_id, *answers = told  # storages leave out what is None
    if links.triplet:
        sources.src_index, destinations.dst_pos_index, destinations.dst_neg_index, time = answers
        sources.seed_time = destinations.seed_time = time
    else:
        edges.edge_label_index, edges.edge_label, edges.edge_label_time = answers


def link_metadata(links: LinkSeeds, src_bid: Tensor, dst_bid: Tensor) -> tuple[Any, ...]:
    """What a link task asks, as PyG's samplers tell it.

    Positions of input edges, then of triplets those of sources, of destinations and of negatives ``[num_pos(, amount)]``, and
    times; else those of pairs, labels, and times. Labels and times may be None.
    """
    if links.triplet:
        negatives = dst_bid[links.num_pos :].view(links.num_pos, links.num_neg // max(links.num_pos, 1)).squeeze(-1)
        return links.input_id, src_bid, dst_bid[: links.num_pos], negatives, links.time
    time = None if links.time is None else ops.gather_rows(links.time, links.ends[0].tree)
    return links.input_id, ops.join_rows([src_bid, dst_bid]).view(2, -1), links.label, time


def _padded_links(told: tuple[Any, ...], links: LinkSeeds, batch: Batch, room: Room) -> tuple[Any, ...]:
    """With as many entries as there are places; the further ones point at nodes that are none."""
    input_id, *answers = told
    src, dst = (int(np.flatnonzero(batch.nodes[name].gid.numpy() < 0)[0]) for name in links.relation[::2])
    if links.triplet:
        longer = [_lengthened(part, room.seeds, value) for part, value in zip(answers, (src, dst, dst, 0), strict=True)]
    else:
        (src_bid, dst_bid), label, time = answers
        index = ops.join_rows([_lengthened(src_bid, room.pairs, src), _lengthened(dst_bid, room.pairs, dst)]).view(2, -1)
        ignored = -100 if label is not None and label.dtype in _SIGNED else 0
        longer = [index, _lengthened(label, room.pairs, ignored), _lengthened(time, room.pairs, 0)]
    return _lengthened(input_id, room.seeds, -1), *longer


def _lengthened(values: Any, length: int, value: float) -> Any:
    """With `value` in the places that are left; None stays None."""
    if values is None or len(values) == length:
        return values
    places = torch.from_numpy(np.append(np.arange(len(values)), np.full(length - len(values), -1)))
    longer = ops.gather_known(values, places)
    ops.fill_missing(longer, places, value)
    return longer


def _first(count: int, size: int) -> Tensor:
    """Which of `size` places are among the first `count`."""
    return torch.from_numpy(np.arange(size) < count)


def _mask_of(block: NodeBlock | EdgeBlock) -> Tensor:
    """Which places are not empty."""
    return torch.from_numpy(block.gid.numpy() >= 0)


def _fill_nodes(store: Any, block: NodeBlock) -> None:
    columns = dict(block.columns)
    raw_id = columns.pop(RAW_ID)
    for key, column in columns.items():
        store[key] = column
    if not columns:
        store.num_nodes = len(raw_id)
    if "n_id" not in columns:
        store.n_id = raw_id
    if block.tree is not None:
        store.batch = block.tree
    if block.padded:
        store.node_mask = _mask_of(block)
    if block.num_sampled is not None:
        store.num_sampled_nodes = list(block.num_sampled)


def _fill_edges(store: Any, block: EdgeBlock) -> None:
    columns = dict(block.columns)
    edge_id = columns.pop(EDGE_ID)
    store.edge_index = block.ends_bid
    for key, column in columns.items():
        store[key] = column
    if "e_id" not in columns:
        store.e_id = edge_id
    if block.flips is not None:
        store.e_flipped = block.flips.mask
    if block.padded:
        store.edge_mask = _mask_of(block)
    if block.num_sampled is not None:
        store.num_sampled_edges = list(block.num_sampled)


def _node_table(name: str, store: NodeStorage) -> NodeTable:
    num_nodes = store.num_nodes
    if num_nodes is None:
        raise InputError(f"the number of nodes of {name!r} is unknown; set data.num_nodes")
    _check_rows(store, _NODE_ROWS, num_nodes, f"nodes of {name!r}")
    return NodeTable(num_nodes=num_nodes, columns=_columns(store, store.is_node_attr))


def _edge_table(store: EdgeStorage) -> EdgeTable:
    if "adj_t" in store:
        raise InputError("the graph stores `adj_t`; give it as `edge_index` (torch_geometric.utils.to_edge_index)")
    edge_index = store.get("edge_index")
    if edge_index is None:
        edge_index = torch.empty((2, 0), dtype=torch.int64)
    edge_index = _on_cpu("edge_index", edge_index).as_subclass(Tensor)
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index has shape {tuple(edge_index.shape)}, expected [2, num_edges]")
    _check_rows(store, _EDGE_ROWS, edge_index.size(1), "edges")
    return EdgeTable(src=edge_index[0], dst=edge_index[1], columns=_columns(store, store.is_edge_attr))


def _check_rows(store: BaseStorage, keys: tuple[str, ...], num_rows: int, what: str) -> None:
    for key in keys:
        rows = len(store[key]) if key in store else num_rows
        if rows != num_rows:
            raise InputError(f"{key!r} has {rows} rows, but there are {num_rows} {what}")


def _columns(store: BaseStorage, is_level: Any) -> dict[str, Tensor]:
    columns = {}
    for key, value in store.items():
        if key in _STRUCTURE or not is_level(key):
            continue
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        if not isinstance(value, Tensor) or value.layout not in (torch.strided, torch.sparse_coo, torch.sparse_csr):
            raise InputError(f"attribute {key!r} of type {type(value).__name__} has no rows; store a tensor, or remove it")
        if value.dim() > 1 and store._parent().__cat_dim__(key, value, store) not in (0, -value.dim()):
            raise InputError(f"attribute {key!r} does not keep its rows in the first dimension; transpose or rename it")
        columns[key] = _on_cpu(key, value)
    return columns


def _is_row_attr(store: BaseStorage, key: str) -> bool:
    levels = [getattr(store, name) for name in ("is_node_attr", "is_edge_attr") if hasattr(store, name)]
    return any(is_level(key) for is_level in levels)


def _on_cpu(key: str, value: Tensor) -> Tensor:
    if value.device.type != "cpu":
        raise InputError(f"{key!r} lies on {value.device}; call data.cpu() first, and move batches to the GPU instead")
    return value
