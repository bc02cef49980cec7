"""What a user asks for: hosts, servers, trainers, data and a script, from a TOML or YAML file and from options."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from halohop.errors import InputError
from halohop.files.urls import is_url, refuse_url
from halohop.launch.jobs.tables import convert, keys
from halohop.launch.options import spec
from halohop.launch.options.spellings import File, Folder, FolderOrUrl, Hosts
from halohop.store.share import Share, shares

ENGINES = ("local", "ssh", "slurm", "k8s", "ray")

_BY_RUNNERS = ("ssh", "slurm", "ray")
"""Engines whose hosts report free ports."""

_SHARED = ("slurm", "ray")
"""Engines whose hosts may run several jobs."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATHS = ("data", "cache", "out", "folder", "token_file")
_MAX_PORT = 65535
_STEP_S = 600.0
_LINGER_S = 300.0
"""The deadline of `halohop train`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Processes that hold the graph for the trainers.

    Args:
        count: how many; None: one on each host. Where there are more than hosts, a host has several.
        shares: which share of the partitions each has, such as ``("0/2", "1/2")``; none: server K of N has every N-th from K.
        replicas: Servers per partition.
        port: where the first server of a host answers; the next ones answer at the following ports. 0: at ports of this job,
            so that several jobs run on one host; by the engines ssh, slurm and ray only.
        options: further options of `halohop serve`, by their names.

    Raises:
        InputError: a value that cannot work.
    """

    count: int | None = None
    shares: tuple[str, ...] = ()
    replicas: int = 1
    port: int = 5510
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, number in (("count", self.count), ("replicas", self.replicas)):
            if number is not None and number < 1:
                raise InputError(f"{name}={number} of the servers must be at least 1")
        if self.port:
            _check_port("port", self.port)
        if self.shares and (self.replicas > 1 or self.count not in (None, len(self.shares))):
            raise InputError(f"shares {', '.join(self.shares)} say what each server holds; leave count and replicas out")
        _check_covered([shares(text) for text in self.shares])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A run on several hosts; paths are absolute, and the same on all of them.

    Args:
        engine: local, ssh, slurm, k8s or ray.
        name: Job name on the cluster. Details: at most 40 small letters, digits and "-".
        run: The user's script and its arguments; ``{graph}`` and ``{out}`` in an argument are replaced.
        train: Run halohop train with this option, instead of a script. Repeatable. Details: options by their names.
        start: torchrun: ranks of a script on each host. plain: the script once on each host, where it starts its own; {rank}
            becomes the number of the host. Details: ``{hosts}``, ``{master_addr}`` and ``{master_port}`` in an argument are how
            many hosts there are, and where ranks are to meet.
        env: Environment variable of all processes. Repeatable. Details: hosts have their own, too; ``{graph}`` and ``{out}`` in
            a trainer's are replaced.
        token_file: File with the shared secret. Only you may have access. None: a new secret.
        encrypt: Encrypt connections between hosts.
        stall: Longest time between two steps of a rank, such as batches, before the job ends with an error. 0: any. None: 600
            for halohop train, else 0.
        hosts: Host names, or the number of hosts. Details: names as the engine takes them.
        trainers: Trainer processes on each host.
        servers: Processes that hold the graph. None: those of the trainers.
        master_port: Port of the first host where ranks meet. Details: 0: a port of this job, which the engines ssh, slurm and
            ray choose; slurm and ray do by default.
        python: Python interpreter on the hosts. The default is this one. Details: its path.
        folder: Working directory of all processes. The default is this folder.
        data: Folder of the partitions, or a URL. Details: empty if a script reads none.
        cache: Folder of each host to copy its partitions to. {host} becomes its name. None: none. Details: then all hosts see
            `data`.
        out: Folder of the run, for logs and results. The default is runs/DATE-TIME.
        options: Of the engine, from the table that is named like it.

    Raises:
        InputError: a value that cannot work.
    """

    engine: str = "local"
    name: str = "halohop"
    run: tuple[str, ...] = ()
    train: Mapping[str, Any] | None = None
    start: Literal["torchrun", "plain"] = "torchrun"
    env: Mapping[str, str] = field(default_factory=dict)
    token_file: File | None = None
    encrypt: bool = False
    stall: float | None = None
    hosts: Hosts = 1
    trainers: int = 1
    servers: Servers | None = None
    master_port: int = 29500
    python: File = field(default_factory=lambda: sys.executable)
    folder: Folder = field(default_factory=lambda: str(Path.cwd()))
    data: FolderOrUrl = ""
    cache: Folder | None = None
    out: Folder
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _PATHS:
            if name != "data":
                refuse_url(getattr(self, name) or "", name, "give a folder or a file of the hosts; only data may be a URL")
        if self.engine not in ENGINES:
            raise InputError(f"unknown engine {self.engine!r}; use one of {', '.join(ENGINES)}")
        if not _NAME.fullmatch(self.name):
            raise InputError(f"name={self.name!r} must have at most 40 small letters, digits and '-', neither '-' at an end")
        if not self.data and self._reads_data:
            raise InputError("data is missing: the folder of the partitions, or a URL")
        self._check_hosts()
        if self.trainers < 1:
            raise InputError(f"trainers={self.trainers} must be at least 1: processes on each host")
        if bool(self.run) == (self.train is not None):
            raise InputError(
                "give either a script to run (after --, or run in a job file) or options of halohop train (--train, or [train]), "
                + ("not both" if self.run else "one of them is needed")
            )
        if self.start == "plain":
            self._check_plain()
        for name in ("out", "folder", "python"):
            if not getattr(self, name):
                raise InputError(
                    f"{name} is empty; give a folder" if name != "python" else "python is empty; give an interpreter"
                )
        if is_url(self.data) and self.cache is None:
            raise InputError(f"data={self.data!r} must be fetched before it is used; give a folder for it on the hosts (cache)")
        self._check_ports()
        if self.stall is not None and self.stall < 0:
            raise InputError(f"stall={self.stall:g} must be seconds, at least 0")
        refuse_token(self.env)
        for variable in self.env:
            if not _VARIABLE.fullmatch(variable):
                raise InputError(f"{variable!r} is not a name of an environment variable; write NAME=VALUE")

    @property
    def num_hosts(self) -> int:
        return self.hosts if isinstance(self.hosts, int) else len(self.hosts)

    @property
    def _reads_data(self) -> bool:
        words = (*self.run, *self.env.values())
        return not self.run or self.servers is not None or self.cache is not None or any("{graph}" in word for word in words)

    @property
    def linger(self) -> float | None:
        """Seconds that ranks may run on after the first has ended well; None: as long as they like."""
        return None if self.train is None else float(self.train.get("deadline", _LINGER_S))

    @property
    def step_limit(self) -> float | None:
        """Seconds that a step may take; None: any."""
        return (_STEP_S if self.stall is None and self.train is not None else self.stall) or None

    def _check_ports(self) -> None:
        if self.master_port:
            _check_port("master_port", self.master_port)
        ports = {"master_port": self.master_port, **({} if self.servers is None else {"port": self.servers.port})}
        for name, port in ports.items():
            if not port and self.engine not in _BY_RUNNERS:
                some = ", ".join(_BY_RUNNERS)
                raise InputError(f"{name}=0 is for the engines {some}, which choose a port; give one from 1 to {_MAX_PORT}")

    def _check_plain(self) -> None:
        if self.trainers > 1 or not self.run:
            raise InputError(
                "start='plain' runs a script once on each host, which starts its own trainers; name it in run, without trainers"
            )

    def _check_hosts(self) -> None:
        if self.num_hosts < 1:
            raise InputError("there is no host; give their names or a number of them, at least 1 (hosts)")
        if isinstance(self.hosts, int):
            return
        for place, host in enumerate(self.hosts):
            if not host or host.startswith("-") or any(letter.isspace() for letter in host):
                raise InputError(f"{host!r} is not a name of a host")
            if host in self.hosts[:place]:
                raise InputError(f"host {host!r} is named twice; set trainers to start several on one host")


def read_job(path: Path | None, given: Mapping[str, Any], *, out: str | None = None) -> Job:
    """The job in a file, with what options say in its place. Relative paths begin in the folder of this process.

    Args:
        path: TOML or YAML; None: options say everything.
        given: by the names of a job file, "servers" as a table; what is None is not given.
        out: the run folder, where neither says one.

    Raises:
        InputError: no such file, unknown names, or values that cannot work.
    """
    where = "options" if path is None else str(path)
    names = [each.name for each in fields(Job) if each.name != "options"]
    read = {} if path is None else spec.read(path)
    if {"nodes", "dst_paths"} <= {*read}:
        raise InputError(f"{where}: this is a file of GLT's launcher; run `python -m halohop.glt.launch --config {where}`")
    table = keys(read, [*names, *ENGINES], where)
    for name, other in (("run", "train"), ("train", "run")):  # either takes the place of what the file says
        if given.get(name) is not None:
            table.pop(other, None)
    table = _over({name: value for name, value in given.items() if value is not None}, table)
    if out is not None:
        table.setdefault("out", out)
    return job_of(table, where)


def _over(above: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables as one: of values for the same name the first table's, of tables both.

    Example:
        >>> _over({"env": {"A": "1"}, "hosts": 2}, {"env": {"A": "0", "B": "2"}, "data": "parts"})
        {'env': {'A': '1', 'B': '2'}, 'data': 'parts', 'hosts': 2}
    """
    both = {name: _over(value, below[name]) for name, value in above.items() if _are_tables(value, below.get(name))}
    return {**below, **above, **both}


