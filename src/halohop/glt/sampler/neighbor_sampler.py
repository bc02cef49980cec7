"""`graphlearn_torch.sampler.neighbor_sampler`, over `halohop.HalohopSampler`."""

import copy
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric import sampler as pyg
from torch_geometric.data import Data

import halohop
from halohop.errors import InputError
from halohop.glt.batches import PyGv1, options_of, to_pyg_v1
from halohop.glt.data.dataset import dataset_of
from halohop.glt.data.graph import Graph
from halohop.glt.modes import device_of, seed_of
from halohop.glt.notes import note
from halohop.glt.sampler.base import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NeighborOutput,
    NodeSamplerInput,
    SamplerOutput,
    read_negatives,
)
from halohop.glt.typing import EdgeType, NodeType, NumNeighbors, reverse_edge_type
from halohop.glt.utils.tensor import apply_to_all_tensor


class NeighborSampler(BaseSampler):
    """Subgraphs around seeds. The calls are numbered: call k draws what batch k of a loader with this seed draws.

    Args:
        graph: a `Graph`, or a dict with one per relation.
        num_neighbors: per hop, or a dict with such a list per relation; -1 takes all.
        device: where results are wanted.
        with_edge: whether they have ids of edges.
        with_neg: whether edges may come with negatives.
        with_weight: draws by the weights of edges.
        edge_dir: "out" draws the nodes that edges lead to, "in" those that they come from.
        seed: of draws; None takes torch's.

    Raises:
        InputError: a GPU is asked for, and there is none; and, from its methods, what cannot be drawn.
    """

    def __init__(
        self,
        graph: Graph | dict[EdgeType, Graph],
        num_neighbors: NumNeighbors | None = None,
        device: Any = None,
        with_edge: bool = False,
        with_neg: bool = False,
        with_weight: bool = False,
        strategy: str = "random",
        edge_dir: str = "out",
        seed: int | None = None,
    ) -> None:
        if strategy != "random":
            note("strategy")
        self.graph: Any = graph
        self.num_neighbors, self.device, self.edge_dir = num_neighbors, device_of(device), edge_dir
        self.with_edge, self.with_neg, self.with_weight, self.seed = with_edge, with_neg, with_weight, seed
        self._calls = iter(range(2**62))

    def sample_one_hop(self, input_seeds: Tensor, req_num: int, etype: EdgeType | None = None) -> NeighborOutput:
        """Neighbours of some nodes.

        Args:
            input_seeds: ids, int64 ``[n]``.
            req_num: how many of each; -1 for all.
            etype: along which relation, where there are several.
        """
        relations = self._sampler.graph.schema.edges
        hop = [req_num] if etype is None else {relation: [req_num if relation == etype else 0] for relation in relations}
        kind = None if etype is None else etype[0 if self.edge_dir == "out" else 2]
        out = self._around(NodeSamplerInput(input_seeds, kind), num_neighbors=hop)
        node, row, col, edge = out.node, out.row, out.col, out.edge
        if etype is not None:
            named = self._named(etype)
            node, row, col, edge = out.node[named[0]], out.row[named], out.col[named], out.edge and out.edge[named]
        return NeighborOutput(node[row], col.bincount(minlength=len(input_seeds)), edge)

    def sample_from_nodes(self, inputs: NodeSamplerInput, **kwargs: Any) -> Any:
        """The subgraph around nodes."""
        return self._around(NodeSamplerInput.cast(inputs))

    def sample_from_edges(self, inputs: EdgeSamplerInput, **kwargs: Any) -> Any:
        """The subgraph around edges and their negatives."""
        inputs = EdgeSamplerInput.cast(inputs)
        how = read_negatives(inputs.neg_sampling, inputs.input_type)
        if how and not self.with_neg:
            raise InputError("the edges have a neg_sampling, but the sampler has with_neg=False; make it with with_neg=True")
        row, col, label = apply_to_all_tensor((inputs.row, inputs.col, inputs.label), Tensor.cpu)
        seeds = pyg.EdgeSamplerInput(input_id=None, row=row, col=col, label=label, input_type=inputs.input_type)
        out = self._sampler.sample_from_edges(seeds, batch=next(self._calls), **how)
        triplet = how and how["neg_sampling"].is_triplet()
        names = ("src_index", "dst_pos_index", "dst_neg_index") if triplet else ("edge_label_index", "edge_label")
        return self._record(out, inputs.input_type, dict(zip(names, out.metadata[1:], strict=False)))

    def sample_pyg_v1(self, ids: Tensor) -> PyGv1:
        """The subgraph as PyG's first `NeighborSampler` returned it: (batch_size, n_id, adjs)."""
        out = self._drawing(expand="all").sample_from_nodes(_nodes(NodeSamplerInput(ids)), batch=next(self._calls))
        hops = {"num_sampled_nodes": out.num_sampled_nodes, "num_sampled_edges": out.num_sampled_edges, "batch_size": len(ids)}
        batch = Data(edge_index=torch.stack([out.row, out.col]), n_id=out.node, e_id=self._ids(None, out.edge), **hops)
        return to_pyg_v1(batch, edge_dir=self.edge_dir, with_edge=self.with_edge)

    def subgraph(self, inputs: NodeSamplerInput) -> Any:
        """All edges among nodes, and those around them where there are `num_neighbors`; metadata are the seeds' positions."""
        inputs = NodeSamplerInput.cast(inputs)
        seeds, places = inputs.node.unique(return_inverse=True)
        return self._around(NodeSamplerInput(seeds, inputs.input_type), places, subgraph_type="induced")

    def sample_prob(self, inputs: NodeSamplerInput, node_cnt: int | dict[NodeType, int]) -> Tensor | dict[NodeType, Tensor]:
        """How probable it is that each node is in the subgraph around all seeds: float32 ``[node_cnt]``, or such a dict by type.

        Raises:
            InputError: `node_cnt` is less than the nodes of the graph.
        """
        inputs = NodeSamplerInput.cast(inputs)
        nodes = inputs.node.cpu() if inputs.input_type is None else (inputs.input_type, inputs.node.cpu())
        how = {"batch_size": max(len(inputs), 1), "weight_attr": self._sampler.weight_attr}
        found = halohop.placement.hotness(self._sampler.graph, nodes, self.num_neighbors or [], **how)
        counts = node_cnt if isinstance(node_cnt, dict) else dict.fromkeys(found, node_cnt)
        probs = {}
        for name, prob in found.items():
            if counts.get(name, 0) < len(prob):
                raise InputError(f"node_cnt={node_cnt}, but there are {len(prob)} nodes of {name!r}; give as many, or more")
            probs[name] = torch.nn.functional.pad(prob, (0, counts[name] - len(prob))).to(self.device)
        return probs if isinstance(self.graph, dict) else next(iter(probs.values()))

    @cached_property
    def _sampler(self) -> halohop.HalohopSampler:
        graph = dataset_of(self.graph, self.edge_dir).halohop_graph
        how = {name: options_of(graph, with_weight=self.with_weight)[name] for name in ("weight_attr", "toward_seeds")}
        return halohop.HalohopSampler(graph, self.num_neighbors or [], seed=seed_of(self.seed), **how)

    def _drawing(self, **options: Any) -> halohop.HalohopSampler:
        """The sampler with other options."""
        sampler = copy.copy(self._sampler)
        for name, value in options.items():
            setattr(sampler, name, value)
        return sampler

    def _around(self, inputs: NodeSamplerInput, metadata: Any = None, **options: Any) -> Any:
        out = self._drawing(**options).sample_from_nodes(_nodes(inputs), batch=next(self._calls))
        return self._record(out, inputs.input_type, metadata)

    def _record(self, out: Any, input_type: Any, metadata: Any) -> Any:
        """GLT's record of PyG's: relations are named as they lead, from neighbours to seeds."""
        row, col, hops, drawn = out.row, out.col, out.num_sampled_nodes, out.num_sampled_edges
        if not isinstance(out.node, dict):
            one = (out.node, row, col, self._ids(None, out.edge), out.node[: hops[0]], hops, drawn, self.device, metadata)
            return SamplerOutput(*apply_to_all_tensor(one, Tensor.to, self.device))
        row, col, drawn = ({self._named(etype): of for etype, of in values.items()} for values in (row, col, drawn))
        edge = {self._named(etype): self._ids(etype, ids) for etype, ids in out.edge.items()} if self.with_edge else None
        batch = {name: out.node[name][: counts[0]] for name, counts in hops.items() if counts[0]}
        hops, drawn = ({key: torch.tensor(of) for key, of in counts.items() if of is not None} for counts in (hops, drawn))
        many = (out.node, row, col, edge, batch, hops, drawn, list(row), input_type, self.device, metadata)
        return HeteroSamplerOutput(*apply_to_all_tensor(many, Tensor.to, self.device))

    def _named(self, etype: EdgeType) -> EdgeType:
        return reverse_edge_type(etype) if self.edge_dir == "out" else etype

    def _ids(self, etype: EdgeType | None, edge: Tensor) -> Tensor | None:
        """The user's ids of edges."""
        given = (self.graph if etype is None else self.graph[etype]).topo.given_ids
        return None if not self.with_edge else edge if given is None else given[edge]


def _nodes(inputs: NodeSamplerInput) -> pyg.NodeSamplerInput:
    return pyg.NodeSamplerInput(input_id=None, node=inputs.node.cpu(), input_type=inputs.input_type)
