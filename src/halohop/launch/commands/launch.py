"""`halohop launch`: a job from a file and options, on the engine that it names."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from halohop.errors import InputError
from halohop.launch.commands.dgl_options import dgl_options
from halohop.launch.jobs.engine import engine_of
from halohop.launch.jobs.job import Job, read_job
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.plan_file import plan_text
from halohop.launch.options import dgl, launching, spec
from halohop.launch.options.parsing import pairs
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.group import is_alone
from halohop.world import World

_OF_THE_JOB = {
    "train": {"parts", "nodes", "trainers", "out", "token_file", "encrypt", "config"},
    "serve": {"parts", "partitions", "share", "listen", "advertise", "peers", "token_file", "encrypt"},
}
"""Options of commands that a job says in another place."""


def launch(
    context: typer.Context,
    script: launching.Script = None,
    config: launching.JobFile = None,
    engine: launching.EngineName = None,
    name: launching.JobName = None,
    hosts: launching.Hosts = None,
    trainers: launching.Trainers = None,
    servers: launching.ServerCount = None,
    replicas: launching.Replicas = None,
    data: launching.Data = None,
    cache: launching.CacheFolder = None,
    out: launching.Out = None,
    train: launching.Train = None,
    start: launching.StartName = None,
    master_port: launching.MasterPort = None,
    env: launching.Env = None,
    python: launching.Python = None,
    folder: launching.Folder = None,
    token_file: launching.TokenOfJob = None,
    encrypt: launching.EncryptJob = None,
    master_addr: launching.MasterAddress = None,
    epochs: launching.GltEpochs = None,
    batch_size: launching.GltBatchSize = None,
    program: launching.GltScript = None,
    workspace: dgl.Workspace = None,
    num_trainers: dgl.NumTrainers = None,
    num_samplers: dgl.NumSamplers = None,
    num_servers: dgl.NumServers = None,
    num_server_threads: dgl.NumServerThreads = None,
    part_config: dgl.PartConfig = None,
    ip_config: dgl.IpConfig = None,
    ssh_port: dgl.SshPort = None,
    ssh_username: dgl.SshUserName = None,
    extra_envs: dgl.ExtraEnvs = None,
    num_omp_threads: dgl.NumOmpThreads = None,
    graph_format: dgl.GraphFormat = None,
    server_name: dgl.ServerName = None,
    dry_run: launching.DryRun = False,
    submit_nothing: launching.Print = False,
    wait: launching.Wait = False,
) -> None:
    """Run a script or halohop train on several hosts.

    Engines are local (simulated hosts), ssh, slurm, k8s (Kubernetes) and ray.

    \b
    $ halohop launch --hosts 2 --trainers 2 --data parts \\
        -- train.py {graph} --epochs 3

    $ halohop launch --config job.toml --engine ssh --hosts node1,node2

    $ halohop launch --config job.toml --engine slurm --print

    $ halohop launch --config job.toml --engine slurm --wait

    $ halohop launch --config glt_config.yml --master-addr 10.0.0.7

    \b
    $ halohop launch --workspace /scratch/sage --num_trainers 2 \\
        --part_config data/graph.json --ip_config ip_config.txt \\
        "python3 train.py --epochs 3"
    """
    same = ("engine", "name", "hosts", "trainers", "start", "data", "cache", "python", "folder", "master_port")
    given = {each: context.params[each] for each in same}
    given |= {"out": out, "encrypt": encrypt, "token_file": token_file and str(token_file), "run": script or None}
    given["servers"] = {key: value for key, value in (("count", servers), ("replicas", replicas)) if value is not None} or None
    given["env"] = pairs(env or (), "--env") or None
    given["train"] = pairs(train or (), "--train") or None
    of_glt = {"master_addr": master_addr, "epochs": epochs, "batch_size": batch_size, "script": program}
    of_dgl = dgl_options(context.params)
    read = read_job(config, given, out=f"runs/{datetime.now():%Y%m%d-%H%M%S}", of_glt=of_glt, of_dgl=of_dgl)
    job = with_checked_options(read, context)
    if wait:
        job = waited_for(job)
    if submit_nothing:
        typer.echo(engine_of(job.engine).show(job), nl=False)
    elif dry_run:
        typer.echo(plan_text(engine_of(job.engine).plan(job)), nl=False)
    else:
        check_not_launched()
        here = job.engine != "k8s"  # whose pods have the run folder
        with alone_in(Path(job.out)) if here else nullcontext():
            _run(job, context, logs.people())


def _run(job: Job, context: Any, console: Console) -> None:
    chosen = engine_of(job.engine)
    if job.engine != "local" or job.train is None:
        chosen.run(job, console)
        return
    from halohop.launch.jobs.local.engine import Local
    from halohop.launch.processes.forking import fork_server

    assert isinstance(chosen, Local)
    import_module("halohop.launch.runs.runs")  # what trainers import is imported before they are forked
    with fork_server(alone=is_alone(context)) as start:
        replace(chosen, start=start).run(job, console)


def waited_for(job: Job) -> Job:
    """The job, for an engine that queues it, as one to wait for.

    Raises:
        InputError: the engine queues no jobs.
    """
    if job.engine != "slurm":
        raise InputError(f"--wait is for the engine slurm, which queues jobs; leave it out with the engine {job.engine}")
    return replace(job, options={**job.options, "wait": True})


def check_not_launched() -> None:
    """Refuses to start a job from each rank of another one.

    Raises:
        InputError: this process is one of several ranks.
    """
    world = World.detect()
    if world.size > 1:
        raise InputError(
            f"a launcher has started this process as rank {world.rank} of {world.size}, and each rank would launch the whole "
            "job; start halohop launch once, outside of torchrun, srun or mpirun, or run halohop train here"
        )


def with_checked_options(job: Job, context: Any) -> Job:
    """The job, after a look at the options of `halohop train` and `halohop serve` that it names.

    Raises:
        InputError: an unknown one, or one that the job says in another place.
    """
    if job.train is not None:
        job = replace(job, train=_checked("train", job.train, context))
    if job.servers is not None:
        job = replace(job, servers=replace(job.servers, options=_checked("serve", job.servers.options, context)))
    return job


def _checked(command: str, options: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """The options as flags of a command line: `words` spells them."""
    parent = context.parent
    known = {
        each.name: each
        for each in parent.command.get_command(parent, command).params
        if each.name not in {*_OF_THE_JOB[command], "help"} and each.param_type_name == "option"
    }
    others = {name: frozenset(flag.lstrip("-") for flag in each.opts) for name, each in known.items()}
    found: dict[str, Any] = {}
    for name, value in spec.options(options, others, Path(f"options of halohop {command}")).items():
        on, off = known[name].opts[0].lstrip("-"), [flag.lstrip("-") for flag in known[name].secondary_opts]
        if value is False and off:
            found[off[0]] = True
        else:
            found[on] = value
    return found
