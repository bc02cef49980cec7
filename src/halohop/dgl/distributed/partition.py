"""Graphs divided into partitions on disk, and partitions read back."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

import halohop
from halohop.datasets import PartConfig, read_part_config, writing_part_config
from halohop.dgl.distributed.dist_graph import partition_of
from halohop.dgl.distributed.partition_book import GraphPartitionBook, bounds_in
from halohop.dgl.distributed.types import Types
from halohop.dgl.graph import DEFAULT_ETYPE, DEFAULT_NTYPE, EID, NID, DGLGraph
from halohop.dgl.notes import note
from halohop.errors import InputError
from halohop.typing import EDGE, NODE, Relation


def partition_graph(
    g: DGLGraph,
    graph_name: str,
    num_parts: int,
    out_path: str | Path,
    num_hops: int = 1,
    part_method: str = "metis",
    balance_ntypes: Any = None,
    balance_edges: bool = False,
    return_mapping: bool = False,
    num_trainers_per_machine: int = 1,
    objtype: str = "cut",
    graph_formats: Any = None,
    use_graphbolt: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any] | None:
    """Divides a graph into partitions, with all its columns, and writes ``NAME.json`` beside them. Ids stay as they are.

    Nodes, training nodes (a bool column ``train_mask``) and in-edges are evened out by METIS in any case.

    Args:
        g: the graph, on the CPU.
        graph_name: how the file is called.
        num_parts: how many partitions.
        out_path: a new folder, or one with a data set of halohop's, which is replaced.
        part_method: "metis", "random", or another method of `halohop.partition`.
        balance_ntypes: None, or classes of nodes, each of which is evened out: one number for each node, at most 32 different
            ones, or a dict of these by type. "random" evens out none but ``train_mask``.
        return_mapping: whether to return the ids from before.
        num_hops, balance_edges, num_trainers_per_machine, objtype, graph_formats, use_graphbolt, kwargs: change nothing.

    Returns:
        With `return_mapping` the ids from before of nodes and edges, by id; dicts by type where there are several types. They are
        0, 1, 2, ..., because ids stay as they are.

    Raises:
        InputError: METIS is not installed, a number or column that cannot be, a graph on a GPU, or classes of the wrong
            shape.
        WriteError: it cannot be written.
        DatasetError: `out_path` holds something else.

    Example:
        >>> import tempfile
        >>> import halohop.dgl as dgl
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     partition_graph(dgl.graph(([0, 1], [1, 2])), "two", 2, folder, part_method="random")
        ...     load_partition_book(f"{folder}/two.json", 0)[0].num_partitions()
        2
    """
    if g.device.type != "cpu":
        raise InputError(f"the graph is on {g.device}; partition_graph(g.cpu(), ...) divides it")
    for name, changed in (
        ("num_hops", num_hops != 1),
        ("num_trainers_per_machine", num_trainers_per_machine != 1),
        ("objtype", objtype != "cut"),
        ("graph_formats", graph_formats is not None),
        ("use_graphbolt", use_graphbolt),
        *((name, True) for name in kwargs),
    ):
        if changed:
            note(name)
    classes = _classes(g, balance_ntypes)
    with writing_part_config(out_path, graph_name, part_method):
        halohop.partition(
            data_of(g),
            out_path,
            num_parts=num_parts,
            method=part_method,
            balance_types=not g.is_homogeneous and balance_ntypes is None,
            balance_classes=None if part_method == "random" else classes,  # which deals nodes of any class alike
            overwrite=True,
        )
    if not return_mapping:
        return None
    nodes = {name: torch.arange(g.num_nodes(name)) for name in g.ntypes}
    edges = {etype: torch.arange(g.num_edges(etype)) for etype in g.canonical_etypes}
    if g.is_homogeneous:
        return next(iter(nodes.values())), next(iter(edges.values()))
    return nodes, edges


def data_of(g: DGLGraph) -> HeteroData:
    """A graph and its columns as PyG's; the type of a homogeneous one gets the names that it has in halohop."""
    plain = _is_plain(g)
    data = HeteroData()
    for name in g.ntypes:
        store = data[NODE if plain else name]
        store.num_nodes = g.num_nodes(name)
        for column, rows in g.nodes[name].data.items():
            store["n_id" if column == NID else column] = rows
    for etype in g.canonical_etypes:
        store = data[EDGE if plain else etype]
        store.edge_index = torch.stack([ends.long() for ends in g.edges(etype=etype)])
        for column, rows in g.edges[etype].data.items():
            store["e_id" if column == EID else column] = rows
    return data