def _are_tables(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def job_of(table: Mapping[str, Any], where: str) -> Job:
    """The job that a table spells, by the names of `Job`, with a table for each engine.

    Raises:
        InputError: unknown names, or values that cannot work.

    Example:
        >>> job = job_of({"hosts": "a,b", "data": "parts", "out": "run", "run": "train.py {graph}"}, "job.toml")
        >>> job.hosts, job.run
        (('a', 'b'), ('train.py', '{graph}'))
    """
    values = dict(table)
    tables = {engine: values.pop(engine) for engine in ENGINES if engine in values}
    if "out" not in values:
        raise InputError(f"{where}: out is missing: a folder for logs and results")
    if isinstance(hosts := values.get("hosts"), str):
        values["hosts"] = int(hosts) if hosts.isdecimal() else [host.strip() for host in hosts.split(",")]
    if isinstance(run := values.get("run"), str | list | tuple):
        values["run"] = shlex.split(run) if isinstance(run, str) else [str(word) for word in run]
    if isinstance(env := values.get("env"), Mapping):
        values["env"] = {str(name): str(value) for name, value in env.items()}
    if isinstance(servers := values.get("servers"), int):
        servers = {"count": servers}
    if isinstance(servers, Mapping):
        servers = {**({"port": 0} if values.get("engine") in _SHARED else {}), **servers}
        values["servers"] = convert(servers, Servers, f"{where}: [servers]")
    for name in _PATHS:
        if isinstance(path := values.get(name), str) and path and not is_url(path):
            values[name] = str(Path.cwd() / Path(path).expanduser())
    if values.get("engine") in _SHARED:
        values.setdefault("master_port", 0)
    values["options"] = tables.get(values.get("engine", "local"), {})
    return convert(values, Job, where)


def refuse_token(env: Mapping[str, str]) -> None:
    """
    Raises:
        InputError: the environment of processes, which plans and logs show, has the token.
    """
    if "HALOHOP_TOKEN" in env:
        raise InputError("the token is not given in env, which plans and logs show; write it to a file (token_file)")


def _check_port(name: str, port: int) -> None:
    if not 0 < port <= _MAX_PORT:
        raise InputError(f"{name}={port} is not a port; use one from 1 to {_MAX_PORT}")


def _check_covered(of_servers: Sequence[tuple[Share, ...]]) -> None:
    """Every share of the partitions has a server, or there are no shares."""
    given = {share for some in of_servers for share in some}
    for count in sorted({share.count for share in given}):
        missing = [str(share) for index in range(count) if (share := Share(index=index, count=count)) not in given]
        if missing and len({share.count for share in given}) == 1:
            raise InputError(f"no server holds share {', '.join(missing)}: their partitions would be missing; give it to one")
