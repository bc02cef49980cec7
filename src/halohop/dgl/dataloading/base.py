"""What samplers are: `Sampler`, and `BlockSampler` for those of blocks."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from halohop.dgl.block import DGLBlock
from halohop.dgl.graph import EID, NID, DGLGraph
from halohop.dgl.ids import EdgeIds, as_given, edge_ids, node_ids
from halohop.dgl.sampling import block_of_frontier, leaving_out
from halohop.dgl.subgraphs import edge_subgraph
from halohop.errors import InputError, SchemaError

Names = Sequence[str] | Mapping[Any, Sequence[str]] | None
"""Columns: a list of names, or by type."""


class Sampler(ABC):
    """Makes batches: what `sample` of your own class returns is what a loader gives out."""

    @abstractmethod
    def sample(self, g: Any, indices: Any) -> Any:
        """A batch.

        Args:
            g: the graph of the loader.
            indices: the ids of this batch ``[n]``, or by type.
        """


class BlockSampler(Sampler):
    """Makes blocks, one for each layer of a model. Your own class has `sample_blocks`, or `sample_frontier` as in DGL 0.6.

    Args:
        num_layers: of classes with `sample_frontier`, how many blocks a batch has.
        return_eids: blocks always have the ids of their edges (`EID`).
        prefetch_node_feats: columns that `blocks[0].srcdata` gets while the batch is made; others are taken when they are read.
            A list, or a dict of lists by type.
        prefetch_labels: columns that `blocks[-1].dstdata` gets so.
        prefetch_edge_feats: columns that `edata` of every block gets so.
        output_device: where the blocks lie.

    Raises:
        InputError: `num_layers` is no number.

    Example:
        >>> import halohop.dgl as dgl
        >>> class InEdges(dgl.dataloading.BlockSampler):
        ...     def sample_frontier(self, block_id, g, seed_nodes):
        ...         return dgl.in_subgraph(g, seed_nodes)
        >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> loader = dgl.dataloading.NodeDataLoader(g, [2, 0], InEdges(2), batch_size=1)
        >>> [(input_nodes.tolist(), output_nodes.tolist()) for input_nodes, output_nodes, blocks in loader]
        [([2, 1, 0], [2]), ([0, 3, 2], [0])]
    """

    def __init__(
        self,
        num_layers: int | None = None,
        return_eids: bool = False,
        prefetch_node_feats: Names = None,
        prefetch_labels: Names = None,
        prefetch_edge_feats: Names = None,
        output_device: Any = None,
    ) -> None:
        if num_layers is not None and not isinstance(num_layers, int):
            raise InputError(f"num_layers={num_layers!r} is no number; give prefetch_node_feats and its kin by name")
        self.num_layers, self.return_eids = num_layers, return_eids
        self.prefetch_node_feats, self.prefetch_labels = prefetch_node_feats, prefetch_labels
        self.prefetch_edge_feats, self.output_device = prefetch_edge_feats, output_device

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> DGLGraph:
        """The edges that a layer reads: a graph with all nodes of `g`, and edges that lead to the given nodes.

        Args:
            block_id: the number of the layer, 0 being the input's.
            g: the graph.
            seed_nodes: ids ``[n]``, or by type.
        """
        raise InputError(f"{type(self).__name__} makes no blocks; give it sample_blocks, or sample_frontier")

    def sample_blocks(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """Ids of the input nodes, ids of the output nodes, and the blocks; or the blocks alone, as in DGL 0.6.

        Edges with ids in `exclude_eids` are left out; `sample_neighbors` draws others in their place.
        """
        if self.num_layers is None:
            raise InputError(
                f"{type(self).__name__} does not say how many blocks it makes; give BlockSampler.__init__ num_layers"
            )
        blocks: list[DGLBlock] = []
        nodes, excluded = node_ids(g, seed_nodes), edge_ids(g, exclude_eids)
        for block_id in reversed(range(self.num_layers)):
            seeds = as_given(g, nodes)
            with leaving_out(g, excluded):
                edges = self.sample_frontier(block_id, g, seeds)
            _check_frontier(edges, g)
            block = block_of_frontier(without(edges, excluded), seeds)
            nodes = {kind: block.srcnodes[kind].data[NID] for kind in block.srctypes}
            blocks.insert(0, block)
        return blocks

    def sample(self, g: Any, seed_nodes: Any, exclude_eids: Any = None) -> Any:
        """A batch: ids of the input nodes, ids of the output nodes, and the blocks."""
        result = (
            self.sample_blocks(g, seed_nodes, exclude_eids) if exclude_eids is not None else self.sample_blocks(g, seed_nodes)
        )
        if isinstance(result, list):
            result = result[0].srcdata[NID], seed_nodes, result
        return self.assign_lazy_features(result)

    def assign_lazy_features(self, result: Any) -> Any:
        """Takes the columns that are to be there when the batch is. May be overridden."""
        _, _, blocks = result
        set_src_lazy_features(blocks[0], self.prefetch_node_feats)
        set_dst_lazy_features(blocks[-1], self.prefetch_labels)
        for block in blocks:
            set_edge_lazy_features(block, self.prefetch_edge_feats)
        return result


def _check_frontier(found: Any, g: Any) -> None:
    nodes = {kind: g.num_nodes(kind) for kind in g.ntypes}
    if getattr(found, "is_block", True) or any(found.num_nodes(kind) != nodes.get(kind) for kind in found.ntypes):
        raise InputError(f"sample_frontier returns {found!r}; return a graph of some edges with all nodes: {nodes}")


def without(found: DGLGraph, excluded: EdgeIds) -> DGLGraph:
    """A frontier without the edges whose ids are left out.

    Raises:
        InputError: it does not say its ids.
    """
    kept = {}
    for relation, ids in excluded.items():
        if relation not in found.canonical_etypes:
            continue  # a frontier of a DistGraph has the relations with sampled edges only
        if EID not in found.edges[relation].data:
            raise InputError(f"edges {relation} are left out, and the frontier does not say its ids; set frontier.edata[dgl.EID]")
        kept[relation] = ~torch.isin(found.edges[relation].data[EID].long(), ids)
    if all(bool(mask.all()) for mask in kept.values()):
        return found
    whole = {relation: torch.ones(found.num_edges(relation), dtype=torch.bool) for relation in found.canonical_etypes}
    return edge_subgraph(found, whole | kept, relabel_nodes=False, store_ids=False)


def set_src_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """Takes columns of the sources of a block now: what is taken while a batch is made, is there when the batch is.

    Args:
        g: a block.
        feature_names: a list of names, of which each type gets those that its nodes have; or a dict of lists by type.
    """
    _take({kind: g.srcnodes[kind].data for kind in g.srctypes}, feature_names)


def set_dst_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """As `set_src_lazy_features`, of the destinations."""
    _take({kind: g.dstnodes[kind].data for kind in g.dsttypes}, feature_names)


def set_node_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """As `set_src_lazy_features`, of the nodes of a graph."""
    set_src_lazy_features(g, feature_names)


def set_edge_lazy_features(g: DGLGraph, feature_names: Names) -> None:
    """As `set_src_lazy_features`, of the edges of a graph or block, by relation."""
    _take({relation: g.edges[relation].data for relation in g.canonical_etypes}, by_relation(g, feature_names))


def _take(frames: Mapping[Any, Mapping[str, Any]], names: Names) -> None:
    for kind, of_kind in chosen(frames, names).items():
        for name in of_kind:
            frames[kind][name]


def by_relation(g: Any, names: Names) -> Names:
    """Names of columns of edges, with relations by their three parts."""
    return {g.to_canonical_etype(etype): of_type for etype, of_type in names.items()} if isinstance(names, Mapping) else names


def chosen(frames: Mapping[Any, Mapping[str, Any]], names: Names) -> dict[Any, list[str]]:
    """Columns by type, of a list of names, of which each type gets those that it has, or of a dict of lists.

    Raises:
        InputError: no list.
        SchemaError: an unknown type, or a column that is not there.
    """
    if isinstance(names, str):
        raise InputError(f"columns are given as {names!r}; give a list of names, such as [{names!r}]")
    if not isinstance(names, Mapping):
        for name in names or ():
            if not any(name in frame for frame in frames.values()):
                next(iter(frames.values()))[name]  # which says what there is
        return {kind: [name for name in names or () if name in frame] for kind, frame in frames.items()}
    for kind, of_kind in names.items():
        if kind not in frames:
            raise SchemaError(f"columns of {kind!r} are asked for, and there are {list(frames)}")
        for name in of_kind:
            if name not in frames[kind]:
                frames[kind][name]  # likewise
    return {kind: list(of_kind) for kind, of_kind in names.items()}
