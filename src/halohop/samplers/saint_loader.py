"""`halohop.GraphSAINTNodeSampler` and its kin: PyG's arguments and PyG's batches of random subgraphs."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.flags import checks_flags
from halohop.loading.options import default_workers, whole
from halohop.loading.pipeline import Made, PrefetchConfig
from halohop.pyg.sampled_loader import SampledLoader
from halohop.samplers import saint_counts
from halohop.samplers.saint import By, RandomNodes
from halohop.sampling.batch import Batch
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.sampler import Sampler
from halohop.store.draw import Rules

_NODE_NORM, _EDGE_NORM = "node_norm", "edge_norm"


class GraphSAINTSampler(SampledLoader):
    """What GraphSAINT's samplers have in common (Zeng et al. 2020): random subgraphs with all edges among their nodes.

    Nodes come by ascending id, edges by the position of their destination, then as the graph stores them. Subgraphs are the same
    for any number of partitions, hosts and workers: each is a function of (seed, epoch, index).

    Args:
        data: a PyG `Data`, or a graph of one node type and one relation from `halohop.open`.
        batch_size: how many nodes, edges or walks are drawn for a subgraph, with replacement.
        num_steps: subgraphs per epoch, those of all ranks together.
        sample_coverage: if above 0, so many nodes are sampled beforehand for each node of the graph, to count how often nodes and
            edges occur. Batches have `node_norm` then, by which the losses of their nodes count, and `edge_norm`, which
            multiplies the weights of their edges. This takes as long as making so many batches, in every process, and 4 bytes
            a node and an edge from then on.
        save_dir: a folder where the counts are kept and found again, for any partitioning. (To report the graph, all edges are
            listed once, 24 bytes each.)
        log: whether the counting logs how far it is, at level WARNING, which is shown unless you configure logging otherwise.
        kwargs: transform, seed, world, run, num_workers and the other arguments of `halohop.NeighborLoader` and of
            `torch.utils.data.DataLoader`.

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.
        DatasetError: the file of counts in save_dir is damaged.
    """

    _by: By
    _reads_edge_ids = True  # occurrences are counted by them

    @checks_flags
    def __init__(
        self,
        data: Data | HeteroData | Graph,
        batch_size: int,
        num_steps: int = 1,
        sample_coverage: float = 0,
        save_dir: str | Path | None = None,
        log: bool = True,
        *,
        walk_length: int = 0,
        **kwargs: Any,
    ) -> None:
        size, steps, length = whole(batch_size, "batch_size"), whole(num_steps, "num_steps"), whole(walk_length, "walk_length")
        if steps < 1:
            raise InputError(f"num_steps={num_steps}; an epoch has at least one step")
        if not 0 <= sample_coverage < float("inf"):
            raise InputError(f"sample_coverage={sample_coverage}; give how often each node is to be sampled, or 0 for no norms")
        self.num_steps, self.sample_coverage = steps, sample_coverage
        self._counts: saint_counts.Occurrences | None = None

        def make(graph: Graph, seed: int) -> tuple[Sampler, saint_counts.SaintDataset]:
            nodes = RandomNodes(graph, self._by, size=size, length=length, seed=seed)
            self._key = nodes.node_type, nodes.relation
            sampler = NeighborSampler(graph, Fanouts.uniform([], graph.schema), seed=seed, rules=Rules(subgraph="induced"))
            if sample_coverage > 0:
                self._refuse_norms()
                path = None if save_dir is None else Path(save_dir) / self._file_name(graph, size, length, seed)
                self._counts = self._counted(nodes, sampler, path, log=log)
            return sampler, saint_counts.SaintDataset(nodes, steps)

        super().__init__(data, make, **kwargs)

    def _refuse_norms(self) -> None:
        for name in (_NODE_NORM, _EDGE_NORM):
            if any(name in names for names in self._source.columns.values()):
                raise InputError(f"the graph has an attribute {name!r}, which sample_coverage would overwrite; rename it")

    def _counted(self, nodes: RandomNodes, sampler: Sampler, path: Path | None, *, log: bool) -> saint_counts.Occurrences:
        if path is not None and path.exists():
            return saint_counts.load(path, sampler.graph, nodes)
        report = saint_counts.progress_lines("GraphSAINT norms") if log else lambda part: None
        config = PrefetchConfig(workers=default_workers())
        counts = saint_counts.count(nodes, sampler, coverage=self.sample_coverage, config=config, report=report)
        if path is not None:
            saint_counts.save(counts, path, sampler.graph, nodes)
        return counts

    def _file_name(self, graph: Graph, size: int, length: int, seed: int) -> str:
        """Names all that the counts depend on, the graph by its nodes and edges."""
        (relation,) = graph.schema.edges
        gid, raw = graph.select()
        edges = graph.edges(relation)
        row = torch.empty_like(gid)
        row[gid] = torch.arange(len(gid))
        digest = hashlib.blake2b(digest_size=8)
        for values in (raw, row[edges.src_gid], row[edges.dst_gid]):
            digest.update(values.numpy().tobytes())
        options = f"{size}_{length}_{self.sample_coverage:g}_{seed}" + ("" if graph.book.list_end else "_out")
        return f"{type(self).__name__.lower()}_{options}_{digest.hexdigest()}.npz"

    def _to_user(self, batch: Batch) -> Made[Any]:
        if self._counts is not None:
            name, relation = self._key
            nodes, edges = batch.nodes[name], batch.edges[relation]
            of_nodes = {_NODE_NORM: self._counts.node_norm(nodes)}
            of_edges = {
                _EDGE_NORM: self._counts.edge_norm(
                    edges, ops.gather_rows(nodes.gid, edges.ends_bid[self._sampler.graph.book.list_end])
                )
            }
            batch = replace(
                batch,
                nodes={name: replace(nodes, columns=nodes.columns | of_nodes)},
                edges={relation: replace(edges, columns=edges.columns | of_edges)},
            )
        return super()._to_user(batch)


class GraphSAINTNodeSampler(GraphSAINTSampler):
    """Subgraphs of `batch_size` nodes drawn in proportion to their out-degree. See `GraphSAINTSampler` for the arguments.

    Example:
        >>> import torch
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> loader = GraphSAINTNodeSampler(data, batch_size=3, num_steps=5, sample_coverage=10, log=False)
        >>> [batch.num_nodes <= 3 and len(batch.node_norm) == batch.num_nodes for batch in loader]
        [True, True, True, True, True]
    """

    _by = "node"


class GraphSAINTEdgeSampler(GraphSAINTSampler):
    """Subgraphs of the ends of `batch_size` edges: a node with in-edges, uniformly, and one of its in-edges, uniformly.

    In an undirected graph (stored both ways) the edge {u, v} is drawn in proportion to ``1 / deg(u) + 1 / deg(v)``, as in the
    paper. See `GraphSAINTSampler` for the arguments.

    Example:
        >>> import torch
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> [batch.num_nodes for batch in GraphSAINTEdgeSampler(data, batch_size=1, num_steps=2)]
        [2, 2]
    """

    _by = "edge"


class GraphSAINTRandomWalkSampler(GraphSAINTSampler):
    """Subgraphs of the nodes of `batch_size` random walks of `walk_length` steps from random nodes.

    Walks go against the arrows, see `halohop.random_walk`. See `GraphSAINTSampler` for the other arguments.

    Example:
        >>> import torch
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> [batch.num_nodes for batch in GraphSAINTRandomWalkSampler(data, batch_size=1, walk_length=2, num_steps=2)]
        [3, 3]
    """

    _by = "walk"

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        batch_size: int,
        walk_length: int,
        num_steps: int = 1,
        sample_coverage: float = 0,
        save_dir: str | Path | None = None,
        log: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(data, batch_size, num_steps, sample_coverage, save_dir, log, walk_length=walk_length, **kwargs)
