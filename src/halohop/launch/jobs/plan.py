"""A job as processes on hosts: pure arithmetic, which every engine turns into what its cluster understands."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

from halohop import __version__
from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.tables import words
from halohop.launch.processes.ends import Member
from halohop.store.share import Share, in_shares, shares, spelled
from halohop.transport.addresses import is_ipv6, is_loopback_host, joined

FORMAT = 1
"""Version of a plan's fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What must be on a host before a process of it starts.

    Args:
        source: folder of the partitions, or a URL.
        folder: where they are on the host.
        shares: which of them the process holds; none: all.
        copied: whether they are brought there; else the host sees `source` itself.
    """

    source: str
    folder: str
    shares: tuple[Share, ...]
    copied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What one host starts: a server, or its trainers.

    Args:
        name: "server-0", "trainers-1".
        host: as in `Plan.hosts`.
        role: "server", or "trainers".
        python: interpreter on the host.
        argv: what follows the Python interpreter: a script and arguments, or ``-m``, a module and arguments.
        ranks: of trainers: how many processes of `argv` run on this host; 0 for a server.
        address: of a server: ``HOST:PORT`` for the others.
        env: beside what the host has; never a secret.
        data: what it reads; None where servers hold the graph.
        needs: names of processes that must be ready before.
    """

    name: str
    host: str
    role: Literal["server", "trainers"]
    python: str
    argv: tuple[str, ...]
    ranks: int = 0
    address: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    data: Data | None = None
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The processes of a job.

    Args:
        job: what was asked for.
        hosts: their names.
        master: ``HOST:PORT`` where ranks meet, on the first host.
        processes: servers first, then the trainers of each host.
        format: `FORMAT`.
        version: of halohop.
    """

    job: Job
    hosts: tuple[str, ...]
    master: str
    processes: tuple[Process, ...]
    format: int = FORMAT
    version: str = __version__

    @property
    def servers(self) -> tuple[Process, ...]:
        return tuple(process for process in self.processes if process.role == "server")

    @property
    def trainers(self) -> tuple[Process, ...]:
        return tuple(process for process in self.processes if process.role == "trainers")


def plan(
    job: Job,
    hosts: Sequence[str],
    addresses: Sequence[str] | None = None,
    *,
    apart: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    ports: Mapping[str, Sequence[int]] | None = None,
) -> Plan:
    """The processes of a job on hosts.

    Args:
        job: what was asked for.
        hosts: their names, each once, as many as the job has.
        addresses: under which names or IP addresses the hosts reach each other; None: under `hosts`.
        apart: hosts of the servers' own, by the names in their addresses; none: the servers are on `hosts`.
        sources: where hosts see the data, if not at `Job.data`.
        ports: where the servers of hosts answer, one after the other, if not from `Servers.port` on.

    Raises:
        InputError: more replicas than servers, more servers on a host than ports, or another number of hosts than the job has.

    Example:
        >>> job = Job(hosts=2, data="/data/parts", out="/runs/1", run=("train.py", "{graph}"))
        >>> [(process.name, process.argv) for process in plan(job, ["a", "b"]).processes]
        [('trainers-0', ('train.py', '/data/parts')), ('trainers-1', ('train.py', '/data/parts'))]
    """
    if len(hosts) != job.num_hosts:
        raise InputError(f"the job has {job.num_hosts} hosts, but there are {len(hosts)}: {', '.join(hosts)}")
    places = tuple(hosts if addresses is None else addresses)
    sources = sources or {}
    env = {**job.env, **({"HALOHOP_ENCRYPT": "1"} if job.encrypt else {})}
    homes = (apart, apart) if apart else (hosts, places)
    servers = [] if job.servers is None else _servers(job, job.servers, *homes, env, sources, ports or {})
    graph = ",".join(server.address for server in servers)
    trainers = []
    for number, host in enumerate(hosts):
        mine = () if job.cache is None else (Share(index=number, count=len(hosts)),)
        data = None if servers or not job.data else _data(job, host, mine, sources)
        found = data.folder if data else graph
        argv = program(job, found)
        trainers.append(
            Process(
                name=f"trainers-{number}",
                host=host,
                role="trainers",
                python=job.python,
                argv=argv if job.start == "torchrun" else _placed(argv, number, job, places),
                ranks=job.trainers,
                env={name: filled(value, found, job) for name, value in env.items()},
                data=data,
                needs=tuple(server.name for server in servers),
            )
        )
    return Plan(job=job, hosts=tuple(hosts), master=joined((places[0], job.master_port)), processes=(*servers, *trainers))


def host_names(job: Job) -> list[str]:
    """Returns names for hosts that the engine chooses, or the job's own names."""
    return [f"host-{number}" for number in range(job.hosts)] if isinstance(job.hosts, int) else list(job.hosts)


def check_parts(made: Plan, num_parts: int) -> None:
    """Refuses a plan that does not fit the data.

    Raises:
        InputError: a process has no partition, or a partition has no process; names both.
    """
    reading = [process for process in made.processes if process.data is not None]
    held: set[int] = set()
    for process in reading:
        assert process.data is not None
        try:
            held |= {*in_shares(process.data.shares, num_parts)}
        except InputError as error:
            raise InputError(f"{process.name} on {process.host}: {error}; or take fewer {_counted(process)}") from error
    if missing := sorted({*range(num_parts)} - held):
        raise InputError(f"partitions {missing} are in no share: {', '.join(_held(process) for process in reading)}")


