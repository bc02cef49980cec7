"""The command line of DGL's launcher, with its `ip_config.txt` and the partitions' configuration, as a job over ssh.

One server process per host replaces DGL's `num_servers`, with as many handlers, because kernels run in parallel.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from halohop.cores import usable_cores
from halohop.errors import InputError
from halohop.files.reading import decode_json, read_regular
from halohop.launch.jobs.command_string import parsed
from halohop.launch.jobs.host.parts import num_parts_of
from halohop.launch.jobs.ip_config import Entry, read_ip_config
from halohop.store.names import MANIFEST

SERVERS_VARIABLE = "HALOHOP_SERVERS"
"""Environment of trainers: the addresses of the job's servers."""

_FORMATS = ("csc", "csr", "coo")


@dataclass(frozen=True, slots=True, kw_only=True)
class DglOptions:
    """What the command line says, by DGL's names.

    Args:
        workspace: folder on all hosts where the program works; relative paths begin there.
        num_trainers: processes on each host.
        num_samplers: of each trainer; here they are threads of its loaders.
        num_servers: of each host; here one process that answers as many times `num_server_threads` requests at a time. 0: the
            trainers' hosts hold the graph.
        num_server_threads: see there; None: so many that the process answers as many as this machine's cores divided among the
            trainers of a host, or `num_servers`, if that is more.
        part_config: the JSON file that `partition_graph` calls after the graph, in the folder of the partitions; or the folder.
        ip_config: the file that lists the hosts.
        ssh_port, ssh_username: of the hosts' ssh servers; 0 and "": as the user's configuration of ssh says.
        extra_envs: further environment.
        num_omp_threads: of each trainer; None: half of this machine's cores, divided among the trainers of a host.
        graph_format: which DGL would keep; nothing depends on it.
        server_name: nothing depends on it, either.

    Raises:
        InputError: a value that cannot work.
    """

    workspace: str
    num_trainers: int
    num_samplers: int = 0
    num_servers: int = 1
    num_server_threads: int | None = None
    part_config: str
    ip_config: str
    ssh_port: int = 0
    ssh_username: str = ""
    extra_envs: tuple[tuple[str, str], ...] = ()
    num_omp_threads: int | None = None
    graph_format: str = "csc"
    server_name: str = ""

    def __post_init__(self) -> None:
        for name, least in (("num_trainers", 1), ("num_samplers", 0), ("num_servers", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} must be at least {least}")
        for name in ("num_server_threads", "num_omp_threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)} must be at least 1")
        if unknown := [name for name in self.graph_format.split(",") if name not in _FORMATS]:
            raise InputError(f"graph_format={self.graph_format!r}: {unknown[0]!r} is none of {', '.join(_FORMATS)}")
        if not self.workspace:
            raise InputError("workspace is empty; give the folder on the hosts where the program works")


def job_table(options: DglOptions, command: tuple[str, ...]) -> dict[str, Any]:
    """The job that a command line of DGL's launcher means, as a job file has it.

    Args:
        options: those of the command line.
        command: what follows them: one string, such as ``("python3 train.py --lr 0.01",)``.

    Raises:
        InputError: files that cannot be read, a line of `ip_config` that cannot work, another number of hosts than the partitions
            need, or a command that needs a shell.
    """
    program = parsed(command)
    workspace = Path.cwd() / Path(options.workspace).expanduser()
    entries = read_ip_config(_here(workspace, options.ip_config))
    if (config := _here(workspace, options.part_config)).exists():  # else the hosts say what is there
        check_count(entries, num_parts(config))
    same = [options.part_config] if is_json(options.part_config) else []
    table: dict[str, Any] = {
        "engine": "ssh",
        "hosts": [entry.host for entry in entries],
        "trainers": options.num_trainers,
        "run": [*program.words],
        "folder": str(workspace),
        "data": str(workspace / data_folder(options.part_config)),
        "master_port": 0,
        "env": _environment(options, len(entries)),
        "ssh": {"hosts": {entry.host: _of_host(entry, options) for entry in entries}, "same": same},
    }
    if program.python:
        table["python"] = str(workspace / program.python)
    if options.num_servers:
        table["servers"] = {"count": len(entries), "port": 0, "options": {"threads": _server_threads(options)}}
    return table


def _server_threads(options: DglOptions) -> int:
    """Requests that the server of a host answers at a time."""
    if options.num_server_threads is not None:
        return options.num_servers * options.num_server_threads
    return max(len(usable_cores()) // options.num_trainers, options.num_servers)


def is_json(part_config: str | Path) -> bool:
    """Whether it is a file beside the partitions, and not their folder."""
    return PurePosixPath(part_config).suffix == ".json"


def data_folder(part_config: str | Path) -> PurePosixPath:
    """The folder of the partitions.

    Example:
        >>> str(data_folder("data/graph.json")), str(data_folder("data"))
        ('data', 'data')
    """
    return PurePosixPath(part_config).parent if is_json(part_config) else PurePosixPath(part_config)


def num_parts(part_config: Path) -> int:
    """How many partitions a configuration of DGL's, or the data set of a folder, has.

    Raises:
        InputError: it is none.
        DatasetError: it cannot be read.
    """
    if not is_json(part_config):
        if not (part_config / MANIFEST).is_file():
            raise InputError(f"{part_config} has no {MANIFEST}; name the JSON file that partition_graph wrote, or its folder")
        return num_parts_of(part_config)
    try:
        document: object = decode_json(read_regular(part_config), part_config)
    except FileNotFoundError:
        raise InputError(f"there is no file {part_config}; name the one that partition_graph wrote (part_config)") from None
    count = document.get("num_parts") if isinstance(document, dict) else None
    if not isinstance(count, int) or count < 1:
        raise InputError(f"{part_config} does not say how many partitions there are; name the file that partition_graph wrote")
    return count


def check_count(entries: tuple[Entry, ...], count: int) -> None:
    """
    Raises:
        InputError: a host would have no partition.
    """
    if len(entries) > count:
        raise InputError(
            f"ip_config names {len(entries)} hosts, but part_config has {count} partitions, too few for each host to have one; "
            f"partition the graph into {len(entries)}, or name {count} hosts"
        )


def _here(workspace: Path, path: str) -> Path:
    """Where a file of the workspace is on this machine, which may have none: then from the folder of this process."""
    return found if (found := workspace / path).exists() else Path(path)


def _of_host(entry: Entry, options: DglOptions) -> dict[str, Any]:
    given = {"user": options.ssh_username, "port": options.ssh_port, "server_port": entry.port}
    return {name: value for name, value in given.items() if value}


def _environment(options: DglOptions, num_hosts: int) -> dict[str, str]:
    """What DGL's launcher sets for trainers; what the user sets wins."""
    threads = options.num_omp_threads or max(len(usable_cores()) // 2 // options.num_trainers, 1)
    values = {
        "DGL_DIST_MODE": "distributed",
        "DGL_ROLE": "client",
        "DGL_NUM_SAMPLER": options.num_samplers,
        "DGL_NUM_SERVER": options.num_servers,
        "DGL_NUM_CLIENT": options.num_trainers * (1 + options.num_samplers) * num_hosts,
        "DGL_CONF_PATH": options.part_config,
        "DGL_IP_CONFIG": options.ip_config,
        "DGL_GRAPH_FORMAT": options.graph_format,
        "DGL_GROUP_ID": 0,
        "OMP_NUM_THREADS": threads,
    }
    servers = {SERVERS_VARIABLE: "{graph}"} if options.num_servers else {}
    return {name: str(value) for name, value in values.items()} | servers | dict(options.extra_envs)
