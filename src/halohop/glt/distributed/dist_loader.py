"""GLT's `DistLoader`: batches of a graph that lies with several processes, or on servers."""

from dataclasses import dataclass
from typing import Any

import halohop
from halohop.errors import InputError
from halohop.glt.batches import moved, options_of
from halohop.glt.distributed.dist_client import connected, local_input, remote_world
from halohop.glt.distributed.dist_context import required_context
from halohop.glt.distributed.dist_dataset import DistDataset
from halohop.glt.distributed.dist_options import (
    AllDistSamplingWorkerOptions,
    CollocatedDistSamplingWorkerOptions,
    RemoteDistSamplingWorkerOptions,
)
from halohop.glt.loader.link_loader import link_options
from halohop.glt.modes import device_of


@dataclass(frozen=True, slots=True)
class Opened:
    """What worker options lead to.

    Args:
        graph: to draw from.
        world: this process among those that draw.
        own_seeds: whether each brings seeds of its own; otherwise they divide equal ones.
    """

    graph: halohop.Graph
    world: halohop.World
    own_seeds: bool = True


def opened(data: DistDataset | None, options: AllDistSamplingWorkerOptions) -> Opened:
    """The graph of the other workers and this one, or that of the servers.

    Raises:
        InputError: the process has no context yet, or no dataset where it is a worker.
    """
    if isinstance(options, RemoteDistSamplingWorkerOptions):
        world, own_seeds = remote_world(options)
        return Opened(connected("RemoteDistSamplingWorkerOptions"), world, own_seeds)
    context = required_context("a distributed loader")
    if data is None:
        raise InputError("data=None: only clients of servers have no dataset; give a DistDataset")
    return Opened(graph=data.opened(options), world=context.world)


class DistLoader:
    """Batches of this process's seeds. `iter` begins an epoch, `next` takes a batch; what is left of an epoch before is dropped.

    Args:
        data: the partition of this process; None for clients of servers.
        input_data: a `NodeSamplerInput` or `EdgeSamplerInput`; at clients also a `RemoteSamplerInput`, or one for each server.
        sampling_config: what batches hold.
        to_device: where they are wanted; None is the GPU in use, or else the CPU.
        worker_options: where they are made; None: by one thread of this process.

    Raises:
        InputError: no context yet, weights that are not stored, another direction than the graph was divided for, or other
            arguments that cannot work.
        IdError: seeds that the graph does not have.
        ClusterError, TransportError: another process does not come, or does not fit to this one.
    """

    def __init__(
        self,
        data: DistDataset | None,
        input_data: Any,
        sampling_config: Any,
        to_device: Any = None,
        worker_options: AllDistSamplingWorkerOptions | None = None,
    ) -> None:
        options, config = worker_options or CollocatedDistSamplingWorkerOptions(), sampling_config
        self.to_device = device_of(to_device)
        source, input_data = opened(data, options), local_input(input_data, options)
        self._batches: Any = None
        wanted = {"with_edge": config.with_edge, "with_weight": config.with_weight, "features": config.collect_features}
        how = options.loading() | options_of(source.graph, input_data.input_type, **wanted)
        how["pin_memory"] = how.get("pin_memory", False) or self.to_device.type == "cuda"
        self._loader = made(source.graph, input_data, config, world=source.world, own_seeds=source.own_seeds, **how)

    def __len__(self) -> int:
        """Batches an epoch, of this process."""
        return len(self._loader)

    def __iter__(self) -> "DistLoader":
        self.shutdown()
        self._batches = iter(self._loader)
        return self

    def __next__(self) -> Any:
        if self._batches is None:
            iter(self)
        return moved(next(self._batches), self.to_device)

    def shutdown(self) -> None:
        """Ends the epoch; batches that are made ahead are dropped. The graph stays open for other loaders and processes."""
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()


def made(graph: halohop.Graph, inputs: Any, config: Any, **how: Any) -> Any:
    """The loader of halohop's that a sampling config means."""
    kind = config.sampling_type.name
    how |= {"batch_size": config.batch_size, "shuffle": config.shuffle, "drop_last": config.drop_last}
    how |= {"edge_dir": config.edge_dir, "seed": config.seed or 0}
    if kind == "LINK":
        ends = inputs.row, inputs.col
        links = link_options(ends if inputs.input_type is None else (inputs.input_type, ends), inputs.label, inputs.neg_sampling)
        return halohop.LinkNeighborLoader(graph, config.num_neighbors, **links, **how)
    if kind not in ("NODE", "SUBGRAPH"):
        raise InputError(f"sampling_type={kind} is none of NODE, LINK, SUBGRAPH")
    seeds = inputs.node if inputs.input_type is None else (inputs.input_type, inputs.node)
    return (halohop.NeighborLoader if kind == "NODE" else halohop.SubGraphLoader)(graph, config.num_neighbors, seeds, **how)
