"""`dgl.dataloading.DataLoader`, and the loaders of before: which of halohop's loaders makes the batches."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.collectives import world_of
from halohop.dgl.dataloading.base import BlockSampler, Sampler, set_dst_lazy_features
from halohop.dgl.dataloading.blocks import Prefetched, blocks_of
from halohop.dgl.dataloading.edge_sampler import EdgePredictionSampler, as_edge_prediction_sampler
from halohop.dgl.dataloading.neighbor_sampler import (
    LaborSampler,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
)
from halohop.dgl.graph import DGLGraph
from halohop.dgl.ids import edge_ids, node_ids
from halohop.dgl.inherited import returned
from halohop.dgl.notes import note
from halohop.dgl.sampling import making
from halohop.errors import InputError

DRAWN = (NeighborSampler, MultiLayerNeighborSampler, MultiLayerFullNeighborSampler, LaborSampler)
"""Samplers whose batches `halohop.NeighborLoader` makes, unless a class of the user's derives from them."""


class OverLoader:
    """A loader of DGL's over one of halohop's, which has what is not said here."""

    _loader: Any

    def __len__(self) -> int:
        """Batches an epoch, of this rank."""
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)


class DataLoader(OverLoader):
    """Mini-batches of a graph that a sampler makes, several at a time.

    They are a function of the seed, the epoch and the number of the batch: the same for any number of workers and partitions.

    Args:
        graph: a `DGLGraph` or a `DistGraph`.
        indices: ids of nodes, or of edges for a sampler of edges ``[n]``; or by type or relation.
        graph_sampler: what makes the batches.
        device: where batches are wanted; None is where the graph is.
        use_ddp: ranks of torch.distributed share the ids: each epoch deals them anew, in as many steps on each rank.
        ddp_seed: of shuffle and draws.
        batch_size, drop_last, shuffle: as in `torch.utils.data.DataLoader`.
        num_workers: threads that make batches; 0: each is made when it is asked for. By default halohop chooses for its own
            samplers, and takes 0 for others.
        use_prefetch_thread, use_alternate_streams, pin_prefetcher, use_cpu_worker_affinity: change nothing, and say so.
        use_uva, gpu_cache: need a GPU, and change nothing there, and say so.
        kwargs: those of `halohop.FunctionLoader`: `run`, `world`, `own_seeds`, `locality`, `prefetch_factor`, `pin_memory`,
            `persistent_workers`, `worker_init_fn`, `timeout`, `generator`, ...

    Raises:
        InputError, IdError, SchemaError: arguments that cannot work.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> g.ndata["feat"] = torch.eye(4)
        >>> sampler = dgl.dataloading.NeighborSampler([2, 2], prefetch_node_feats=["feat"])
        >>> for input_nodes, output_nodes, blocks in DataLoader(g, torch.arange(4), sampler, batch_size=2):
        ...     input_nodes.tolist(), list(blocks[0].srcdata["feat"].shape)
        ([0, 1, 3, 2], [4, 4])
        ([2, 3, 1, 0], [4, 4])
    """

    def __init__(
        self,
        graph: Any,
        indices: Any,
        graph_sampler: Sampler,
        device: Any = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int = 1,
        drop_last: bool = False,
        shuffle: bool = False,
        use_prefetch_thread: bool | None = None,
        use_alternate_streams: bool | None = None,
        pin_prefetcher: bool | None = None,
        use_uva: bool = False,
        use_cpu_worker_affinity: bool = False,
        gpu_cache: Mapping[str, int] | None = None,
        **kwargs: Any,
    ) -> None:
        given: dict[str, Any] = {"use_prefetch_thread": use_prefetch_thread, "use_alternate_streams": use_alternate_streams}
        given |= {"pin_prefetcher": pin_prefetcher, "use_cpu_worker_affinity": use_cpu_worker_affinity}
        given |= {"use_uva": use_uva, "gpu_cache": gpu_cache}
        if not (hasattr(graph, "canonical_etypes") and callable(getattr(graph_sampler, "sample", None))):
            raise InputError(
                f"DataLoader({graph!r}, indices, {graph_sampler!r}): give a graph, ids, and a sampler with sample(g, ids)"
            )
        there = getattr(graph, "device", torch.device("cpu"))
        device = there if device is None and there.type != "cpu" else device
        self.device = None if device is None else torch.device(device)
        wanted = {"use_uva": use_uva, "gpu_cache": gpu_cache, f"device={device!r}": self.device and self.device.type == "cuda"}
        for name, value in wanted.items():
            if value and not torch.cuda.is_available():
                raise InputError(f"{name} needs a GPU, and torch finds none here; leave it out")
        for option in (option for option, value in given.items() if value):
            note(option)
        self.graph, self.indices, self.graph_sampler = graph, indices, graph_sampler
        if use_ddp:
            kwargs.setdefault("world", world_of(None))
        kwargs |= {"batch_size": batch_size, "drop_last": drop_last, "shuffle": shuffle}
        generator = kwargs.get("generator")
        kwargs.setdefault("seed", ddp_seed if generator is None else generator.initial_seed())
        self._sent = kwargs.get("run") == "processes"
        found = _neighbors(graph, indices, graph_sampler, kwargs)
        self._begin: Callable[[], Any]
        self._loader, self._begin = found or (_made(graph, indices, graph_sampler, kwargs), _nothing)

    def __iter__(self) -> Iterator[Any]:
        self._begin()
        for batch in self._loader:
            yield _arrived(batch, self.graph if self._sent else None, self.device)
            del batch


