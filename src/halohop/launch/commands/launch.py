"""`halohop launch`: a job from a file and options, on the engine that it names."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import typer

from halohop.errors import InputError
from halohop.launch.jobs.engine import engine_of
from halohop.launch.jobs.job import Job, Servers, read_job
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.plan_file import plan_text
from halohop.launch.options import spec
from halohop.launch.options.fields import field_option, from_fields
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.group import Command, is_alone
from halohop.world import World

JOB, HOSTS, DATA = "Job", "Hosts and processes", "Data and results"

_OF_THE_JOB = {
    "train": {"parts", "nodes", "trainers", "out", "token_file", "encrypt", "config"},
    "serve": {"parts", "partitions", "share", "listen", "advertise", "peers", "token_file", "encrypt"},
}
"""Options of commands that a job says in another place."""
_OF_DGL = {"--workspace", "--ip_config", "--part_config", "--num_trainers"}


class LaunchCommand(Command):
    """A command that names those of DGL's face if it is given their options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if found := _OF_DGL & {word.partition("=")[0] for word in takewhile("--".__ne__, args)}:
            other = "copy_files" if self.name == "launch copy" else "launch"
            raise InputError(f"{min(found)} is an option of DGL's launcher; run `python -m halohop.dgl.{other}`")
        return super().parse_args(ctx, args)


@from_fields(
    Job,
    panels={"engine": JOB, "hosts": HOSTS, "data": DATA},
    before={
        "engine": ("script", "config"),
        "hosts": ("dry_run", "submit_nothing", "wait"),
        "master_port": ("servers", "replicas"),
    },
    only_given=True,
)
def launch(
    context: typer.Context,
    settings: dict[str, Any],
    script: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- SCRIPT ARGUMENT...]",
            help="Your program and its arguments. {graph} becomes the folder or servers of the graph, {out} the run folder.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=JOB, show_default=False, help="TOML or YAML file of the job. Options override it."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", rich_help_panel=JOB, help="Print the processes of each host. Start nothing.")
    ] = False,
    submit_nothing: Annotated[
        bool, typer.Option("--print", rich_help_panel=JOB, help="Print what the engine would submit. Start nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", rich_help_panel=JOB, help="Slurm: wait for the end of the job. Ctrl-C cancels it.")
    ] = False,
    servers: Annotated[
        int | None,
        typer.Option(
            metavar="N", rich_help_panel=HOSTS, show_default="none; trainers hold it", help="Servers that hold the graph."
        ),
    ] = None,
    replicas: Annotated[int | None, field_option(Servers, "replicas", HOSTS, only_given=True).info] = None,
) -> None:
    """Run a script or halohop train on several hosts.

    Engines are local (simulated hosts), ssh, slurm, k8s (Kubernetes) and ray.

    \b
    $ halohop launch --hosts 2 --trainers 2 --data parts \\
        -- train.py {graph} --epochs 3

    $ halohop launch --config job.toml --engine ssh --hosts node1,node2

    $ halohop launch --config job.toml --engine slurm --print

    $ halohop launch --config job.toml --engine slurm --wait
    """
    counts = {"count": servers, "replicas": replicas}
    given = {"servers": {name: count for name, count in counts.items() if count is not None} or None, "run": script or None}
    job = read_job(config, {**settings, **given}, out=f"runs/{datetime.now():%Y%m%d-%H%M%S}")
    job = with_checked_options(job, context)
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
