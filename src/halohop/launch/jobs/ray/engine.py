"""Engine `ray`: servers as actors, trainers by Ray Train, watched by the command that launched them."""

import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.plan import Plan, host_names, plan, program
from halohop.launch.jobs.plan_file import write_plan
from halohop.launch.jobs.ray.data import Parts
from halohop.launch.jobs.ray.graph_server import ServeOptions
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.nodes import check_trainers
from halohop.launch.jobs.ray.options import RayOptions
from halohop.launch.jobs.ray.output import Output
from halohop.launch.jobs.ray.rank import RankTask, train_rank
from halohop.launch.jobs.ray.registry import start_registry
from halohop.launch.jobs.ray.service import GraphService
from halohop.launch.jobs.ray.watch import Watch
from halohop.launch.jobs.secret import secret_of
from halohop.launch.jobs.tables import convert
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.wording import counted
from halohop.transport import Token
from halohop.transport.addresses import parsed_peer

_ANSWER_S = 10.0
_PATCHED_PRINT = "RAY_TRAIN_ENABLE_PRINT_PATCH"
"""Ray Train would write all that scripts print twice."""


def engine() -> "RayEngine":
    """What `engine_of` makes."""
    return RayEngine()


class RayEngine:
    """Turns a job into actors and workers of a cluster that runs already; the command is a driver of it."""

    def plan(self, job: Job) -> Plan:
        """Returns the plan with names in place of the nodes, which Ray chooses."""
        _options(job)
        return plan(job, host_names(job))

    def show(self, job: Job) -> str:
        """What would run, as text: where it runs is Ray's to say."""
        options = _options(job)
        lines = [f"cluster of Ray at {options.address}"]
        if job.servers is not None:
            _serve_options(job.servers)
            count = _num_servers(job)
            lines += [f"{counted(count, 'server')} of {job.data}: actors with {options.server_cpus:g} CPUs, {options.strategy}"]
        lines += [
            f"{counted(job.num_hosts * job.trainers, 'trainer')} of Ray Train with {options.trainer_cpus:g} CPUs and "
            f"{options.trainer_gpus:g} GPUs, in {job.folder}: {' '.join(program(job, '{graph}'))}"
        ]
        return "\n".join([*lines, ""])

    def run(self, job: Job, console: Console) -> None:
        """Runs a job on the cluster.

        Raises:
            InputError: Ray or the cluster is missing, or the job does not fit onto it.
            ClusterError: a server or a trainer failed; names it and its host, and shows the end of its log.
        """
        options = _options(job)
        token = Token(secret_of(job), encrypt=job.encrypt)
        output = Output(Path(job.out) / "logs", verbose=logs.is_verbose())
        with _connected(job, options), output.received(), ExitStack() as undo:
            ray_nodes = _num_servers(job)
            check_trainers(
                job.num_hosts * job.trainers,
                options.trainer_cpus,
                options.trainer_gpus,
                servers=ray_nodes,
                server_cpus=options.server_cpus,
            )
            write_plan(self.plan(job))
            name = f"{job.name}-{secrets.token_hex(3)}"
            service = _service(job, options, name, token)
            if service is None:
                undo.callback(ray_library().kill, start_registry(name, token, deadline=options.deadline))
            else:
                undo.enter_context(service)
                console.print(f"{counted(ray_nodes, 'server')} at {', '.join(service.addresses)}")
            task = RankTask(
                service=name,
                argv=program(job, "{graph}"),
                folder=job.folder,
                graph="" if service is None else ",".join(service.addresses),
                parts=Parts(source=job.data, cache=job.cache) if service is None and job.data else None,
            )
            Watch(name, service, output).until_done(_trainer(job, options, task, name))


def _options(job: Job) -> RayOptions:
    """The table [ray], and what of the job Ray has no use for.

    Raises:
        InputError: something that this engine cannot do.
    """
    if not isinstance(job.hosts, int):
        raise InputError(f"hosts={','.join(job.hosts)}: Ray chooses the nodes; give a number of hosts")
    if job.python != sys.executable:
        raise InputError(f"python={job.python!r}: Ray's nodes run the interpreter that `ray start` was called with; leave it out")
    return convert(job.options, RayOptions, "[ray]")


def _serve_options(servers: Servers) -> ServeOptions:
    return convert(servers.options, ServeOptions, "options of the servers")


def _num_servers(job: Job) -> int:
    return 0 if job.servers is None else len(job.servers.shares) or job.servers.count or job.num_hosts


def _service(job: Job, options: RayOptions, name: str, token: Token) -> GraphService | None:
    if job.servers is None:
        return None
    return GraphService(
        job.data,
        cache=job.cache,
        servers=_num_servers(job),
        replicas=job.servers.replicas,
        shares=job.servers.shares,
        name=name,
        token=token,
        num_cpus=options.server_cpus,
        strategy=options.strategy,
        max_restarts=options.max_restarts,
        port=job.servers.port,
        options=_serve_options(job.servers),
        deadline=options.deadline,
    )


def _trainer(job: Job, options: RayOptions, task: RankTask, name: str) -> Any:
    train = ray_library("ray.train")
    return ray_library("ray.train.torch").TorchTrainer(
        train_rank,
        train_loop_config={"task": task},
        scaling_config=train.ScalingConfig(
            num_workers=job.num_hosts * job.trainers,
            use_gpu=options.trainer_gpus > 0,
            resources_per_worker={"CPU": options.trainer_cpus, "GPU": options.trainer_gpus},
            placement_strategy="SPREAD",
        ),
        run_config=train.RunConfig(
            name=name,
            storage_path=options.storage or str(Path(job.out) / "ray"),
            failure_config=train.FailureConfig(max_failures=options.max_failures),
        ),
    )


@contextmanager
def _connected(job: Job, options: RayOptions) -> Iterator[None]:
    """This process as a driver of the cluster; all that it starts there ends with it.

    Raises:
        InputError: there is no cluster, or this process is a worker of one.
    """
    ray = ray_library()
    if ray.is_initialized():
        raise InputError("this process is connected to Ray already, as a worker or a driver; start halohop launch on its own")
    os.environ.setdefault(_PATCHED_PRINT, "0")
    try:
        if options.address != "auto":
            socket.create_connection(parsed_peer(options.address), timeout=_ANSWER_S).close()  # Ray would wait for minutes
        ray.init(
            address=options.address,
            log_to_driver=True,
            logging_level="warning",
            runtime_env={"env_vars": {**job.env}} if job.env else None,
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise InputError(
            f"no cluster of Ray answers at address={options.address!r} ({error}); start one with `ray start --head` and "
            "`ray start --address=HEAD:6379` on the other nodes, or give its address in [ray]"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
