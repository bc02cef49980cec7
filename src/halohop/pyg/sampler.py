"""halohop as a sampler of PyG's: feeds PyG's own `NodeLoader` and `LinkLoader`, without pyg-lib."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    SamplerOutput,
)

from halohop import ops
from halohop.cluster.graph import Graph, in_memory
from halohop.errors import InputError
from halohop.loading.seeds import digest
from halohop.pyg.convert import is_homogeneous, link_metadata, tables_from_pyg
from halohop.pyg.inputs import comparable_times, fanouts_of, rules_of, times_of
from halohop.pyg.link_inputs import check_edge_times, negatives_of, relation_of
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, Seeds
from halohop.sampling.links import End, LinkSeeds
from halohop.sampling.negative import Negatives
from halohop.sampling.neighbor import Expand, NeighborSampler
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID, NodeType, Relation, TableKey


class HalohopSampler(BaseSampler):  # type: ignore[misc]
    """A `torch_geometric.sampler.BaseSampler` over a PyG graph in memory or a graph from `halohop.open`.

    PyG's loaders do not say which batch they are making, so draws are keyed by the seeds themselves and by the epoch, which
    `set_epoch` tells; equal seeds in the same epoch give equal subgraphs, whatever the number of workers.

    The arguments stay as attributes of the same names. They may be set between batches, as PyG's Lightning modules do on a copy.

    Args:
        data, num_neighbors, replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, directed, seed,
            expand, method, layer_dependency: as in `halohop.NeighborLoader`. PyG's loaders do not heed their own arguments of
            these names beside a sampler. Flips of another relation come without ids and features, since PyG's loaders cannot
            ask for them.

    Raises:
        InputError: options that cannot work, as of `halohop.NeighborLoader`.

    Example:
        >>> from torch_geometric.loader import NodeLoader
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> loader = NodeLoader(data, HalohopSampler(data, [1]), input_nodes=torch.tensor([2]))
        >>> next(iter(loader)).n_id.tolist()
        [2, 1]
    """

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        *,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        directed: bool = True,
        seed: int = 0,
        expand: Expand = "new",
        method: str = "neighbor",
        layer_dependency: bool = False,
    ) -> None:
        self.graph = data if isinstance(data, Graph) else in_memory(tables_from_pyg(data))
        self.num_neighbors = num_neighbors
        self.replace = replace
        self.subgraph_type = subgraph_type
        self.disjoint = disjoint
        self.temporal_strategy = temporal_strategy
        self.time_attr = time_attr
        self.weight_attr = weight_attr
        self.directed = directed
        self.seed = seed
        self.expand = expand
        self.method = method
        self.layer_dependency = layer_dependency
        self._epoch = 0
        self._made: tuple[tuple[Any, ...], NeighborSampler] | None = None
        self._last: tuple[tuple[Any, ...], NegativeSampling, Negatives] | None = None
        self._neighbors()  # what cannot work is told now

    def set_epoch(self, epoch: int) -> None:
        """Other draws for the same seeds from now on."""
        self._epoch = epoch

    def sample_from_nodes(self, index: NodeSamplerInput) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around the given raw ids.

        Raises:
            IdError: an id that the graph does not have.
            InputError: times without `time_attr`, or the other way round.
        """
        node_type = self.graph.schema.node_type(index.input_type)
        gid = self.graph.locate(index.node, node_type)
        seeds = Seeds(
            node_type=node_type,
            gid=gid,
            input_id=torch.arange(len(index.node)) if index.input_id is None else index.input_id,
            epoch=self._epoch,
            index=digest(index.node),
            time=times_of(self.graph, node_type, gid, index.time, self.time_attr),
        )
        return to_sampler_output(self.graph, self._neighbors().sample(seeds), edge_gid=False)

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around the given edges, by the raw ids of their ends, and around their negatives.

        Raises:
            IdError: an id that the graph does not have.
            InputError: times without `time_attr`, or the other way round.
        """
        check_edge_times(index.time, self.time_attr)
        relation = relation_of(self.graph.schema, index.input_type or next(iter(self.graph.schema.edges)))
        links = LinkSeeds(
            relation=relation,
            src_gid=self.graph.locate(index.row, relation[0]),
            dst_gid=self.graph.locate(index.col, relation[2]),
            input_id=torch.arange(len(index.row)) if index.input_id is None else index.input_id,
            epoch=self._epoch,
            index=digest(index.row, index.col),
            label=index.label,
            time=comparable_times(index.time),
        )
        if neg_sampling is not None:
            links = self._negatives(relation, neg_sampling)(links)
        return to_sampler_output(self.graph, self._neighbors().sample(links), edge_gid=False)

    def _neighbors(self) -> NeighborSampler:
        """Made anew when an option has changed."""
        rules = rules_of(
            replace=self.replace,
            expand=self.expand,
            disjoint=self.disjoint,
            weight_attr=self.weight_attr,
            time_attr=self.time_attr,
            temporal_strategy=self.temporal_strategy,
            method=self.method,
            layer_dependency=self.layer_dependency,
            subgraph_type=self.subgraph_type,
            directed=self.directed,
        )
        options = (fanouts_of(self.num_neighbors, self.graph.schema), rules, self.seed)
        if self._made is None or self._made[0] != options:
            self._made = options, NeighborSampler(self.graph, options[0], seed=self.seed, rules=rules)
        return self._made[1]

    def _negatives(self, relation: Relation, neg_sampling: NegativeSampling) -> Negatives:
        """Made once for a loader, since it lists the nodes that may be drawn."""
        options = (relation, self.seed, self.time_attr)
        if self._last is None or self._last[0] != options or self._last[1] is not neg_sampling:
            made = negatives_of(self.graph, relation, neg_sampling, seed=self.seed, time_attr=self.time_attr)
            self._last = options, neg_sampling, made
        return self._last[2]

    @property
    def edge_permutation(self) -> None:
        """None: `edge` holds positions in the user's edge_index already."""
        return None