class NodeDataLoader(DataLoader):
    """`DataLoader` over nodes, by its name of before DGL 1.0.

    Args:
        g, nids, graph_sampler, device, kwargs: `graph`, `indices`, `graph_sampler`, `device` and the others of `DataLoader`.
    """

    def __init__(self, g: Any, nids: Any, graph_sampler: Sampler, device: Any = None, **kwargs: Any) -> None:
        super().__init__(g, nids, graph_sampler, device, **kwargs)


class EdgeDataLoader(DataLoader):
    """`DataLoader` over edges, by its name of before DGL 1.0.

    Args:
        g, eids, graph_sampler, device, kwargs: `graph`, `indices`, a sampler of blocks, `device` and the others of `DataLoader`.
        g_sampling: the graph that blocks are sampled from, with the nodes of `g`; None for `g`.
        exclude, reverse_eids, reverse_etypes, negative_sampler: as of `as_edge_prediction_sampler`, with ids of `g_sampling`.

    Example:
        >>> import halohop.dgl as dgl
        >>> g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0]))
        >>> sampler, others = dgl.dataloading.MultiLayerFullNeighborSampler(1), dgl.dataloading.negative_sampler.Uniform(2)
        >>> loader = EdgeDataLoader(g, [1, 3], sampler, negative_sampler=others, batch_size=2)
        >>> input_nodes, positive, negative, blocks = next(iter(loader))
        >>> positive.num_edges(), negative.num_edges()
        (2, 4)
    """

    def __init__(
        self,
        g: Any,
        eids: Any,
        graph_sampler: BlockSampler,
        device: Any = None,
        g_sampling: Any = None,
        exclude: Any = None,
        reverse_eids: Any = None,
        reverse_etypes: Any = None,
        negative_sampler: Any = None,
        **kwargs: Any,
    ) -> None:
        sampler = as_edge_prediction_sampler(graph_sampler, exclude, reverse_eids, reverse_etypes, negative_sampler)
        sampler.g_sampling = g_sampling
        super().__init__(g, eids, sampler, device, **kwargs)


def _nothing() -> None:
    """There is nothing to be done before an epoch."""


def _neighbors(g: Any, indices: Any, sampler: Any, kwargs: dict[str, Any]) -> Any:
    """The loader that draws as the sampler says and gives views, and what gives it the columns as they are at the beginning of an
    epoch; None where the sampler makes its batches itself."""
    if type(sampler) not in DRAWN or sampler.samples_itself or (isinstance(indices, Mapping) and len(indices) != 1):
        return None
    engine = _engine(g, sampler.weight)
    kind = next(iter(indices)) if isinstance(indices, Mapping) else g.ntypes[0]
    nodes = node_ids(g, indices)[kind]
    num_neighbors: Any = sampler.by_relation(g)
    if engine.schema.is_homogeneous:
        ((_, num_neighbors),) = num_neighbors.items()

    feats = sampler.prefetch_node_feats, sampler.prefetch_edge_feats

    def asked() -> Prefetched:
        return Prefetched.of(g, sampler.weight, *feats)

    def made(batch: Any) -> Any:
        found = blocks_of(batch, g, prefetched)
        set_dst_lazy_features(found[2][-1], sampler.prefetch_labels)
        return found

    prefetched = asked()
    loader = halohop.NeighborLoader(
        engine,
        num_neighbors,
        nodes if engine.schema.is_homogeneous else (kind, nodes),
        expand="all",
        replace=sampler.replace,
        method=sampler.method,
        weight_attr=sampler.weight,
        transform=made,
        **prefetched.columns(homogeneous=engine.schema.is_homogeneous),
        **kwargs,
    )
    return loader, asked


def _made(g: Any, indices: Any, sampler: Any, kwargs: dict[str, Any]) -> Any:
    """The loader whose batches the sampler makes."""
    prob = getattr(sampler, "weight", None)
    seeds = _seeds(g, indices, edges=isinstance(sampler, EdgePredictionSampler))

    def make(draws: "halohop.records.Draws", some: Any) -> Any:
        with making(g, draws, prob):
            return sampler.sample(g, _in_idtype(g, some))

    if "run" not in kwargs:
        kwargs.setdefault("num_workers", 0)
    return halohop.FunctionLoader(_engine(g, prob), make, seeds, **kwargs)


def _engine(g: Any, prob: str | None) -> "halohop.Graph":
    return g.engine_for(prob) if isinstance(g, DGLGraph) else g.engine


def _seeds(g: Any, indices: Any, *, edges: bool) -> Any:
    """What there is to go through: ids, or ids by type or relation."""
    if not isinstance(indices, Mapping):
        return next(iter(edge_ids(g, indices).values())) if edges else torch.as_tensor(indices)
    if edges or not all(kind in g.ntypes for kind in indices):
        found: dict[Any, Tensor] = {**edge_ids(g, indices)}
    else:
        found = {kind: ids for kind, ids in node_ids(g, indices).items() if kind in indices}
    return next(iter(found.values())) if g.engine.schema.is_homogeneous else found


def _in_idtype(g: Any, seeds: Any) -> Any:
    if isinstance(seeds, Mapping):
        return {kind: ids.to(g.idtype) for kind, ids in seeds.items() if len(ids)}
    return seeds.to(g.idtype) if seeds.dtype in (torch.int32, torch.int64) else seeds


def _arrived(value: Any, g: Any, device: torch.device | None) -> Any:
    """A batch where it is wanted, with the columns of its graph if it comes from another process (`g`)."""
    if g is None and device is None:
        return value
    if isinstance(value, DGLGraph):
        value = value if g is None else returned(value, g)
        return value if device is None else value.to(device)
    if isinstance(value, Tensor):
        return value if device is None else value.to(device)
    if isinstance(value, Mapping):
        return {key: _arrived(part, g, device) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_arrived(part, g, device) for part in value)
    return value
