"""The engine `ray`: an actor of Ray for each host of a job, on nodes that Ray chooses. The launcher is the driver."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.crew.running import run_once
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Plan, host_names, plan, resuming
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.nodes import placed
from halohop.launch.jobs.ray.options import RayOptions
from halohop.launch.jobs.ray.way import bundles_of, reached
from halohop.launch.jobs.tables import convert
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.wording import counted
from halohop.transport.addresses import parsed_peer

_ANSWER_S = 10.0


def engine() -> "RayEngine":
    """What `engine_of` makes."""
    return RayEngine()


class RayEngine:
    """Runs a job on nodes that Ray chooses; all of it ends with the command."""

    def plan(self, job: Job) -> Plan:
        """Returns the plan with names in place of the nodes, which Ray chooses."""
        _options(job)
        return plan(job, host_names(job))

    def show(self, job: Job) -> str:
        """The placement group that Ray is asked for, as JSON: a bundle for each host."""
        options = _options(job)
        asked = {"address": options.address, "strategy": options.strategy, "bundles": bundles_of(self.plan(job), options)}
        return json.dumps(asked, indent=2) + "\n"

    def run(self, job: Job, console: Console) -> None:
        """Runs a job to its end; see `Engine`. After a failure it starts again, `max_failures` times."""
        options = _options(job)
        bundles, count_of_hosts = bundles_of(self.plan(job), options), counted(job.num_hosts, "host")
        with _connected(options.address), placed(bundles, options.strategy, count_of_hosts, deadline=options.deadline) as rooms:
            for failures in count(1):
                try:
                    with reached(job, rooms, options) as (hosts, actors):
                        run_once(job, hosts, actors, console)
                    return
                except ClusterError as error:
                    if failures == options.max_failures + 1:
                        raise
                    console.print(f"{error}\nthe job starts again (failure {failures})", soft_wrap=True, markup=False)
                job = resuming(job)


def _options(job: Job) -> RayOptions:
    """The table [ray].

    Raises:
        InputError: something that this engine cannot do.
    """
    if not isinstance(job.hosts, int):
        raise InputError(f"hosts={','.join(job.hosts)}: Ray chooses the nodes; give a number of hosts")
    return convert(job.options, RayOptions, "[ray]")


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """This process as a driver of the cluster; all that it starts there ends with it.

    Raises:
        InputError: there is no cluster, or this process is a worker of one.
    """
    ray = ray_library()
    if ray.is_initialized():
        raise InputError("this process is connected to Ray already, as a worker or a driver; start halohop launch on its own")
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        if address != "auto":
            socket.create_connection(parsed_peer(address), timeout=_ANSWER_S).close()  # Ray would wait for minutes
        ray.init(address=address, log_to_driver=False, logging_level="warning")
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"no cluster of Ray answers at address={address!r} ({error}); start one with `ray start --head` and "
            "`ray start --address=HEAD:6379` on the other nodes, or give its address in [ray]"
        ) from error
    signal.signal(signal.SIGTERM, terminate)  # Ray has put its own there
    try:
        yield
    finally:
        ray.shutdown()
