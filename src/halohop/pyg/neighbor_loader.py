"""`halohop.NeighborLoader`: PyG's arguments and PyG's batches, over graphs that lie anywhere."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.sampler import NodeSamplerInput

from halohop.cluster.graph import Graph
from halohop.loading.examples import SeedDataset
from halohop.pyg.inputs import InputNodes, rules_of, seed_dataset
from halohop.pyg.sampled_loader import NeighborhoodLoader, refuse_neighbor_sampler
from halohop.pyg.sampler import HalohopSampler
from halohop.store.draw import Expand
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import RAW_ID, NodeType, Relation


class NeighborLoader(NeighborhoodLoader, PyGNeighborLoader):  # type: ignore[misc]
    """Mini-batches of sampled neighbourhoods, as `torch_geometric.loader.NeighborLoader` gives them.

    Batches are the same for any number of partitions, hosts and workers: each is a function of (seed, epoch, batch index).

    Args:
        data: a PyG `Data` or `HeteroData`, or a graph from `halohop.open`.
        num_neighbors: neighbours per hop, or a dict with such a list per relation; -1 takes all.
        input_nodes: None (all nodes), raw ids, a bool mask, or the name of a stored split such as "train"; in heterogeneous
            graphs a node type, or a pair of it and any of these.
        input_time: the time of every input node; by default the nodes' own `time_attr`.
        replace: draw with replacement.
        subgraph_type: which edges a batch has, as a word or PyG's `SubgraphType`; its nodes are the same in any case.
            "directional": the edges that were drawn. "induced" (or `directed=False`): all edges of the graph among the batch's
            nodes, whatever their weights, ordered by destination, then as the graph stores them; not with times.
            "bidirectional": the drawn edges and their flips, each pair of ends once, ordered by destination, then by source.
            Flips of a relation ("a", "to", "b") belong to ("b", "rev_to", "a"), and the other way round; those of a relation
            between nodes of one type without such a partner belong to itself. A flip has the `e_id` and the features of its
            original. Where that is an edge of the partner, `e_flipped` says so. Batches of "induced" and "bidirectional" have no
            `num_sampled_edges`, and layers cannot be trimmed.
        disjoint: every seed gets a subgraph of its own; `batch` tells which one a node belongs to.
        time_attr: the attribute of edges or nodes that holds times: no edge or neighbour later than a seed is sampled around it.
            Implies `disjoint`.
        temporal_strategy: "uniform", or "last": the most recent neighbours instead of random ones.
        weight_attr: the attribute of edges that holds weights to draw by, at least 0; 0 is never drawn.
        transform: applied to every batch, by the workers that make them.
        transform_sampler_output: applied to PyG's `SamplerOutput` before the rows are collected.
        is_sorted, filter_per_worker: accepted for PyG's sake; the batches do not depend on them.
        seed: of draws and shuffle; None takes it from `generator`, or 0.
        expand: "new" expands the nodes that the previous hop found (PyG); "all" draws again for all nodes so far (DGL).
        pad: fixed shapes, for torch.compile and CUDA graphs: "measured", "bound" or a `halohop.Padding`. Empty places have `n_id`
            and `e_id` -1, `node_mask`, `edge_mask` and `seed_mask` tell them, and `batch_size` counts places.
        method: "neighbor" (Hamilton et al. 2017), or "labor" (LABOR-0, Balin & Catalyurek 2023): as many neighbours of each node,
            each as likely as before, but nodes of a hop choose alike, so that a batch has fewer different nodes.
        layer_dependency: with "labor" the hops choose alike, too.
        world: the ranks that share the input nodes, e.g. `halohop.World.from_env()` under torchrun; by default this loader
            alone goes through all of them, as in PyG.
        own_seeds: with `world`: each rank brings input nodes of its own and goes through all of them, in as many steps as they
            take (see torch's `Join`). Batches are numbered among those of all ranks, so that no two ranks draw alike.
        run: "threads" (default), "processes" (forked workers, for transforms that keep Python busy; Linux, and graphs without
            other hosts), or "inline".
        backlog_bytes: what the batches that are made ahead may weigh together; by default a sixteenth of the trainer's share of
            the machine's memory, at most 4 GiB.
        kwargs: batch_size, shuffle, drop_last, num_workers, prefetch_factor, persistent_workers, sampler, batch_sampler,
            generator, pin_memory, timeout, worker_init_fn as in `torch.utils.data.DataLoader`.

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.

    Example:
        >>> import torch
        >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> batch = next(iter(NeighborLoader(data, [-1], input_nodes=torch.tensor([2]))))
        >>> batch.n_id.tolist(), batch.edge_index.tolist()
        ([2, 1], [[1], [0]])
    """

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        num_neighbors: Sequence[int] | Mapping[Relation, Sequence[int]],
        input_nodes: InputNodes = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: Any = None,
        directed: bool = True,
        *,
        input_id: Tensor | None = None,
        seed: int | None = None,
        expand: Expand = "new",
        method: str = "neighbor",
        layer_dependency: bool = False,
        **kwargs: Any,
    ) -> None:
        refuse_neighbor_sampler(neighbor_sampler)
        self.input_nodes, self.input_time, self.input_id = input_nodes, input_time, input_id
        rules = rules_of(
            replace=replace,
            expand=expand,
            disjoint=disjoint,
            weight_attr=weight_attr,
            time_attr=time_attr,
            temporal_strategy=temporal_strategy,
            method=method,
            layer_dependency=layer_dependency,
            subgraph_type=subgraph_type,
            directed=directed,
        )

        def seeds(graph: Graph, _: int) -> SeedDataset:
            self._dataset = seed_dataset(graph, input_nodes, input_id, time=input_time, time_attr=time_attr)
            return self._dataset

        super().__init__(
            data,
            num_neighbors,
            seeds,
            rules=rules,
            transform=transform,
            filter_per_worker=filter_per_worker,
            transform_sampler_output=transform_sampler_output,
            seed=seed,
            **kwargs,
        )

    @property
    def node_sampler(self) -> HalohopSampler:
        """What batches are sampled by, as a sampler of PyG's; to look at, and to sample with."""
        return self._as_pyg_sampler()

    @property
    def input_type(self) -> NodeType | None:
        """The type of the input nodes; None in homogeneous graphs."""
        return None if self._source.graph.schema.is_homogeneous else self._dataset.node_type

    @property
    def input_data(self) -> NodeSamplerInput:
        """The input nodes as PyG's record: their ids, times and type."""
        dataset, graph = self._dataset, self._source.graph
        query = RowQuery(table=dataset.node_type, columns=(RAW_ID,), gid=dataset.gid)
        ((raw,),) = graph.fetch(FetchRequest(queries=(query,)))
        return NodeSamplerInput(input_id=dataset.input_id, node=raw, time=dataset.time, input_type=self.input_type)
