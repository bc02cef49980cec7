"""What loaders of one machine have in common, and GLT's `NodeLoader`."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from halohop.errors import InputError
from halohop.glt.batches import moved, options_of
from halohop.glt.data.dataset import Dataset
from halohop.glt.loader.transform import with_rows
from halohop.glt.modes import check_place, device_of, seed_of
from halohop.glt.notes import note
from halohop.glt.sampler.base import NodeSamplerInput


class Loader:
    """Finished batches, moved to a device.

    Args:
        batches: goes through them once an epoch.
        device: where they are wanted; None is the GPU in use, or else the CPU.
    """

    def __init__(self, batches: Any, device: Any) -> None:
        self._batches, self.device = batches, device_of(device)

    def __iter__(self) -> Iterator[Any]:
        return (moved(batch, self.device) for batch in self._batches)

    def __len__(self) -> int:
        return len(self._batches)


class NodeLoader(Loader):
    """Batches that a sampler of the user's makes, with the rows of their nodes and edges.

    Args:
        data: where the rows are.
        node_sampler: `sample_from_nodes` makes a batch.
        input_nodes: ids of the seeds, or a mask, or a pair of their type and these.
        device: where batches are wanted.
        kwargs: as of torch's DataLoader.
    """

    def __init__(self, data: Dataset, node_sampler: Any, input_nodes: Any, device: Any = None, **kwargs: Any) -> None:
        kind, seeds = input_nodes if isinstance(input_nodes, tuple) else (None, input_nodes)
        nodes: Any = torch.as_tensor(seeds)
        nodes = nodes.nonzero()[:, 0] if nodes.dtype == torch.bool else nodes

        def made(ids: list[Any]) -> Any:
            inputs = NodeSamplerInput(node=torch.as_tensor(ids), input_type=kind)
            return with_rows(data, node_sampler.sample_from_nodes(inputs), kind)

        super().__init__(DataLoader(nodes, collate_fn=made, **kwargs), device)


def type_of(input_nodes: Any) -> str | None:
    """The type that seeds are named with."""
    named = input_nodes[0] if isinstance(input_nodes, tuple) else input_nodes
    return named if isinstance(named, str) else None


def drawn(
    data: Dataset,
    num_neighbors: Any,
    neighbor_sampler: Any,
    with_edge: bool,
    with_weight: bool,
    strategy: str,
    device: Any,
    seed: int | None,
    input_type: Any = None,
    as_pyg_v1: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """The arguments of halohop's loaders. A `neighbor_sampler` brings its own, as in GLT.

    Args:
        input_type: as of `options_of`.
        kwargs: as of torch's DataLoader.

    Raises:
        InputError: the sampler draws from another graph; and as of `options_of`.
    """
    if strategy != "random":
        note("strategy")
    if neighbor_sampler is not None:
        if neighbor_sampler.graph is not data.graph:
            raise InputError("neighbor_sampler draws from another graph than the Dataset's; make it of dataset.graph")
        num_neighbors, seed = neighbor_sampler.num_neighbors, neighbor_sampler.seed
        with_edge, with_weight = neighbor_sampler.with_edge, neighbor_sampler.with_weight
    if "generator" not in kwargs:
        kwargs["seed"] = seed_of(seed)
    pinned = kwargs.pop("pin_memory", False) or device_of(device).type == "cuda"
    check_place(data.halohop_graph, device)
    options = options_of(data.halohop_graph, input_type, with_edge=with_edge, with_weight=with_weight, as_pyg_v1=as_pyg_v1)
    return {"data": data.halohop_graph, "num_neighbors": num_neighbors, "pin_memory": pinned, **options, **kwargs}
