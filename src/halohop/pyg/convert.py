"""Between PyG's objects and ours: `Data` and `HeteroData` in, batches out."""

import copy
import warnings
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset, HeteroData
from torch_geometric.data.storage import EdgeStorage

from halohop import ops
from halohop.errors import InputError
from halohop.pyg.attributes import STRUCTURE, Rows, put, rows_of, stores_of
from halohop.pyg.columns import IDS
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, Room, Seeds
from halohop.sampling.link_seeds import LinkSeeds
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID, Relation, TableKey

Edges = dict[Relation, Tensor]
"""Of every relation, ``[2, num_edges]``."""

Counts = dict[TableKey, int]
"""How many rows each table has."""

Columns = dict[TableKey, dict[str, Tensor]]
"""By table and name."""

_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)


def tables_from_pyg(data: Data | HeteroData) -> GraphTables:
    """The tables of a PyG graph; columns share its memory.

    Every tensor that PyG counts as node-level or edge-level becomes a column, if its rows are in the first dimension. The rest
    is left out, with a warning that names it unless it is a string or number. Tensors on a GPU are copied, with one warning.

    Raises:
        InputError: the graph stores `adj_t`, does not know its number of nodes, or holds an attribute that cannot be divided into
            rows.

    Example:
        >>> data = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]))
        >>> tables_from_pyg(data).nodes["node"].num_nodes
        3
    """
    edges, counts = edges_and_counts(data)
    found = [rows for rows in rows_of(data, counts) if not rows.dim]
    store_of = dict(stores_of(data))
    kept = {(id(store_of[rows.table]), rows.key) for rows in found}
    others = [
        (id(store), key) for store in data.stores for key, value in store.items() if not isinstance(value, str | int | float)
    ]
    if left := sorted({key for place, key in others if (place, key) not in kept}.difference(STRUCTURE)):
        warnings.warn(
            f"attributes {left} are left out, as they have no row for each node or edge in the first dimension; keep them "
            "elsewhere, or store them with such rows",
            stacklevel=3,
        )
    near_edges, columns = near(edges, counts, found)
    return tables_of(near_edges, counts, columns)


def skeleton_of(data: Data | HeteroData, names: Iterable[str | None]) -> Data | HeteroData:
    """A copy of a PyG graph that has what `halohop.pyg.structure` reads, and nothing else."""
    _, counts = edges_and_counts(data)
    kept = {(rows.table, rows.key) for rows in rows_of(data, counts) if rows.key in names or _is_split(rows)}
    bare = copy.copy(data)
    for table, store in stores_of(bare):
        if isinstance(table, str):
            store.num_nodes = counts[table]
        for key in list(store.keys()):
            tables = (NODE, EDGE) if isinstance(data, Data) else (table,)
            if key not in STRUCTURE and not any((one, key) in kept for one in tables):
                del store[key]
    return bare


def _remedy(data: object) -> str:
    """The remedy in an error: the call that makes PyG's graph from one of another kind."""
    library = type(data).__module__.partition(".")[0]
    if isinstance(data, Dataset | list | tuple):
        return "; pass one of its graphs: dataset[0]"
    if isinstance(data, str | Path):
        return "; read a source with halohop.load_source(path), and open partitions with halohop.open(path)"
    if library in ("networkx", "dgl"):
        return f"; convert it: torch_geometric.utils.from_{library}(graph)"
    return ""


def edges_and_counts(data: Data | HeteroData) -> tuple[Edges, Counts]:
    """The edges of every relation, ``[2, n]``, and how many rows each table has."""
    if not isinstance(data, Data | HeteroData):
        raise InputError(f"expected a PyG Data or HeteroData, got {type(data).__name__}{_remedy(data)}")
    stores = stores_of(data)
    edges = {key: _edge_index(store) for key, store in stores if not isinstance(key, str)}
    counts: Counts = {key: ends.size(1) for key, ends in edges.items()}
    for key, store in stores:
        if isinstance(key, str):
            num_nodes = store.num_nodes  # after the edges: PyG < 2.8 fails here where `adj_t` is stored
            if num_nodes is None:
                raise InputError(f"the number of nodes of {key!r} is unknown; set data.num_nodes")
            counts[key] = num_nodes
    if len(edges) == len(counts):
        raise InputError("the graph has no node type; store nodes first, such as data['paper'].x = ...")
    return edges, counts


def _edge_index(store: EdgeStorage) -> Tensor:
    if "adj_t" in store:
        raise InputError("the graph stores `adj_t`; give it as `edge_index` (torch_geometric.utils.to_edge_index)")
    stored = store.get("edge_index")
    edge_index: Tensor = torch.empty((2, 0), dtype=torch.int64) if stored is None else stored.as_subclass(Tensor)
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise InputError(f"edge_index has shape {tuple(edge_index.shape)}, expected [2, num_edges]")
    return edge_index


