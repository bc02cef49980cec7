"""The same graph or block as PyG's, or as real DGL's."""

from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

from halohop.dgl.frames import EID, NID, Framed
from halohop.errors import InputError


def to_pyg(graph: Framed, columns: bool = True) -> Data | HeteroData:
    """A graph or block in PyG's form; with or without columns.

    A block is a batch of one hop, as loaders make it: destinations are the first nodes, and columns that only they have are as
    long as they are.
    """
    data: Any = Data() if len(graph.canonical_etypes) == 1 and len({*graph.srctypes, *graph.dsttypes}) == 1 else HeteroData()
    for kind in dict.fromkeys([*graph.srctypes, *graph.dsttypes]):
        store = data if isinstance(data, Data) else data[kind]
        seeds, rows = (graph.num_dst_nodes(kind) if kind in graph.dsttypes else 0), graph.num_nodes(kind)
        store.num_nodes = max(seeds, rows)
        if graph.is_block:
            store.num_sampled_nodes = [seeds, store.num_nodes - seeds]
        frames = [graph.dst_frame(kind)] if kind in graph.dsttypes and graph.is_block else []
        for frame in [*frames, *([graph.src_frame(kind)] if kind in graph.srctypes else [])] if columns else ():
            store.update({"n_id" if name == NID else name: values for name, values in frame.items()})
    for relation in graph.canonical_etypes:
        store, edges = data if isinstance(data, Data) else data[relation], graph.adjacency(relation)
        store.edge_index = torch.stack([ends.long() for ends in edges.ends])
        if graph.is_block:
            store.num_sampled_edges = [edges.num_edges]
        if columns:
            store.update({"e_id" if name == EID else name: values for name, values in graph.edge_frame(relation).items()})
    found: Data | HeteroData = data
    return found


def to_dgl(graph: Framed) -> Any:
    """A graph or block of real DGL, with the same ids and columns.

    Raises:
        InputError: DGL cannot be imported.
    """
    try:
        import dgl
    except ImportError as error:
        raise InputError(
            f"real DGL cannot be imported ({error}); `pip install --no-deps dgl==1.1.3` runs beside this torch"
        ) from error
    ends = {relation: graph.adjacency(relation).ends for relation in graph.canonical_etypes}
    options = {"idtype": graph.idtype, "device": graph.device}
    sources = {kind: graph.num_src_nodes(kind) for kind in graph.srctypes}
    if graph.is_block:
        destinations = {kind: graph.num_dst_nodes(kind) for kind in graph.dsttypes}
        made = dgl.create_block(ends, sources, destinations, **options)
    else:
        made = dgl.heterograph(ends, sources, **options)
    for kind in made.srctypes:
        made.srcnodes[kind].data.update(graph.src_frame(kind))
    for kind in made.dsttypes if graph.is_block else ():
        made.dstnodes[kind].data.update(graph.dst_frame(kind))
    for relation in ends:
        made.edges[relation].data.update(graph.edge_frame(relation))
    return made
