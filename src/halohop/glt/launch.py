"""GLT's launcher: `python -m halohop.glt.launch --config FILE.yml` runs `halohop launch` for the nodes of its YAML file.

The program is `dist_train_sage_supervised.py` or one with its arguments. It runs once on each node, and starts a trainer for each
visible device itself.
"""

import sys
from argparse import Namespace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from halohop.errors import InputError
from halohop.files import read_regular, validate
from halohop.job_file import launch, parser_of

_DATA = "../../../data"  # from the script's folder, as the documents have it
_RUN = (
    "{script} --dataset={file.dataset} --dataset_root_dir={data}/{file.dataset} --in_channel={file.in_channel} "
    "--out_channel={file.out_channel} --num_dataset_partitions={nodes} --num_nodes={nodes} --node_rank={{rank}} "
    "--num_training_procs={trainers} --master_addr={{master_addr}} --training_pg_master_port={ports[0]} "
    "--train_loader_master_port={ports[1]} --test_loader_master_port={ports[2]} --epochs={given.epochs} "
    "--batch_size={given.batch_size}"
)
"""The script and its arguments, as the documents have them."""


class GltFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file says. Lists have a value for each node.

    Args:
        nodes: names or addresses.
        ports, usernames: of the nodes' ssh servers.
        python_bins: interpreters.
        dst_paths: folders below which the script is, and next to which the data are.
        visible_devices: GPUs, as CUDA_VISIBLE_DEVICES has them. Their number is that of the trainers, on nodes without GPUs, too.
        dataset: name of the data set, and of its folder.
        in_channel, out_channel: width of its features, and number of its classes.
        node_ranks: of the nodes; none: in the order of `nodes`.
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
        count = len({*self.nodes})
        for name in ("nodes", "ports", "usernames", "python_bins", "dst_paths", "visible_devices"):
            if (length := len(getattr(self, name))) != count or not count:
                raise InputError(f"{name} has {length} values, but there are {count} nodes; give one for each node, named once")
        if self.node_ranks and sorted(self.node_ranks) != [*range(count)]:
            raise InputError(f"node_ranks={[*self.node_ranks]} must have each of 0 to {count - 1} once")
        if len({_count(devices) for devices in self.visible_devices}) > 1:
            raise InputError(f"visible_devices={[*self.visible_devices]} must name as many devices on each node")


def job_table(given: Namespace) -> dict[str, Any]:
    """The job that a file and its options mean, as a job file has it.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: it is not YAML, or has unknown or missing keys or values that cannot work.
    """
    file = _read(given.config)
    ranks = file.node_ranks or range(len(file.nodes))
    script = PurePosixPath(given.script)
    hosts: dict[str, dict[str, Any]] = {}
    for number in sorted(range(len(ranks)), key=ranks.__getitem__):
        folder = PurePosixPath(file.dst_paths[number]) / script.parent
        hosts[file.nodes[number]] = {
            "user": file.usernames[number],
            "port": file.ports[number],
            "python": file.python_bins[number],
            "folder": str(folder),
            "data": str(folder / _DATA / file.dataset / f"{file.dataset}-partitions"),
            "env": {"CUDA_VISIBLE_DEVICES": str(file.visible_devices[number])},
        }
    first = hosts[next(iter(hosts))]
    first |= {"address": given.master_addr} if given.master_addr else {}
    ports = range(given.master_port, given.master_port + 3)
    known = {"script": script.name, "data": _DATA, "nodes": len(hosts), "trainers": _count(file.visible_devices[0])}
    return {
        "engine": "ssh",
        "start": "plain",
        "hosts": [*hosts],
        "run": _RUN.format(file=file, given=given, ports=ports, **known),
        "data": first["data"],
        "master_port": given.master_port,
        "ssh": {"hosts": hosts, "same": [f"{_DATA}/{file.dataset}/{file.dataset}-label/label.pt"]},
    }


def _count(devices: str | int) -> int:
    return str(devices).count(",") + 1


def _read(path: str) -> GltFile:
    try:
        import yaml
    except ImportError as error:
        raise InputError(f"{path} needs PyYAML: pip install 'halohop[yaml]'") from error
    try:
        return validate(yaml.safe_load(read_regular(Path(path))), GltFile, path)
    except yaml.YAMLError as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def main() -> None:
    """Runs the command."""
    parser = parser_of("Run the program of a configuration file of GLT's launcher on its nodes.")
    parser.add_argument("--config", required=True, help="YAML file of the nodes.")
    parser.add_argument("--master-addr", "--master_addr", help="Address of node 0 for the other nodes.")
    parser.add_argument("--master-port", "--master_port", type=int, default=29500, help="First of three ports on node 0.")
    parser.add_argument("--epochs", type=int, default=10, help="Training epochs.")
    parser.add_argument("--batch-size", "--batch_size", type=int, default=2048, help="Seeds per batch.")
    parser.add_argument("--script", default="examples/glt/dist_train_sage_supervised.py", help="Program, below dst_paths.")
    launch(parser, job_table, sys.argv[1:])


if __name__ == "__main__":
    main()
