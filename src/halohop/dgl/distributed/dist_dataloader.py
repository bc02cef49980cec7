"""DGL's loaders of several processes: each rank goes through nodes, edges or items of its own."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.dgl.dataloading import DataLoader, EdgeDataLoader, as_edge_prediction_sampler
from halohop.dgl.dataloading.dataloader import OverLoader
from halohop.dgl.distributed.dist_context import num_samplers, process, world
from halohop.dgl.sampling import making


class DistDataLoader(OverLoader):
    """Batches of what a function makes of some items; several at a time, in the order of the items, or of a shuffle of them.

    Each epoch shuffles this rank's items anew. Batches are a function of the seed, the epoch and their number, whatever the
    workers; two ranks draw differently. Ranks may have different numbers of steps: see `join` of models in DDP.

    Args:
        dataset: ids ``[n]`` as a tensor or array, which `collate_fn` gets as a tensor, or a sequence of items, of which it gets
            lists.
        batch_size, shuffle, drop_last: as in `torch.utils.data.DataLoader`.
        collate_fn: makes a batch, such as ``sampler.sample_blocks``; None: the items are it.
        queue_size: how many batches are made ahead.
        given: as of `halohop.FunctionLoader`: `num_workers` (by default the launcher's ``--num_samplers``), `seed`, ...

    Raises:
        InputError: no DistGraph was made before, or arguments that cannot work.

    Example:
        ``loader = DistDataLoader(train_nid.numpy(), 1000, shuffle=True, collate_fn=sampler.sample_blocks)``
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        shuffle: bool = False,
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        queue_size: int | None = None,
        **given: Any,
    ) -> None:
        graph = process.graph("a DistDataLoader")
        items = None if hasattr(dataset, "shape") else list(dataset)
        rows = torch.as_tensor(dataset) if items is None else torch.arange(len(items))

        def make(draws: "halohop.records.Draws", some: Any) -> Any:
            wanted = some if items is None else [items[place] for place in some.tolist()]
            with making(graph, draws):
                return wanted if collate_fn is None else collate_fn(wanted)

        if queue_size is not None:
            given.setdefault("prefetch_factor", queue_size)
        how: dict[str, Any] = {"batch_size": batch_size, "shuffle": shuffle, "drop_last": drop_last}
        self._loader = halohop.FunctionLoader(graph.engine, make, rows, **how, **of_this_rank(given))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loader)


class DistNodeDataLoader(DataLoader):
    """Batches around nodes of this rank, in the order of `DistDataLoader`.

    Args:
        g: a `DistGraph`.
        nids: ids ``[n]``, or by type.
        graph_sampler: of `halohop.dgl.dataloading`, or of your own.
        device: where batches are wanted.
        given: as of `halohop.dgl.dataloading.DataLoader`.
    """

    def __init__(self, g: Any, nids: Any, graph_sampler: Any, device: Any = None, **given: Any) -> None:
        super().__init__(g, nids, graph_sampler, device, **of_this_rank(given))


class DistEdgeDataLoader(EdgeDataLoader):
    """Batches around edges of this rank, in the order of `DistDataLoader`.

    Args:
        g: a `DistGraph`.
        eids: ids ``[n]``, or by relation.
        graph_sampler: of blocks.
        device, given: as of `halohop.dgl.dataloading.EdgeDataLoader`.
    """

    def __init__(self, g: Any, eids: Any, graph_sampler: Any, device: Any = None, **given: Any) -> None:
        super().__init__(g, eids, graph_sampler, device, **of_this_rank(given))


class NodeCollator:
    """What `DistDataLoader` needs for batches around nodes: `dataset` and `collate`.

    Args:
        g, nids, graph_sampler: as of `DistNodeDataLoader`.
    """

    def __init__(self, g: Any, nids: Any, graph_sampler: Any) -> None:
        self.g, self.dataset, self._sampler = g, nids, graph_sampler

    def collate(self, items: Tensor) -> Any:
        """A batch around some of the dataset."""
        return self._sampler.sample(self.g, torch.as_tensor(items))


class EdgeCollator(NodeCollator):
    """The same for batches around edges.

    Args:
        g, eids, graph_sampler: as of `DistEdgeDataLoader`.
        given: as of `halohop.dgl.dataloading.as_edge_prediction_sampler`.
    """

    def __init__(self, g: Any, eids: Any, graph_sampler: Any, **given: Any) -> None:
        super().__init__(g, eids, as_edge_prediction_sampler(graph_sampler, **given))


def of_this_rank(given: dict[str, Any]) -> dict[str, Any]:
    """What loaders are told of the ranks: each brings seeds of its own."""
    if (threads := num_samplers()) > 0:
        given.setdefault("num_workers", threads)
    return {"world": world(), "own_seeds": True, "seed": 0} | given