def _classes(g: DGLGraph, balance_ntypes: Any) -> dict[str, Tensor] | None:
    """By halohop's types, what nodes are evened out by."""
    if balance_ntypes is None:
        return None
    only = g.ntypes[0] if len(g.ntypes) == 1 else ""
    given: dict[str, Any] = balance_ntypes if isinstance(balance_ntypes, dict) else {only: balance_ntypes}
    for name in given:
        if name not in g.ntypes:
            raise InputError(f"balance_ntypes is of type {name!r}, and node types are {g.ntypes}; give a dict by type")
    return {NODE if _is_plain(g) else name: torch.as_tensor(classes).long() for name, classes in given.items()}


def _is_plain(g: DGLGraph) -> bool:
    return g.ntypes == [DEFAULT_NTYPE] and g.canonical_etypes == [DEFAULT_ETYPE]


def load_partition(part_config: Any, part_id: int, load_feats: bool = True, use_graphbolt: bool = False) -> tuple[Any, ...]:
    """A partition as a graph, by the user's ids. All partitions must be here: the ids of neighbours lie with their owners.

    Args:
        part_config, part_id: the file that `partition_graph` wrote, and the number of the partition.
        load_feats: whether to read its columns, too.

    Returns:
        (graph, node columns, edge columns, partition book, name of the graph, node types, relations). The graph is as
        `DistGraph.local_partition`; columns are by "TYPE/COLUMN", with rows in the order of the partition's own ids.

    Raises:
        InputError: no such partition, or another is not here.
        DatasetError: the folder is no complete, healthy data set.
    """
    if use_graphbolt:
        note("use_graphbolt")
    config = read_part_config(part_config)
    found = halohop.slices.read_partition(config.description.path, part_id)
    types = Types.of(config.description.schema)
    own = {name: _given(found.nodes[ours].id) for name, ours in types.nodes.items()}
    ends = {name: (found.edges[ours].edge_index[0], found.edges[ours].edge_index[1]) for name, ours in types.edges.items()}
    graph = partition_of(own, ends, {name: _given(found.edges[ours].edge_id) for name, ours in types.edges.items()})
    columns: tuple[Any, Any] = _columns(types, found) if load_feats else ({}, {})
    book = _book(config, part_id)
    return graph, *columns, book, config.name, types.ntypes, types.canonical_etypes


def load_partition_feats(
    part_config: Any, part_id: int, load_nodes: bool = True, load_edges: bool = True
) -> tuple[dict[str, Tensor] | None, dict[str, Tensor] | None]:
    """The columns of a partition's nodes and edges; raises as `load_partition`."""
    config = read_part_config(part_config)
    nodes, edges = _columns(Types.of(config.description.schema), halohop.slices.read_partition(config.description.path, part_id))
    return nodes if load_nodes else None, edges if load_edges else None


def load_partition_book(
    part_config: Any, part_id: int, part_metadata: Any = None
) -> tuple[GraphPartitionBook, str, dict[str, int], dict[Relation, int]]:
    """(partition book, name of the graph, numbers of node types, numbers of relations); the manifest is read for it.

    Raises:
        InputError: no such partition.
        DatasetError: the folder is no complete, healthy data set.
    """
    config = read_part_config(part_config)
    types = Types.of(config.description.schema)
    ntypes = {name: number for number, name in enumerate(types.nodes)}
    return _book(config, part_id), config.name, ntypes, {name: number for number, name in enumerate(types.edges)}


def _book(config: PartConfig, part_id: int) -> GraphPartitionBook:
    if not 0 <= part_id < config.description.num_parts:
        raise InputError(f"part_id={part_id} is none of the partitions 0 to {config.description.num_parts - 1}")
    opened: list[halohop.Graph] = []

    def engine() -> halohop.Graph:
        if not opened:
            opened.append(halohop.open(config.description.path, world=halohop.World()))
        return opened[0]

    return GraphPartitionBook(Types.of(config.description.schema), bounds_in(config), part_id, engine, config=config)


def _given(ids: Tensor | None) -> Tensor:
    assert ids is not None
    return ids.long()


def _columns(types: Types, found: halohop.slices.MemoryPartition) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The columns of a partition by DGL's names, in the order of ids."""

    def named(tables: Any, order: Any) -> dict[str, Tensor]:
        return {
            f"{name if isinstance(name, str) else ':'.join(name)}/{column}": rows[order(part)]
            for name, part in tables
            for column, rows in part.columns.items()
        }

    nodes = [(name, found.nodes[ours]) for name, ours in types.nodes.items()]
    edges = [(name, found.edges[ours]) for name, ours in types.edges.items()]
    return named(nodes, lambda part: _given(part.id).argsort()), named(edges, lambda part: _given(part.edge_id).argsort())