def to_sampler_output(graph: Graph, batch: Batch, *, edge_gid: bool) -> SamplerOutput | HeteroSamplerOutput:
    """PyG's record of a sampled batch: raw node ids, and edges by gid or by the user's edge ids; None where some are flips of
    another relation's."""
    queries = [RowQuery(table=name, columns=(RAW_ID,), gid=block.gid) for name, block in batch.nodes.items()]
    edge: dict[Relation, Tensor | None] = {
        relation: block.gid if block.flips is None else None for relation, block in batch.edges.items()
    }
    if not edge_gid:
        known = {relation: gid for relation, gid in edge.items() if gid is not None}
        queries += [RowQuery(table=relation, columns=(EDGE_ID,), gid=gid) for relation, gid in known.items()]
    rows = graph.fetch(FetchRequest(queries=tuple(queries)))
    ids = {query.table: got[0] for query, got in zip(queries, rows, strict=True)}
    node = {name: ids[name] for name in batch.nodes}
    edge = {relation: ids.get(relation, gid) for relation, gid in edge.items()}
    row = {relation: block.ends_bid[0] for relation, block in batch.edges.items()}
    col = {relation: block.ends_bid[1] for relation, block in batch.edges.items()}
    nodes_per_hop = {name: _listed(block.num_sampled) for name, block in batch.nodes.items()}
    edges_per_hop = {relation: _listed(block.num_sampled) for relation, block in batch.edges.items()}
    trees = {name: block.tree for name, block in batch.nodes.items() if block.tree is not None}
    metadata = _metadata(batch)
    if is_homogeneous(graph.schema):
        return SamplerOutput(
            node=node[NODE],
            row=row[EDGE],
            col=col[EDGE],
            edge=edge[EDGE],
            batch=trees.get(NODE),
            num_sampled_nodes=nodes_per_hop[NODE],
            num_sampled_edges=edges_per_hop[EDGE],
            metadata=metadata,
        )
    return HeteroSamplerOutput(
        node=node,
        row=row,
        col=col,
        edge=edge,
        batch=trees or None,
        num_sampled_nodes=nodes_per_hop,
        num_sampled_edges=edges_per_hop,
        metadata=metadata,
    )


