"""What loaders of one machine have in common."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from halohop.errors import InputError
from halohop.glt.batches import moved, to_glt, to_pyg_v1
from halohop.glt.data.dataset import Dataset
from halohop.glt.modes import device_of, seed_of
from halohop.glt.notes import note


class NodeLoader:
    """Batches on a device; `NeighborLoader` and its kin are made of a loader of halohop's.

    Args:
        batches: finished batches, as often as they are gone through.
        device: where they are wanted; None is the GPU in use, or else the CPU.
    """

    def __init__(self, batches: Any, device: Any) -> None:
        self._batches, self.device = batches, device_of(device)

    def __iter__(self) -> Iterator[Any]:
        return (moved(batch, self.device) for batch in self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def drawn(
    data: Dataset,
    num_neighbors: Any,
    neighbor_sampler: Any,
    with_edge: bool,
    with_weight: bool,
    strategy: str,
    device: Any,
    seed: int | None,
    inputs: Any,
    as_pyg_v1: bool = False,
    **kwargs: Any,
) -> dict[str, Any]:
    """The arguments of halohop's loaders. A `neighbor_sampler` brings its own, as in GLT.

    Args:
        inputs: nodes or edges, with their type where there are several.
        kwargs: as of torch's DataLoader.

    Raises:
        InputError: the sampler draws from another graph; or PyG's first format is asked for of several types.
    """
    if strategy != "random":
        note("strategy")
    if neighbor_sampler is not None:
        if neighbor_sampler.graph is not data.graph:
            raise InputError("neighbor_sampler draws from another graph than the Dataset's; make it of dataset.graph")
        num_neighbors, seed = neighbor_sampler.num_neighbors, neighbor_sampler.seed
        with_edge, with_weight = neighbor_sampler.with_edge, neighbor_sampler.with_weight
    if as_pyg_v1:
        if isinstance(data.graph, dict):
            raise InputError("as_pyg_v1=True is for graphs of one type of nodes; leave it out, and read HeteroData")
        kwargs |= {"expand": "all", "node_columns": [], "edge_columns": []}
    else:
        kwargs |= data.columns(inputs[0] if isinstance(inputs, tuple) else inputs, with_edge)
    if "generator" not in kwargs:
        kwargs["seed"] = seed_of(seed)
    kwargs["pin_memory"] = kwargs.get("pin_memory", False) or device_of(device).type == "cuda"
    made = partial(to_pyg_v1 if as_pyg_v1 else to_glt, edge_dir=data.edge_dir, with_edge=with_edge)
    weight = data.weight_attr(with_weight)
    return {"data": data.halohop_graph, "num_neighbors": num_neighbors, "weight_attr": weight, "transform": made, **kwargs}
