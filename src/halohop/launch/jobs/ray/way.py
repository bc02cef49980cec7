"""Actors of Ray that connect the launcher with the hosts of a job."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from halohop.errors import ClusterError
from halohop.launch.jobs.crew.remote_runner import CUT, RemoteRunner
from halohop.launch.jobs.crew.way import Host, Running, last_words
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Plan
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.nodes import Bundle
from halohop.launch.jobs.ray.options import RayOptions
from halohop.launch.jobs.ray.runner import GROUPS, ActorCalls, HostActor
from halohop.launch.processes.places import THREADS
from halohop.launch.terminal.wording import counted

_LEAST_CPUS = 0.001
"""CPUs to reserve for a host that needs none, because Ray refuses an empty bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actors:
    """Reaches each host by its actor; see `Way`.

    Args:
        by_host: the actors, by the hosts' names.
    """

    by_host: dict[str, Any]
    patience: float = 30.0

    def start(self, host: Host) -> Running:
        return RemoteRunner(ActorCalls(self.by_host[host.name]))

    def explain(self, host: Host, printed: str, code: int | None) -> str:
        if code is None:
            return f"did not answer within {self.patience:g} s ({last_words(printed)})"
        return (
            "did not start; halohop must be installed for the interpreter of Ray's workers, or for the python that the job names "
            f"({last_words(printed)})"
        )

    def is_cut(self, code: int | None) -> bool:
        return code == CUT


def bundles_of(made: Plan, options: RayOptions) -> list[Bundle]:
    """Returns the resources of each host of a plan, for its trainers and servers.

    Example:
        >>> from halohop.launch.jobs.plan import plan
        >>> job = Job(engine="ray", hosts=2, trainers=4, data="/parts", out="/run", run=("train.py",))
        >>> bundles_of(plan(job, ["a", "b"]), RayOptions(trainer_cpus=2, trainer_gpus=1))
        [{'CPU': 8.0, 'GPU': 4.0}, {'CPU': 8.0, 'GPU': 4.0}]
    """
    ranks = made.job.trainers
    servers = [sum(server.host == host for server in made.servers) for host in made.hosts]
    cpus = [max(float(ranks * options.trainer_cpus + count * options.server_cpus), _LEAST_CPUS) for count in servers]
    gpus = {"GPU": float(ranks * options.trainer_gpus)} if options.trainer_gpus else {}
    return [{"CPU": each, **gpus} for each in cpus]


@contextmanager
def reached(job: Job, rooms: Sequence[dict[str, Any]], options: RayOptions) -> Iterator[tuple[list[Host], Actors]]:
    """Starts an actor on each host of a job while the context lasts.

    Args:
        job: what is to run.
        rooms: from `placed`, for each host.
        options: the table [ray].

    Raises:
        ClusterError: an actor has not started in time, as a node is lost.
    """
    ray = ray_library()
    kind = ray.remote(concurrency_groups=GROUPS)(HostActor)
    python = "" if job.python == sys.executable else job.python  # else that of Ray's workers, wherever it is there
    env = {THREADS: str(max(int(options.trainer_cpus), 1)), **job.env}  # Ray's own counts what all processes of a host have
    with ExitStack() as undo:
        actors = [kind.options(max_restarts=0, **room).remote(python, env) for room in rooms]
        for actor in actors:
            undo.callback(ray.kill, actor)
        try:
            places = ray.get([actor.place.remote() for actor in actors], timeout=options.deadline)
        except ray.exceptions.RayError as error:
            what = counted(len(rooms), "host")
            raise ClusterError(f"Ray did not start a process on each of {what} within {options.deadline:g} s: {error}") from error
        hosts = [
            Host(name=name, address=address, python=job.python, folder=job.folder, data=job.data, env=job.env)
            for name, address in zip(_unique([name for name, _ in places]), (ip for _, ip in places), strict=True)
        ]
        yield hosts, Actors(by_host={host.name: actor for host, actor in zip(hosts, actors, strict=True)})


def _unique(names: Sequence[str]) -> list[str]:
    """Names of hosts, some of which may be on one node.

    Example:
        >>> _unique(["a", "b"]), _unique(["a", "b", "a"])
        (['a', 'b'], ['a-0', 'b-1', 'a-2'])
    """
    return [*names] if len({*names}) == len(names) else [f"{name}-{number}" for number, name in enumerate(names)]