def from_sampler_output(graph: Graph, batch: Batch, output: SamplerOutput | HeteroSamplerOutput) -> Batch:
    """The batch that a user's transform of PyG's record of `batch` describes; edges are given by gid.

    Nodes may have changed places: the ends of a link task are found again by id, and by tree in disjoint batches. The seeds of
    a node task are the first nodes, here as in PyG, and it is the transform's business to leave them there.

    Raises:
        InputError: not PyG's record, or one that lacks what was needed.
    """
    if isinstance(output, SamplerOutput):
        output = HeteroSamplerOutput(
            node={NODE: output.node},
            row={EDGE: output.row},
            col={EDGE: output.col},
            edge={EDGE: output.edge},
            batch=None if output.batch is None else {NODE: output.batch},
            num_sampled_nodes={NODE: output.num_sampled_nodes},
            num_sampled_edges={EDGE: output.num_sampled_edges},
        )
    elif not isinstance(output, HeteroSamplerOutput):
        raise InputError(f"transform_sampler_output returned {type(output).__name__}, expected PyG's SamplerOutput")
    if output.edge is None or None in output.edge.values():
        raise InputError("transform_sampler_output dropped `edge`; keep it, so that edge features and ids can be found")
    nothing = torch.empty(0, dtype=torch.int64)
    nodes: dict[NodeType, NodeBlock] = {}
    for name in graph.schema.nodes:
        gid = graph.locate(output.node.get(name, nothing), name)
        tree = (output.batch or {}).get(name)
        if tree is not None and len(tree) != len(gid):
            raise InputError(
                f"transform_sampler_output left {len(gid)} nodes of {name!r} and a batch of {len(tree)}; keep them alike"
            )
        nodes[name] = NodeBlock(gid=gid, tree=tree, num_sampled=_still_true(output.num_sampled_nodes, name, len(gid)))
    edges: dict[Relation, EdgeBlock] = {}
    for relation in graph.schema.edges:
        row, col, gid = (part.get(relation, nothing) for part in (output.row, output.col, output.edge))
        num_sampled = _still_true(output.num_sampled_edges, relation, len(gid))
        edges[relation] = EdgeBlock(ends_bid=ops.join_rows([row, col]).view(2, -1), gid=gid, num_sampled=num_sampled)
    ends_bid = tuple(_found_again(graph, end, batch.nodes[end.node_type], nodes[end.node_type]) for end in batch.seeds.ends)
    return Batch(seeds=batch.seeds, nodes=nodes, edges=edges, ends_bid=ends_bid)


def _found_again(graph: Graph, end: End, before: NodeBlock, now: NodeBlock) -> Tensor:
    """The positions of a link task's ends among rearranged nodes; where one is there several times, the first."""
    keys, wanted = now.gid, end.gid
    if before.tree is not None:
        if now.tree is None:
            raise InputError("transform_sampler_output dropped `batch`; keep it, so that the ends of each subgraph can be found")
        num_nodes = max(graph.schema.nodes[end.node_type].count, 1)
        keys, wanted = keys + num_nodes * now.tree, wanted + num_nodes * end.tree
    ordered, order = keys.sort(stable=True)
    places = torch.searchsorted(ordered, wanted)
    found = places < len(keys)
    found[found.clone()] = ordered[places[found]] == wanted[found]
    if not found.all():
        raise InputError(
            f"transform_sampler_output dropped {int((~found).sum())} of the nodes of {end.node_type!r} that seed edges join; "
            "keep them"
        )
    return order[places]


def _metadata(batch: Batch) -> tuple[Any, ...]:
    match batch.seeds:
        case LinkSeeds() as links:
            return link_metadata(links, *batch.ends_bid)
        case Seeds(input_id=input_id, time=time):
            return input_id, time
    return None, None


def _listed(num_sampled: tuple[int, ...] | None) -> list[int] | None:
    return None if num_sampled is None else list(num_sampled)


def _still_true(num_sampled: Mapping[Any, Sequence[int] | None] | None, key: TableKey, total: int) -> tuple[int, ...] | None:
    """The hops' counts, unless a transform has left them behind."""
    counts = (num_sampled or {}).get(key)
    return tuple(counts) if counts is not None and sum(counts) == total else None
