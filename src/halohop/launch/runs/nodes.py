"""Nodes that are simulated on this machine: each has a folder with its partitions, and a recipe runs on all of them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import torch

from halohop.errors import ClusterError, InputError
from halohop.files.aside import writing
from halohop.files.private import refuse_link
from halohop.files.whole import write_file
from halohop.launch.processes import local
from halohop.launch.processes.starting import Start
from halohop.launch.processes.tasks import Event
from halohop.launch.runs.verifying import check_still_whole
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.wording import counted
from halohop.loading.metrics import address_of
from halohop.recipes.checks import servers_of
from halohop.recipes.config import InferConfig, TrainConfig, to_dict
from halohop.store.disk import read_manifest
from halohop.store.manifest import part_folder
from halohop.store.names import MANIFEST
from halohop.transport.addresses import joined


def run_recipe(
    module: str,
    config: TrainConfig | InferConfig,
    *,
    nodes: int,
    trainers: int,
    console: Console,
    on_event: Callable[[Event], None],
    start: Start,
) -> None:
    """Runs a recipe in ``nodes * trainers`` processes, with a folder of partitions for each node, or the same servers for all.

    Args:
        module: of the recipe, which gets the file of its config.
        config: of the run; each node has a copy with a folder, and a port, of its own.
        nodes, trainers: hosts to simulate, processes on each.
        console: where to show what is done otherwise than asked for.
        on_event, start: as of `local.run`.

    Raises:
        ClusterError: a process failed; names it.
        DatasetError: the data set cannot be used, or has changed meanwhile.
        InputError: fewer GPUs than processes, where GPUs are asked for.
    """
    gpus = torch.cuda.device_count()
    if config.device == "auto" and 0 < gpus < nodes * trainers:  # ranks that share a GPU cannot meet through NCCL
        console.print(f"{nodes * trainers} trainers share {counted(gpus, 'GPU')}: computing on the CPU", style="yellow")
        config = replace(config, device="cpu")
    elif config.device.startswith("cuda") and gpus < nodes * trainers:
        raise InputError(
            f"device={config.device!r}: {nodes * trainers} trainers on this machine, and torch sees {counted(gpus, 'GPU')}; "
            "start as many, or use device='cpu'"
        )
    out = Path(config.out)
    configs, served = [], bool(servers_of(config.parts))
    folders = [] if served else node_folders(Path(config.parts), out / "nodes", nodes)
    places = [str(folder.resolve()) for folder in folders] or [config.parts] * nodes
    for node, place in enumerate(places):
        path = out / "nodes" / f"node-{node}.json"
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        own = replace(config, parts=place)
        if isinstance(own, TrainConfig) and own.metrics is not None:  # nodes that share a machine share its ports
            own = replace(own, metrics=joined(address_of(own.metrics, ahead=node * trainers)))
        write_file(path, msgspec.json.encode(to_dict(own)))
        configs.append([str(path)])
    options: dict[str, Any] = {"logs": out / "logs", "on_event": on_event, "linger": config.deadline_s, "start": start}
    try:
        local.run(module, configs, trainers=trainers, own_token=not served, **options)
    except ClusterError as failure:
        check_still_whole(folders, failure)
        raise


def node_folders(parts: Path, folder: Path, nodes: int) -> list[Path]:
    """A folder per simulated node, with links to the manifest and to the node's partitions only: each has a run of them.

    Raises:
        DatasetError: `parts` is no partitioned data set.
        InputError: less than one node.
    """
    if nodes < 1:
        raise InputError(f"nodes={nodes} is no number of nodes; give at least 1")
    num_parts = read_manifest(parts).num_parts
    if nodes == 1:
        return [parts]
    folders = [folder / f"node-{node}" for node in range(nodes)]
    for node, own in enumerate(folders):
        link_parts(parts, own, [part for part in range(num_parts) if part * nodes // num_parts == node])
    return folders


def link_parts(parts: Path, folder: Path, held: Iterable[int]) -> None:
    """Makes a folder with links to a data set's manifest, and to some of its partitions; what was there goes."""
    refuse_link(folder.parent)
    refuse_link(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.iterdir():
            stale.unlink()
        for name in (MANIFEST, *map(part_folder, held)):
            (folder / name).symlink_to((parts / name).resolve())
