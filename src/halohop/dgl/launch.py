"""DGL's launcher: `python -m halohop.dgl.launch` takes the options of its `tools/launch.py` and runs `halohop launch` over ssh.

One server process per host replaces DGL's `num_servers`, with as many handlers, because kernels run in parallel. As in DGL, the
command goes to bash on each host, with torch's launcher inserted after its Python.
"""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halohop.cores import usable_cores
from halohop.errors import InputError
from halohop.files import read_regular
from halohop.job_file import launch, parser_of

_BASH = "import os, sys; os.execlp('bash', 'bash', '-c', 'PATH=\"${0%/*}:$PATH\"; ' + sys.argv[1], sys.executable)"
"""Runs a command in which `python3` is the interpreter of the job."""
_RANKS = "--nnodes={hosts} --node_rank={rank} --master_addr={master_addr} --master_port={master_port}"
_PYTHON = re.compile(r"(?:^|(?<=[\s;&|(]))(?:\S*/)?python[\d.]*(?:\s+-u)?(?=\s)")
_SCRIPT = re.compile(r"^\S*python[\d.]*\s+(?:-u\s+)?([\w./-]+\.py)(?:\s|$)")
_HOST = re.compile(r"([\w.-]+|\[?[\da-fA-F]*:[\da-fA-F]*:[\w.:%]*\]?)(?:\s+(\d+))?")


def job_table(given: Namespace) -> dict[str, Any]:
    """The job that a command line means, as a job file has it.

    Raises:
        FileNotFoundError: there is no ip_config.
        InputError: a number that is too small, a line that cannot work, or a command without Python.
    """
    trainers, servers = given.num_trainers, given.num_servers
    if trainers < 1 or min(given.num_samplers, servers) < 0:
        raise InputError("num_trainers must be at least 1, num_samplers and num_servers at least 0")
    workspace = Path.cwd() / Path(given.workspace).expanduser()
    here = Path(given.ip_config)
    hosts = read_ip_config(found if (found := workspace / here).exists() else here)
    data, same = partitions(given.part_config)
    table: dict[str, Any] = {
        "engine": "ssh",
        "hosts": [*hosts],
        "start": "plain",
        "run": ["-c", _BASH, with_ranks(given.command, trainers)],
        "folder": str(workspace),
        "data": str(workspace / data),
        "master_port": 0,
        "env": _environment(given, len(hosts)),
        "ssh": {"hosts": ssh_hosts(hosts, given), "same": same + _SCRIPT.findall(given.command)},
    }
    if servers:
        threads = servers * given.num_server_threads or max(len(usable_cores()) // trainers, servers)
        table["servers"] = {"count": len(hosts), "port": 0, "options": {"threads": threads}}
    return table


def with_ranks(command: str, num_trainers: int) -> str:
    """A command with torch's launcher after its first Python.

    Raises:
        InputError: it has no Python, or a launcher of its own.

    Example:
        >>> with_ranks("cd src && python3 -u train.py --lr 0.01", 2)[:64]
        'cd src && python3 -u -m torch.distributed.run --nproc_per_node=2'
    """
    python = _PYTHON.search(command)
    if python is None or "torch.distributed." in command:
        raise InputError(f"the command {command!r} must start Python, and no launcher; write 'python3 train.py --lr 0.01'")
    ranks = f" -m torch.distributed.run --nproc_per_node={num_trainers} {_RANKS}"
    return command[: python.end()] + ranks + command[python.end() :]


def read_ip_config(path: Path) -> dict[str, int]:
    """The hosts of DGL's `ip_config.txt` and the ports of their servers; 0: a free port.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: a line cannot work.
    """
    found: dict[str, int] = {}
    for number, line in enumerate(read_regular(path).decode("utf-8-sig").splitlines(), start=1):
        if not (text := line.partition("#")[0].strip()):
            continue
        entry = _HOST.fullmatch(text)
        if entry is None or not 0 < int(entry[2] or 1) < 1 << 16:
            raise InputError(f"{path}, line {number}: {text!r} is not a host; write 10.0.0.7, or 10.0.0.7 30050")
        if (host := entry[1].strip("[]")) in found:
            raise InputError(f"{path}, line {number}: {host} is named twice; set num_trainers to start several on a host")
        found[host] = int(entry[2] or 0)
    return found


def partitions(part_config: str) -> tuple[Path, list[str]]:
    """The folder of the partitions, and the JSON file in it if that is what was named."""
    return (Path(part_config).parent, [part_config]) if part_config.endswith(".json") else (Path(part_config), [])


def ssh_hosts(hosts: Mapping[str, int], given: Namespace) -> dict[str, dict[str, Any]]:
    """The table [ssh.hosts] of a job."""
    login = {"user": given.ssh_username, "port": given.ssh_port}
    return {host: {key: value for key, value in {**login, "server_port": port}.items() if value} for host, port in hosts.items()}


def options(description: str) -> ArgumentParser:
    """A parser with the options that DGL's commands share."""
    parser = parser_of(description)
    parser.add_argument("--workspace", required=True, help="Folder on all hosts.")
    parser.add_argument("--ip_config", required=True, help="File with a line IP [PORT] for each host.")
    parser.add_argument("--part_config", required=True, help="JSON file of the partitions, or their folder.")
    parser.add_argument("--ssh_port", type=int, help="Port of ssh on the hosts.")
    parser.add_argument("--ssh_username", help="User name on the hosts.")
    return parser


def _environment(given: Namespace, num_hosts: int) -> dict[str, str]:
    """What DGL's launcher sets for trainers. What the user sets wins."""
    values = {
        "DGL_DIST_MODE": "distributed",
        "DGL_ROLE": "client",
        "DGL_NUM_SAMPLER": given.num_samplers,
        "DGL_NUM_SERVER": given.num_servers,
        "DGL_NUM_CLIENT": given.num_trainers * (1 + given.num_samplers) * num_hosts,
        "DGL_CONF_PATH": given.part_config,
        "DGL_IP_CONFIG": given.ip_config,
        "DGL_GRAPH_FORMAT": given.graph_format,
        "DGL_GROUP_ID": 0,
        "OMP_NUM_THREADS": given.num_omp_threads or max(len(usable_cores()) // 2 // given.num_trainers, 1),
        **({"HALOHOP_SERVERS": "{graph}"} if given.num_servers else {}),
        **dict(text.partition("=")[::2] for text in given.extra_envs),
    }
    return {name: str(value) for name, value in values.items()}


def main() -> None:
    """Runs the command."""
    parser = options("Run a program of DGL's on several hosts. The last word is its command, such as 'python3 train.py'.")
    parser.add_argument("--num_trainers", type=int, required=True, help="Trainers on each host.")
    parser.add_argument("--num_samplers", type=int, default=0, help="Loader threads of each trainer.")
    parser.add_argument("--num_servers", type=int, default=1, help="Multiplies the threads of the server of each host.")
    parser.add_argument("--num_server_threads", type=int, default=0, help="Requests that a server answers at a time.")
    parser.add_argument("--num_omp_threads", type=int, help="Threads of torch in each trainer.")
    parser.add_argument("--extra_envs", nargs="+", default=(), help="Environment variables, as NAME=VALUE.")
    parser.add_argument("--graph_format", default="csc", help="Ignored.")
    parser.add_argument("--server_name", help="Ignored.")
    *words, command = sys.argv[1:] or ["--help"]
    parser.set_defaults(command=command)
    launch(parser, job_table, words or [command])


if __name__ == "__main__":
    main()
