"""Samplers around edges: `as_edge_prediction_sampler`."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from halohop.dgl.dataloading.base import BlockSampler, Names, Sampler, set_edge_lazy_features
from halohop.dgl.dataloading.negative_sampler import Pairs, ends_of
from halohop.dgl.graph import EID, NID, DGLGraph
from halohop.dgl.ids import EdgeIds, Ids, as_given, edge_ids, joined
from halohop.dgl.inherited import inherit
from halohop.dgl.subgraphs import between
from halohop.errors import InputError, SchemaError
from halohop.nn import numbered
from halohop.typing import Relation


class EdgePredictionSampler(Sampler):
    """Makes batches of edges, of pairs that are none, and of the blocks around both. See `as_edge_prediction_sampler`."""

    def __init__(
        self,
        sampler: BlockSampler,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Mapping[Any, Any] | None = None,
        negative_sampler: Callable[[Any, Any], Any] | None = None,
        prefetch_labels: Names = None,
    ) -> None:
        if exclude == "reverse_id" and reverse_eids is None:
            raise InputError("exclude='reverse_id' needs reverse_eids: the id of the reverse of each edge")
        if exclude == "reverse_types" and reverse_etypes is None:
            raise InputError("exclude='reverse_types' needs reverse_etypes: the relation of the reverses of each relation")
        if not callable(exclude) and exclude not in (None, "self", "reverse_id", "reverse_types"):
            raise InputError(f"exclude={exclude!r}; give None, 'self', 'reverse_id', 'reverse_types' or a function")
        self.sampler, self.exclude = sampler, exclude
        self.reverse_eids, self.reverse_etypes = reverse_eids, reverse_etypes
        self.negative_sampler, self.prefetch_labels = negative_sampler, prefetch_labels
        self.g_sampling: Any = None

    def sample(self, g: Any, seed_edges: Any) -> Any:
        """Ids of the input nodes, the edges as a graph, the other pairs as a graph if there are any, and the blocks."""
        ids = edge_ids(g, seed_edges)
        positive = ends_of(g, ids)
        negative = None if self.negative_sampler is None else self._negatives(g, seed_edges)
        nodes, graphs = graphs_of(g, [positive] if negative is None else [positive, negative])
        for relation in g.canonical_etypes:
            graphs[0].edges[relation].data[EID] = ids.get(relation, torch.empty(0, dtype=torch.int64)).to(g.idtype)
        pair_graph = inherit(graphs[0], g)
        set_edge_lazy_features(pair_graph, self.prefetch_labels)
        around = g if self.g_sampling is None else self.g_sampling
        excluded = find_exclude_eids(around, seed_edges, self.exclude, self.reverse_eids, self.reverse_etypes)
        input_nodes, _, blocks = self.sampler.sample(around, as_given(around, nodes), excluded)
        return (input_nodes, pair_graph, *(inherit(graph, g, edges=False) for graph in graphs[1:]), blocks)

    def _negatives(self, g: Any, seed_edges: Any) -> dict[Relation, Pairs]:
        assert self.negative_sampler is not None
        given = self.negative_sampler(g, seed_edges)
        found = given if isinstance(given, Mapping) else {None: given}
        return {
            g.to_canonical_etype(etype): (torch.as_tensor(src).to(g.idtype), torch.as_tensor(dst).to(g.idtype))
            for etype, (src, dst) in found.items()
        }


def as_edge_prediction_sampler(
    sampler: BlockSampler,
    exclude: Any = None,
    reverse_eids: Any = None,
    reverse_etypes: Mapping[Any, Any] | None = None,
    negative_sampler: Callable[[Any, Any], Any] | None = None,
    prefetch_labels: Names = None,
) -> EdgePredictionSampler:
    """A sampler around edges.

    Args:
        sampler: of the blocks around their ends.
        exclude: which edges the blocks leave out: None, none; "self", those of the batch; "reverse_id", these and those that
            `reverse_eids` names; "reverse_types", these and those of the same ids in the relations of `reverse_etypes`; or a
            function of the ids of the batch's edges, which returns ids. Others are drawn in their place.
        reverse_eids: the id of the reverse of each edge ``[E]``, or by relation.
        reverse_etypes: by relation, that of the reverses, which have the same ids.
        negative_sampler: a function of the graph and the ids of the batch's edges, such as `negative_sampler.Uniform`, which
            returns pairs ``(sources, destinations)``, or by relation.
        prefetch_labels: columns that `edata` of the graph of edges gets while the batch is made.

    Raises:
        InputError: arguments that are needed are not given.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> blocks = dgl.dataloading.MultiLayerFullNeighborSampler(1)
        >>> sampler = as_edge_prediction_sampler(blocks, exclude="self")
        >>> input_nodes, pairs, (block,) = next(iter(dgl.dataloading.DataLoader(g, [1], sampler)))
        >>> input_nodes.tolist(), pairs.edges()[1].tolist(), block.edata[dgl.EID].tolist()
        ([1, 2, 0], [1], [0])
    """
    return EdgePredictionSampler(sampler, exclude, reverse_eids, reverse_etypes, negative_sampler, prefetch_labels)


def find_exclude_eids(
    g: Any, seed_edges: Any, exclude: Any, reverse_eids: Any = None, reverse_etypes: Any = None, output_device: Any = None
) -> EdgeIds | None:
    """Finds the edges that blocks around some edges leave out, by relation, on `output_device`; None if there are none.

    For the other arguments see `as_edge_prediction_sampler`.
    """
    if exclude is None:
        return None
    found = ids = edge_ids(g, exclude(seed_edges) if callable(exclude) else seed_edges)
    if exclude == "reverse_id":
        of_all = edge_ids(g, reverse_eids)
        if lacking := [relation for relation in ids if relation not in of_all]:
            raise SchemaError(f"reverse_eids has no ids of edges {lacking[0]}, only of {list(of_all)}")
        found = joined(ids, {relation: of_all[relation][some] for relation, some in ids.items()})
    elif exclude == "reverse_types":
        turned = {g.to_canonical_etype(etype): g.to_canonical_etype(other) for etype, other in reverse_etypes.items()}
        found = joined(ids, {turned[relation]: some for relation, some in ids.items() if relation in turned})
    return {relation: some.to(device=output_device) for relation, some in found.items()}


def graphs_of(g: Any, pairs: list[dict[Relation, Pairs]]) -> tuple[Ids, list[DGLGraph]]:
    """Pairs of nodes as graphs whose nodes are only these, as they first occur.

    Returns:
        The ids of these nodes by type, and the graphs, all with the same nodes.
    """
    listed = [{relation: some[relation] for relation in g.canonical_etypes if relation in some} for some in pairs]
    found = [{relation: (src.long(), dst.long()) for relation, (src, dst) in some.items()} for some in listed]
    none = torch.empty(0, dtype=torch.int64)
    nodes, numbers = numbered(*found, nodes=dict.fromkeys(g.ntypes, none))
    graphs = [between(nodes, dict.fromkeys(g.canonical_etypes, (none, none)) | some, g.idtype) for some in numbers]
    for graph in graphs:
        for kind, ids in nodes.items():
            graph.nodes[kind].data[NID] = ids.to(g.idtype)
    return nodes, graphs
