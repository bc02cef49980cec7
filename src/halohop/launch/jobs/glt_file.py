"""The configuration file of GraphLearn-for-PyTorch's launcher, by its own keys, as a job over ssh.

The program that it starts is `dist_train_sage_supervised.py` or one with its arguments: once on each node, where it starts as
many trainers as the node has visible devices.

The job has ``start = "plain"``, because the script spawns its own trainers, and only ssh offers that. Logins stay with the
user's own ssh.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import PurePosixPath
from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.tables import convert
from halohop.transport.addresses import is_ipv6, is_loopback_host

SCRIPT = "examples/glt/dist_train_sage_supervised.py"
_DATA = "../../../data"  # from the script's folder, as the documents have it
_PORTS = 3  # of the process group, and of two loaders
_PLAIN_NAME = re.compile(r"[\w.-]+")
_DEVICES = re.compile(r"([^\s,]+(,[^\s,]+)*)?")
_NOWHERE = ("0.0.0.0", "::", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class GltFile:
    """What a file says. Lists have a value for each node.

    Args:
        nodes: names or addresses.
        ports, usernames: of the nodes' ssh servers.
        python_bins: interpreters.
        dst_paths: folders below which the script is, and beside which the data are.
        visible_devices: GPUs, as CUDA_VISIBLE_DEVICES has them; their number is that of the trainers, on nodes without GPUs, too.
        dataset: name of the data set, and of its folder.
        in_channel, out_channel: width of its features, and number of its classes.
        node_ranks: of the nodes; none: in the order of `nodes`.

    Raises:
        InputError: lists that do not fit each other, or a value that cannot work.
    """

    nodes: tuple[str, ...]
    ports: tuple[int, ...]
    usernames: tuple[str, ...]
    python_bins: tuple[str, ...]
    dst_paths: tuple[str, ...]
    visible_devices: tuple[str | int, ...]
    dataset: str
    in_channel: int
    out_channel: int
    node_ranks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InputError("nodes is empty; name at least one")
        for name in ("ports", "usernames", "python_bins", "dst_paths", "visible_devices"):
            self._check_length(name)
        if self.node_ranks:
            self._check_length("node_ranks")
            if sorted(self.node_ranks) != [*range(len(self.nodes))]:
                raise InputError(f"node_ranks={[*self.node_ranks]} must have each of 0 to {len(self.nodes) - 1} once")
        for place, node in enumerate(self.nodes):
            if not (_PLAIN_NAME.fullmatch(node) or is_ipv6(node)) or node.startswith("-"):
                raise InputError(f"nodes: {node!r} is no name or address; users of ssh are given in usernames, ports in ports")
            if node in self.nodes[:place]:
                raise InputError(f"node {node} is named twice; name each once, with a visible device for each of its trainers")
        for each in map(str, self.visible_devices):
            if not _DEVICES.fullmatch(each):
                raise InputError(f"visible_devices: {each!r} are no devices; write them like 0,1")
        if len({len(_devices(each)) for each in self.visible_devices}) > 1:
            raise InputError(
                f"visible_devices={[*map(str, self.visible_devices)]} are not as many on each node, but all nodes have as many "
                "trainers; name as many on all"
            )
        if not _PLAIN_NAME.fullmatch(self.dataset):
            raise InputError(f"dataset={self.dataset!r} is no name of a data set; give one like ogbn-products")
        for name, number in (("in_channel", self.in_channel), ("out_channel", self.out_channel)):
            if number < 1:
                raise InputError(f"{name}={number} must be at least 1")

    def _check_length(self, name: str) -> None:
        if (count := len(getattr(self, name))) != len(self.nodes):
            raise InputError(f"{name} has {count} values, but there are {len(self.nodes)} nodes; give one for each node")


@dataclass(frozen=True, slots=True, kw_only=True)
class GltOptions:
    """What the command line says beside the file.

    Args:
        master_addr: of the node with rank 0, as the others reach it; None: its address of `nodes`, as ssh knows it.
        master_port: where ranks meet; the next two ports are for loaders.
        epochs, batch_size: of training.
        script: the program, below `dst_paths`.
    """

    master_addr: str | None = None
    master_port: int = 29500
    epochs: int = 10
    batch_size: int = 2048
    script: str = SCRIPT


def is_glt(table: Mapping[str, Any]) -> bool:
    """Whether a file is of GLT's launcher: most of its keys are.

    Example:
        >>> is_glt({"nodes": ["a"], "ports": [22], "hosts": 3}), is_glt({"hosts": 2, "data": "parts"})
        (True, False)
    """
    return 2 * len({each.name for each in fields(GltFile)} & {*table}) > len(table)


def job_table(table: Mapping[str, Any], options: GltOptions, where: str) -> dict[str, Any]:
    """The job that a file of GLT's launcher means, as a job file has it.

    Args:
        table: the file.
        options: beside it.
        where: what errors call the file.

    Raises:
        InputError: unknown or missing keys, values of another type, or what `GltFile` refuses.
    """
    file = convert(table, GltFile, where)
    ranks = file.node_ranks or tuple(range(len(file.nodes)))
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    _check_master(file, options)
    script = PurePosixPath(options.script)
    hosts: dict[str, dict[str, Any]] = {}
    for number in order:
        folder = PurePosixPath(file.dst_paths[number]) / script.parent
        hosts[file.nodes[number]] = {
            "user": file.usernames[number],
            "port": file.ports[number],
            "python": file.python_bins[number],
            "folder": str(folder),
            "data": str(folder / _DATA / file.dataset / f"{file.dataset}-partitions"),
            "env": {"CUDA_VISIBLE_DEVICES": str(file.visible_devices[number])},
        }
    first = file.nodes[order[0]]
    if options.master_addr is not None:
        hosts[first]["address"] = options.master_addr
    return {
        "engine": "ssh",
        "start": "plain",
        "hosts": [*hosts],
        "run": [script.name, *_words(file, options)],
        "data": hosts[first]["data"],
        "master_port": options.master_port,
        "ssh": {"hosts": hosts, "same": [f"{_DATA}/{file.dataset}/{file.dataset}-label/label.pt"]},
    }


def _words(file: GltFile, options: GltOptions) -> list[str]:
    """The script's arguments, as the documents have them."""
    port, count = options.master_port, len(file.nodes)
    values = {
        "dataset": file.dataset,
        "dataset_root_dir": f"{_DATA}/{file.dataset}",
        "in_channel": file.in_channel,
        "out_channel": file.out_channel,
        "num_dataset_partitions": count,
        "num_nodes": count,
        "node_rank": "{rank}",
        "num_training_procs": len(_devices(file.visible_devices[0])),
        "master_addr": "{master_addr}",
        "training_pg_master_port": port,
        "train_loader_master_port": port + 1,
        "test_loader_master_port": port + 2,
        "epochs": options.epochs,
        "batch_size": options.batch_size,
    }
    return [f"--{name}={value}" for name, value in values.items()]


def _check_master(file: GltFile, options: GltOptions) -> None:
    """
    Raises:
        InputError: an address that other nodes do not reach, or no room for three ports.
    """
    address, port = options.master_addr, options.master_port
    if address is not None and len(file.nodes) > 1 and (address in _NOWHERE or is_loopback_host(address)):
        raise InputError(f"master_addr={address!r} is reached by no other node; give the address that node 0 has for the others")
    if not 0 < port <= (1 << 16) - _PORTS:
        raise InputError(f"master_port={port} is no port with two more after it; give one from 1 to {(1 << 16) - _PORTS}")


def _devices(spelled: str | int) -> list[str]:
    return str(spelled).split(",")
