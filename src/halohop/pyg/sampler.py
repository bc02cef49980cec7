"""halohop as a sampler of PyG's: feeds PyG's own `NodeLoader` and `LinkLoader`, without pyg-lib."""

import hashlib
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

from halohop.cluster.graph import Graph, in_memory
from halohop.errors import InputError
from halohop.pyg.convert import is_homogeneous, link_metadata, tables_from_pyg
from halohop.pyg.inputs import fanouts_of
from halohop.pyg.link_inputs import negatives_of, relation_of
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock, Seeds
from halohop.sampling.links import LinkSeeds
from halohop.sampling.negative import Negatives
from halohop.sampling.neighbor import Expand, NeighborSampler, Rules
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import EDGE, EDGE_ID, NODE, RAW_ID, NodeType, Relation, TableKey


class HalohopSampler(BaseSampler):  # type: ignore[misc]
    """A `torch_geometric.sampler.BaseSampler` over a PyG graph in memory or a graph from `halohop.open`.

    PyG's loaders do not say which batch they are making, so draws are keyed by the seeds themselves and by the epoch, which
    `set_epoch` tells; equal seeds in the same epoch give equal subgraphs, whatever the number of workers.

    Args:
        data, num_neighbors, replace, seed, expand: as in `halohop.NeighborLoader`.

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
        seed: int = 0,
        expand: Expand = "new",
    ) -> None:
        self.graph = data if isinstance(data, Graph) else in_memory(tables_from_pyg(data))
        fanouts = fanouts_of(num_neighbors, self.graph.schema)
        self._sampler = NeighborSampler(self.graph, fanouts, seed=seed, rules=Rules(replace=replace, expand=expand))
        self._epoch = 0
        self._seed = seed
        self._last: tuple[Relation, NegativeSampling, Negatives] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Other draws for the same seeds from now on."""
        self._epoch = epoch

    def sample_from_nodes(self, index: NodeSamplerInput) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around the given raw ids.

        Raises:
            IdError: an id that the graph does not have.
            NotImplementedError: seeds with a time.
        """
        if index.time is not None:
            raise NotImplementedError("seed times are a coming feature of halohop; leave input_time out for now")
        node_type = self.graph.schema.node_type(index.input_type)
        input_id = torch.arange(len(index.node)) if index.input_id is None else index.input_id
        seeds = Seeds(
            node_type=node_type,
            gid=self.graph.locate(index.node, node_type),
            input_id=input_id,
            epoch=self._epoch,
            index=_digest(index.node),
        )
        return to_sampler_output(self.graph, self._sampler.sample(seeds), edge_gid=False)

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None
    ) -> SamplerOutput | HeteroSamplerOutput:
        """The subgraph around the given edges, by the raw ids of their ends, and around their negatives.

        Raises:
            IdError: an id that the graph does not have.
            NotImplementedError: edges with a time.
        """
        if index.time is not None:
            raise NotImplementedError("edge times need halohop.LinkNeighborLoader; leave edge_label_time out here")
        relation = relation_of(self.graph.schema, index.input_type or next(iter(self.graph.schema.edges)))
        links = LinkSeeds(
            relation=relation,
            src_gid=self.graph.locate(index.row, relation[0]),
            dst_gid=self.graph.locate(index.col, relation[2]),
            input_id=torch.arange(len(index.row)) if index.input_id is None else index.input_id,
            epoch=self._epoch,
            index=_digest(index.row, index.col),
            label=index.label,
        )
        if neg_sampling is not None:
            links = self._negatives(relation, neg_sampling)(links)
        return to_sampler_output(self.graph, self._sampler.sample(links), edge_gid=False)

    def _negatives(self, relation: Relation, neg_sampling: NegativeSampling) -> Negatives:
        """Made once for a loader, since it lists the nodes that may be drawn."""
        if self._last is None or self._last[0] != relation or self._last[1] is not neg_sampling:
            self._last = relation, neg_sampling, negatives_of(self.graph, relation, neg_sampling, seed=self._seed)
        return self._last[2]

    @property
    def edge_permutation(self) -> None:
        """None: `edge` holds positions in the user's edge_index already."""
        return None


def _digest(*ids: Tensor) -> int:
    """A number that stands for ids and their order."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in ids:
        digest.update(tensor.numpy().tobytes())
    return int.from_bytes(digest.digest(), "little")


def to_sampler_output(graph: Graph, batch: Batch, *, edge_gid: bool) -> SamplerOutput | HeteroSamplerOutput:
    """PyG's record of a sampled batch: raw node ids, and edges by gid or by the user's edge ids."""
    queries = [RowQuery(table=name, columns=(RAW_ID,), gid=block.gid) for name, block in batch.nodes.items()]
    if not edge_gid:
        queries += [RowQuery(table=relation, columns=(EDGE_ID,), gid=block.gid) for relation, block in batch.edges.items()]
    rows = graph.fetch(FetchRequest(queries=tuple(queries)))
    ids = {query.table: got[0] for query, got in zip(queries, rows, strict=True)}
    node = {name: ids[name] for name in batch.nodes}
    edge = {relation: ids.get(relation, block.gid) for relation, block in batch.edges.items()}
    row = {relation: block.ends_bid[0] for relation, block in batch.edges.items()}
    col = {relation: block.ends_bid[1] for relation, block in batch.edges.items()}
    nodes_per_hop = {name: _listed(block.num_sampled) for name, block in batch.nodes.items()}
    edges_per_hop = {relation: _listed(block.num_sampled) for relation, block in batch.edges.items()}
    trees = {name: block.tree for name, block in batch.nodes.items() if block.tree is not None}
    links = batch.seeds if isinstance(batch.seeds, LinkSeeds) else None
    metadata = (batch.seeds.input_id, None) if links is None else link_metadata(links, *batch.ends_bid)
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
    """The batch that a user's transform of PyG's record of `batch` describes; edges are given by gid."""
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
        edges[relation] = EdgeBlock(ends_bid=torch.stack([row, col]), gid=gid, num_sampled=num_sampled)
    return Batch(seeds=batch.seeds, nodes=nodes, edges=edges, ends_bid=batch.ends_bid)


def _listed(num_sampled: tuple[int, ...] | None) -> list[int] | None:
    return None if num_sampled is None else list(num_sampled)


def _still_true(num_sampled: Mapping[Any, Sequence[int] | None] | None, key: TableKey, total: int) -> tuple[int, ...] | None:
    """The hops' counts, unless a transform has left them behind."""
    counts = (num_sampled or {}).get(key)
    return tuple(counts) if counts is not None and sum(counts) == total else None
