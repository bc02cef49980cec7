"""`halohop.ppr` and `halohop.PPRLoader`: personalised PageRank, and batches of what it ranks highest."""

from typing import Any, Unpack

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop.cluster.graph import Graph
from halohop.errors import SchemaError
from halohop.loading.options import whole
from halohop.pyg.arguments import SampledArguments, as_pyg
from halohop.pyg.inputs import InputNodes, seed_dataset
from halohop.pyg.sampled_loader import SampledLoader
from halohop.pyg.source import source_of
from halohop.pyg.subgraph_loader import with_mapping
from halohop.samplers.ppr import ForwardPush, PPRSampler
from halohop.sampling.sampler import Sampler
from halohop.typing import EdgeDir, Relation


def ppr(
    data: Data | HeteroData | Graph,
    seeds: InputNodes = None,
    *,
    alpha: float = 0.15,
    eps: float = 1e-4,
    top: int | None = None,
    relation: Relation | None = None,
    edge_dir: EdgeDir | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Approximate personalised PageRank of many seeds (forward push, Andersen, Chung & Lang 2006).

    The score of a node is the probability that a walk from the seed ends there. In every node the walk ends with probability
    alpha; otherwise it steps to one of the in-neighbours, all in-edges equally likely (the transition matrix is D^-1 A over the
    lists of in-edges, as in `halohop.random_walk`; weights are not looked at). At a node without in-edges it stays. Scores are
    never too high. Each node keeps a residual of at most `eps` per in-edge; in an undirected graph no score is too low by more
    than `eps` times the node's degree. A seed reads at most ``1 / (alpha * eps)`` edges.

    Args:
        data: a PyG `Data` or `HeteroData`, or a graph from `halohop.open`.
        seeds: raw ids, a bool mask, the name of a stored split, or None for all nodes.
        alpha: how likely a walk ends at each node, above 0 and below 1.
        eps: how exact; less is slower.
        top: at most so many nodes of each seed; None gives all with a score above 0.
        relation: that is walked along, between nodes of one type; the only one may be left out.
        edge_dir: as of `halohop.random_walk`.

    Returns:
        Three tensors ``[n]``: positions in `seeds` (int64, ascending), raw ids (int64) and scores (float64), the highest of each
        seed first, of equal ones the lower raw id first. With ``top=None`` the scores of a seed sum up to 1 less what is left.

    Raises:
        SchemaError: an unknown relation, type or split, or no relation where there are several.
        IdError: a seed that the graph does not have.
        InputError: alpha, eps or top outside their ranges, or a relation between nodes of two types.

    Example:
        >>> import torch
        >>> path = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)
        >>> seed, node, score = ppr(path, [2, 0], alpha=0.5)
        >>> seed.tolist(), node.tolist(), score.tolist()
        ([0, 0, 0, 1], [2, 0, 1, 0], [0.5, 0.25, 0.25, 1.0])
    """
    graph = source_of(data, edge_dir=edge_dir).graph
    push = ForwardPush(graph, _relation(graph, relation), alpha=alpha, eps=eps)
    top = None if top is None else whole(top, "top")
    scores = push.scores(seed_dataset(graph, seeds, node_type=push.node_type).gid, top=top)
    return scores.seed, scores.raw, scores.score


class PPRLoader(SampledLoader):
    """Mini-batches of the nodes that rank highest around each seed, and all edges of the graph among them.

    As of ShaDow with PageRank (Zeng et al. 2021) and PPRGo (Bojchevski et al. 2020): a few nodes that matter, however many there
    are nearby. Every seed has a subgraph of its own, and nothing is drawn: batches depend on the seeds alone, and are the same
    for any number of partitions, hosts and workers.

    Batches are as of `halohop.SubGraphLoader` with `disjoint=True`: seeds first, then the nodes of the first seed, the highest
    first, those of the second, ...; `batch` is the number of each one's seed, `mapping` the positions of
    the seeds. `ppr` (float32) holds the scores.

    Args:
        data: a PyG `Data` or `HeteroData`, or a graph from `halohop.open`.
        top: how many nodes besides the seed, at most.
        input_nodes: as of `halohop.NeighborLoader`, of the type that the relation joins.
        alpha, eps, relation: as of `halohop.ppr`.
        transform: applied to every batch, which has its `mapping` by then.
        input_id: numbers to give out as the batches' `input_id` instead of positions.
        kwargs: seed, world, own_seeds, run, backlog_bytes, batch_size, shuffle, num_workers and the other arguments of
            `halohop.NeighborLoader` that do not concern how neighbours are drawn.

    Raises:
        SchemaError, IdError: as of `halohop.ppr`.
        InputError: arguments that cannot work; the message names the value and the remedy.

    Example:
        >>> import torch
        >>> path = Data(edge_index=torch.tensor([[0, 1, 0], [1, 2, 2]]), num_nodes=3)
        >>> batch = next(iter(PPRLoader(path, 1, torch.tensor([2]), alpha=0.5)))
        >>> batch.n_id.tolist(), batch.e_id.tolist(), batch.ppr.tolist()
        ([2, 0], [2], [0.5, 0.375])
    """

    @as_pyg()
    def __init__(
        self,
        data: Data | HeteroData | Graph,
        top: int,
        input_nodes: InputNodes = None,
        *,
        alpha: float = 0.15,
        eps: float = 1e-4,
        relation: Relation | None = None,
        input_id: Tensor | None = None,
        **kwargs: Unpack[SampledArguments],
    ) -> None:
        def make(graph: Graph, _: int) -> tuple[Sampler, Any]:
            push = ForwardPush(graph, _relation(graph, relation), alpha=alpha, eps=eps)
            examples = seed_dataset(graph, input_nodes, input_id, node_type=push.node_type)
            return PPRSampler(push, top=whole(top, "top")), examples

        super().__init__(data, make, **kwargs)

    def _completed(self, data: Data | HeteroData) -> Data | HeteroData:
        return with_mapping(data)


def _relation(graph: Graph, relation: Relation | None) -> Relation:
    if relation is None and len(graph.schema.edges) == 1:
        return next(iter(graph.schema.edges))
    if relation is None:
        raise SchemaError(f"name the relation to walk along; this graph has {list(graph.schema.edges)}")
    return graph.schema.relation(relation)
