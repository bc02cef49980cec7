"""How the driver of a job reaches its hosts: by an actor of Ray on each, which starts the runner there."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from halohop.errors import ClusterError
from halohop.launch.jobs.crew.way import Host, Running, last_words
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Plan
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.nodes import Bundle, placed
from halohop.launch.jobs.ray.options import RayOptions
from halohop.launch.jobs.ray.runner import CUT, GROUPS, HostActor, RemoteRunner
from halohop.launch.processes.places import THREADS
from halohop.launch.terminal.wording import counted

_LEAST_CPUS = 0.001
"""Of what Ray reserves, which cannot be nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actors:
    """As of `Way`.

    Args:
        by_host: the actors, by the hosts' names.
    """

    by_host: dict[str, Any]
    patience: float = 30.0

    def start(self, host: Host) -> Running:
        return RemoteRunner(self.by_host[host.name])

    def explain(self, host: Host, printed: str, code: int | None) -> str:
        if code is None:
            return f"did not answer within {self.patience:g} s ({last_words(printed)})"
        return f"did not start; halohop must be there for the interpreter of Ray's workers ({last_words(printed)})"

    def is_cut(self, code: int | None) -> bool:
        return code == CUT


def bundles_of(made: Plan, options: RayOptions) -> list[Bundle]:
    """What each host of a plan needs for its trainers and servers.

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
def reached(job: Job, bundles: Sequence[Bundle], options: RayOptions) -> Iterator[tuple[list[Host], Actors]]:
    """Starts an actor on each host of a job while the context lasts.

    Args:
        job: what is to run.
        bundles: what each host needs.
        options: the table [ray].

    Raises:
        InputError: the job never fits onto the cluster.
        ClusterError: there was no room in time, or a node is lost.
    """
    ray, what, patience = ray_library(), counted(len(bundles), "host"), options.deadline
    kind = ray.remote(concurrency_groups=GROUPS)(HostActor)
    python = "" if job.python == sys.executable else job.python  # else that of Ray's workers, wherever it is there
    env = {THREADS: str(max(int(options.trainer_cpus), 1)), **job.env}  # Ray's own counts what all processes of a host have
    actors: list[Any] = []
    with placed(bundles, options.strategy, what, deadline=patience) as rooms, ExitStack() as undo:
        for bundle, room in zip(bundles, rooms, strict=True):
            own = {"num_cpus": bundle["CPU"], "num_gpus": bundle.get("GPU", 0), "scheduling_strategy": room}
            actor = kind.options(max_restarts=0, **own).remote(python, env)
            undo.callback(ray.kill, actor)
            actors.append(actor)
        try:
            places = ray.get([actor.place.remote() for actor in actors], timeout=patience)
        except ray.exceptions.RayError as error:
            raise ClusterError(f"Ray has not started a process on each of {what}: {error}") from error
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