def data_of(made: Plan, host: str) -> Data | None:
    """What must be on a host for all of its processes; None where servers elsewhere hold the graph."""
    needed = [process.data for process in made.processes if process.host == host and process.data is not None]
    if not needed:
        return None
    some = (
        () if any(not data.shares for data in needed) else tuple(dict.fromkeys(share for data in needed for share in data.shares))
    )
    return replace(needed[0], shares=some)


def member_of(process: Process, job: Job) -> Member:
    """What the end of a process means for its job."""
    serves = process.role == "server"
    return Member(stays=serves, spare=serves and job.servers is not None and job.servers.replicas > 1)


def _servers(
    job: Job,
    wanted: Servers,
    hosts: Sequence[str],
    places: Sequence[str],
    env: Mapping[str, str],
    sources: Mapping[str, str],
    given: Mapping[str, Sequence[int]],
) -> list[Process]:
    held = shares_held(wanted, len(hosts))
    on = [number % len(hosts) for number in range(len(held))]
    before = [sum(places[other] == places[host] for other in on[:number]) for number, host in enumerate(on)]
    ports = [_port(wanted, hosts[host], given.get(hosts[host]), count) for host, count in zip(on, before, strict=True)]
    addresses = [joined((places[host], port)) for host, port in zip(on, ports, strict=True)]
    made = []
    for number, (some, host) in enumerate(zip(held, on, strict=True)):
        data = _data(job, hosts[host], some, sources)
        argv = ["-m", "halohop", "serve", data.folder, "--share", spelled(some)]
        argv += ["--listen", joined((_listens(places[host]), ports[number])), "--advertise", addresses[number]]
        if len(addresses) > 1:  # a server knows its own
            argv += ["--peers", ",".join(addresses)]
        made.append(
            Process(
                name=f"server-{number}",
                host=hosts[host],
                role="server",
                python=job.python,
                argv=(*argv, *words(wanted.options)),
                address=addresses[number],
                env={name: filled(value, ",".join(addresses), job) for name, value in env.items()},
                data=data,
            )
        )
    return made


def _port(wanted: Servers, host: str, given: Sequence[int] | None, before: int) -> int:
    """Where a server answers that has some before it on its host."""
    if given is None:
        return wanted.port + before if wanted.port else 0  # chosen later
    if before >= len(given):
        raise InputError(f"host {host} has {len(given)} free ports for servers, too few; take fewer servers, or give a port")
    return given[before]


def shares_held(wanted: Servers, num_hosts: int) -> list[tuple[Share, ...]]:
    """What each server holds."""
    if wanted.shares:
        return [shares(text) for text in wanted.shares]
    count = wanted.count or num_hosts
    if wanted.replicas > count:
        raise InputError(f"replicas={wanted.replicas} of each partition need as many servers, but there are {count}")
    of_all = [Share(index=index, count=count) for index in range(count)] * 2
    return [tuple(of_all[number : number + wanted.replicas]) for number in range(count)]


def _data(job: Job, host: str, some: tuple[Share, ...], sources: Mapping[str, str]) -> Data:
    """What a process on a host needs that holds some shares."""
    if job.cache is None:
        seen = sources.get(host, job.data)
        return Data(source=seen, folder=seen, shares=some, copied=False)
    folder = str(PurePosixPath(job.cache.replace("{host}", host)) / name_of(job.data))
    return Data(source=job.data, folder=folder, shares=some, copied=True)


def name_of(source: str) -> str:
    """The folder of a data set in a cache: its name for people, and a few digits so that two of one name are not mistaken.

    Example:
        >>> name_of("s3://bucket/graphs/papers/") == name_of("s3://bucket/graphs/papers")
        True
        >>> name_of("/data/parts")
        'parts-c69d93c9'
    """
    last = source.rstrip("/").rpartition("/")[2] or "data"
    return f"{last}-{hashlib.sha256(source.rstrip('/').encode()).hexdigest()[:8]}"


def program(job: Job, graph: str) -> tuple[str, ...]:
    if job.run:
        return tuple(filled(word, graph, job) for word in job.run)
    return ("-m", "halohop", "train", graph, "--out", job.out, *words(job.train or {}))


def resumes_itself(job: Job) -> bool:
    """Whether processes that start again add ``--resume auto``: those of `halohop train`, unless the job says how to resume."""
    return job.train is not None and "resume" not in job.train


def resuming(job: Job) -> Job:
    """Returns the job for its next start: `halohop train` then resumes, if `resumes_itself`."""
    return replace(job, train={**(job.train or {}), "resume": "auto"}) if resumes_itself(job) else job


def filled(text: str, graph: str, job: Job) -> str:
    """A word of a program, or a value of its environment, with what stands for the graph and the run folder."""
    return text.replace("{graph}", graph).replace("{out}", job.out)


def _placed(argv: Sequence[str], number: int, job: Job, places: Sequence[str]) -> tuple[str, ...]:
    """The words of a plain program on one host, which has no environment of a rank to read."""
    known = {"rank": number, "hosts": len(places), "master_addr": places[0], "master_port": job.master_port}
    return tuple(re.sub(r"\{(" + "|".join(known) + r")\}", lambda found: str(known[found[1]]), word) for word in argv)


def _listens(place: str) -> str:
    """Where a server listens that others reach at an address: there, if that is this host's own, else on all interfaces."""
    if is_loopback_host(place) or place == "localhost":
        return place
    return "::" if is_ipv6(place) else "0.0.0.0"


def _held(process: Process) -> str:
    assert process.data is not None
    return f"{process.name} has {spelled(process.data.shares)}"


def _counted(process: Process) -> str:
    return "servers" if process.role == "server" else "hosts"