def drawn_columns(data: Data | HeteroData, names: Iterable[str | None] | None, counts: Counts) -> list[Rows]:
    """The columns that sampling reads: splits, and those of some names.

    Args:
        data: the graph.
        names: of times and weights, of which None, and what nothing has, name nothing; instead of them None stands for every
            column of one number per row.
        counts: how many rows each table has.

    Raises:
        InputError: as of `tables_from_pyg`.
    """
    found = list(rows_of(data, counts))
    if names is None:
        return [rows for rows in found if is_number(rows)]
    wanted = {name for name in names if name is not None}
    return [rows for rows in found if rows.key in wanted or _is_split(rows)]


def near(edges: Edges, counts: Counts, found: list[Rows]) -> tuple[Edges, Columns]:
    """Edges and columns on the CPU; what lies elsewhere is copied, with one warning for all.

    Raises:
        InputError: a column that is no tensor.
    """
    for rows in found:
        if not isinstance(rows.value, Tensor):
            raise InputError(f"attribute {rows.key!r} of type {type(rows.value).__name__} has no rows of numbers; store tensors")
    tensors: dict[tuple[str, TableKey], Tensor] = {("edge_index", key): ends for key, ends in edges.items()}
    brought = _brought(tensors | {(rows.key, rows.table): rows.value for rows in found})
    columns: Columns = {key: {} for key in counts}
    for rows in found:
        columns[rows.table][rows.key] = brought[rows.key, rows.table]
    return {key: brought["edge_index", key] for key in edges}, columns


def tables_of(edges: Edges, counts: Counts, columns: Columns) -> GraphTables:
    """Tables of what is on the CPU.

    Raises:
        IdError: an edge points outside its node table.
        SchemaError: a column or a type cannot have its name.
    """
    return GraphTables(
        nodes={key: NodeTable(num_nodes=count, columns=columns[key]) for key, count in counts.items() if isinstance(key, str)},
        edges={key: EdgeTable(src=ends[0], dst=ends[1], columns=columns[key]) for key, ends in edges.items()},
    )


def _brought(tensors: dict[tuple[str, TableKey], Tensor]) -> dict[tuple[str, TableKey], Tensor]:
    """The tensors on the CPU, where neighbours are drawn; those that lie elsewhere are copied, with one warning for all."""
    far = {name: tensor.device for (name, _), tensor in tensors.items() if tensor.device.type != "cpu"}
    if far:
        names = ", ".join(f"{name!r} ({device})" for name, device in sorted(far.items()))
        warnings.warn(f"{names} copied to the CPU, where neighbours are drawn; call data.cpu() to keep one copy", stacklevel=4)
    return {key: tensor.detach().cpu() for key, tensor in tensors.items()}


def is_number(rows: Rows) -> bool:
    """Whether there is one number per row, so that they may be times or weights."""
    return isinstance(rows.value, Tensor) and rows.value.layout == torch.strided and rows.value.dim() == 1


def _is_split(rows: Rows) -> bool:
    value = rows.value
    return rows.key.endswith("_mask") and isinstance(value, Tensor) and value.dtype == torch.bool and value.dim() == 1


def to_pyg(batch: Batch, out: Data | HeteroData, *, gids: bool = False, ids: Collection[str] = IDS) -> Data | HeteroData:
    """The batch as PyG's NeighborLoader or LinkNeighborLoader would return it, written into `out`; of `n_id` and `e_id` it has
    those that `ids` names, and with `gids` it has `n_gid` and `e_gid`."""
    stores = dict(stores_of(out))
    for name, block in batch.nodes.items():
        _fill_nodes(stores[name] if name in stores else out[name], block, gids=gids, ids=ids)
    for relation, edges in batch.edges.items():
        _fill_edges(stores[relation] if relation in stores else out[relation], edges, gids=gids, ids=ids)
    match batch.seeds:
        case Seeds() as seeds:
            _fill_seeds(out._store if isinstance(out, Data) else out[seeds.node_type], seeds, batch.room)
        case LinkSeeds() as links:
            _fill_links(out, links, batch)
    return out


def _fill_seeds(store: Any, seeds: Seeds, room: Room | None) -> None:
    size = len(seeds.input_id) if room is None else room.seeds
    attributes: dict[str, Any] = {"input_id": _lengthened(seeds.input_id, size, -1), "batch_size": size}
    if seeds.time is not None:
        attributes["seed_time"] = _lengthened(seeds.time, size, 0)
    if room is not None:
        attributes["seed_mask"] = ops.first_places(len(seeds.input_id), size, seeds.input_id)
    put(store, attributes)


