"""The engine "local": the hosts of a job are played by this machine, each with its own share of the partitions."""

import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

from halohop.errors import ClusterError, InputError
from halohop.files.urls import is_url
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Plan, Process, check_parts, host_names, member_of, plan
from halohop.launch.jobs.plan_file import plan_text, write_plan
from halohop.launch.jobs.secret import secret_of
from halohop.launch.processes import local
from halohop.launch.processes.places import worlds
from halohop.launch.processes.starting import Start, fresh
from halohop.launch.processes.tasks import Echo, Task
from halohop.launch.runs.nodes import link_parts
from halohop.launch.runs.verifying import check_still_whole
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.progress import stages
from halohop.store.afar.staging import Stage, staged
from halohop.store.disk import read_manifest
from halohop.store.share import in_shares
from halohop.transport import TOKEN_VARIABLE
from halohop.transport.addresses import parsed


def engine() -> "Local":
    """This engine."""
    return Local()


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """Starts all processes here.

    Args:
        start: starts one that runs halohop's own modules; a user's script has a new interpreter in any case.
    """

    start: Start = field(default=fresh)

    def plan(self, job: Job) -> Plan:
        return _plan(job)

    def show(self, job: Job) -> str:
        return plan_text(_plan(job))

    def run(self, job: Job, console: Console) -> None:
        _plan(job)
        _check_script(job)
        with ExitStack() as stack:
            if is_url(job.data):
                with stages(console) as progress:
                    fetched = stack.enter_context(staged(job.data, Stage.of(job.cache), progress=progress))
                job = replace(job, data=str(fetched.folder), cache=None)
            self._run(job)

    def _run(self, job: Job) -> None:
        made = _plan(job)
        secret = {TOKEN_VARIABLE: secret_of(job)}
        if job.data:
            check_parts(made, read_manifest(job.data).num_parts)
        _check_ports(made)
        write_plan(made)
        folders = _linked(made)
        ours = job.train is not None and job.python == sys.executable
        own = self.start if ours else partial(fresh, python=job.python)
        folder = Path(job.out) / "logs"
        try:
            local.run_tasks(
                partial(_tasks, made, folder),
                0 if job.start == "plain" else job.num_hosts * job.trainers,
                secret=secret,
                logs=folder,
                linger=job.linger,
                stall=job.step_limit,
                start=own,
            )
        except ClusterError as failure:
            check_still_whole(folders, failure)
            raise


def _plan(job: Job) -> Plan:
    """Hosts that hold the graph have folders of their own, with links to their partitions.

    Raises:
        InputError: the job names what this engine does not offer.
    """
    if job.options:
        raise InputError(f"the engine local has no options of its own, but the file has {sorted(job.options)} in [local]")
    hosts = host_names(job)
    apart = job.servers is None and len(hosts) > 1
    if job.data and (apart or not is_url(job.data)):
        job = replace(job, cache=str(Path(job.out) / "nodes" / "{host}") if apart else None)
    return plan(job, hosts, [local.LOOPBACK] * len(hosts))


def _linked(made: Plan) -> list[Path]:
    """Makes the folders of the hosts; returns those from which graphs are read."""
    if not made.job.data:
        return []
    source = Path(made.job.data)
    num_parts = read_manifest(source).num_parts
    folders = []
    for data in (process.data for process in made.trainers if process.data is not None and process.data.copied):
        link_parts(source, Path(data.folder), in_shares(data.shares, num_parts))
        folders.append(Path(data.folder))
    return folders or [source]


def _tasks(made: Plan, folder: Path, env: Mapping[str, str]) -> Sequence[Task]:
    """Servers first, then plain programs, or ranks in order."""
    plain = made.job.start == "plain"
    alone = [*made.servers, *(made.trainers if plain else ())]
    ranks = [
        _task(made.trainers[world.host], made.job, f"rank-{world.rank}", folder, {**env, **local.environment_of(world, env)})
        for world in ([] if plain else worlds(len(made.hosts), made.job.trainers))
    ]
    return [*(_task(process, made.job, process.name, folder, env) for process in alone), *ranks]


def _task(process: Process, job: Job, name: str, folder: Path, env: Mapping[str, str]) -> Task:
    """What rank 0 prints is shown, or plain programs print; with ``-v`` the lines of all are, with their names."""
    output: Echo | None = None
    errors: Echo | None = None
    if logs.is_verbose():
        output = errors = _to(sys.stderr, f"[{process.host} {name}] ")
    elif name == "rank-0" or (job.start == "plain" and process.role == "trainers"):
        prefix = f"[{process.host}] " if job.start == "plain" else ""
        output, errors = _to(sys.stdout, prefix), _to(sys.stderr, prefix)
    return Task(
        name=name.replace("-", " "),
        place=process.host,
        argv=process.argv,
        env={**env, **process.env},
        folder=job.folder,
        log=folder / f"{process.host}-{name}.log",
        member=member_of(process, job),
        echo=output,
        echo_errors=errors,
    )


def _to(stream: TextIO, prefix: str = "") -> Echo:
    """Writes lines to a stream of this process, whatever their encoding."""

    def write(line: bytes) -> None:
        stream.buffer.write(prefix.encode() + line)
        stream.buffer.flush()

    return write


def _check_script(job: Job) -> None:
    """
    Raises:
        InputError: there is no such script, or no such interpreter.
    """
    if job.run and job.run[0] != "-m" and not (Path(job.folder) / job.run[0]).is_file():
        raise InputError(f"there is no script {job.run[0]} in {job.folder}; run begins with a script, or with -m and a module")
    if not Path(job.python).is_file():
        raise InputError(f"there is no interpreter {job.python}; give its whole path (python)")


def _check_ports(made: Plan) -> None:
    """
    Raises:
        InputError: a port of a server is in use.
    """
    for server in made.servers:
        place = parsed(server.address)
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(place)
            except OSError as error:
                raise InputError(
                    f"{server.name} on {server.host} cannot listen at {server.address} ({error.strerror}); end the process that "
                    "holds the port, or choose other ports: servers.port"
                ) from error