def _fill_links(out: Data | HeteroData, links: LinkSeeds, batch: Batch) -> None:
    src_type, _, dst_type = links.relation
    sources, edges, destinations = (out if isinstance(out, Data) else out[key] for key in (src_type, links.relation, dst_type))
    metadata = link_metadata(links, *batch.ends_bid)
    if batch.room is not None:
        edges.seed_mask = ops.first_places(links.num_pos, batch.room.seeds, links.input_id)
        if not links.triplet:
            edges.edge_label_mask = ops.first_places(len(links.dst_gid), batch.room.pairs, links.dst_gid)
        metadata = _padded_links(metadata, links, batch, batch.room)
    edges.input_id, *answers = metadata  # storages leave out what is None
    if links.triplet:
        sources.src_index, destinations.dst_pos_index, destinations.dst_neg_index, time = answers
        sources.seed_time = destinations.seed_time = time
    else:
        edges.edge_label_index, edges.edge_label, edges.edge_label_time = answers


def link_metadata(links: LinkSeeds, src_bid: Tensor, dst_bid: Tensor) -> tuple[Any, ...]:
    """What a link task asks, as PyG's samplers return it.

    Positions of input edges, then of triplets those of sources, of destinations and of negatives ``[num_pos(, amount)]``, and
    times; else those of pairs, labels, and times. Labels and times may be None.
    """
    if links.triplet:
        negatives = dst_bid[links.num_pos :].view(links.num_pos, links.num_neg // max(links.num_pos, 1)).squeeze(-1)
        return links.input_id, src_bid, dst_bid[: links.num_pos], negatives, links.time
    time = None if links.time is None else ops.gather_rows(links.time, links.ends[0].tree)
    return links.input_id, ops.join_rows([src_bid, dst_bid]).view(2, -1), links.label, time


def _padded_links(metadata: tuple[Any, ...], links: LinkSeeds, batch: Batch, room: Room) -> tuple[Any, ...]:
    """With as many entries as there are places; the further ones point at nodes that are none."""
    input_id, *answers = metadata
    src, dst = (ops.first_missing(batch.nodes[name].gid) for name in links.relation[::2])
    if links.triplet:
        longer = [_lengthened(part, room.seeds, value) for part, value in zip(answers, (src, dst, dst, 0), strict=True)]
    else:
        (src_bid, dst_bid), label, time = answers
        index = ops.join_rows([_lengthened(src_bid, room.pairs, src), _lengthened(dst_bid, room.pairs, dst)]).view(2, -1)
        ignored = -100 if label is not None and label.dtype in _SIGNED else 0
        longer = [index, _lengthened(label, room.pairs, ignored), _lengthened(time, room.pairs, 0)]
    return _lengthened(input_id, room.seeds, -1), *longer


def _lengthened(values: Any, length: int, value: Any) -> Any:
    """With `value` in the places that are left; None stays None."""
    return values if values is None or len(values) == length else ops.filled_up(values, length, value)


def _fill_nodes(store: Any, block: NodeBlock, *, gids: bool, ids: Collection[str]) -> None:
    attributes: dict[str, Any] = dict(block.columns)
    raw_id = attributes.pop(RAW_ID, None)
    known = attributes.keys() | store._mapping.keys()
    if not known or "n_id" not in ids:  # PyG counts nodes by `n_id`, too
        attributes["num_nodes"] = len(block.gid)
    if "n_id" in ids and "n_id" not in known:
        attributes["n_id"] = raw_id
    if block.tree is not None:
        attributes["batch"] = block.tree
    if block.padded:
        attributes["node_mask"] = ops.from_on(block.gid, 0)
    if block.num_sampled is not None:
        attributes["num_sampled_nodes"] = list(block.num_sampled)
    if gids and "n_gid" not in known:
        attributes["n_gid"] = block.gid
    put(store, attributes)


def _fill_edges(store: Any, block: EdgeBlock, *, gids: bool, ids: Collection[str]) -> None:
    columns: dict[str, Any] = dict(block.columns)
    edge_id = columns.pop(EDGE_ID, None)
    known, whole = columns.keys() | store._mapping.keys(), store._mapping.get("edge_index")
    ends = block.ends_bid if whole is None or block.ends_bid.is_cuda else block.ends_bid.to(whole.device)
    attributes = {"edge_index": ends} | columns
    if "e_id" in ids and "e_id" not in known:
        attributes["e_id"] = edge_id
    if block.flips is not None:
        attributes["e_flipped"] = block.flips.mask
    if block.padded:
        attributes["edge_mask"] = ops.from_on(block.gid, 0)
    if block.num_sampled is not None:
        attributes["num_sampled_edges"] = list(block.num_sampled)
    if gids and "e_gid" not in known:
        attributes["e_gid"] = block.gid
    put(store, attributes)
