"""The command `halohop`: thin commands over what the library does."""

import platform
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer

from halohop import __version__
from halohop.errors import InputError
from halohop.files.urls import is_url, masked
from halohop.launch.commands import copy as copy_command
from halohop.launch.commands import export as export_command
from halohop.launch.commands import fetch as fetch_command
from halohop.launch.commands import inspect as inspect_command
from halohop.launch.commands import launch as launch_command
from halohop.launch.commands import partition as partition_command
from halohop.launch.commands import replicate as replicate_command
from halohop.launch.commands import serve as serve_command
from halohop.launch.commands import sum_weights as sum_weights_command
from halohop.launch.commands import tools
from halohop.launch.commands import upload as upload_command
from halohop.launch.commands.partition import BuildOptions
from halohop.launch.options import parsing, shared
from halohop.launch.options.fields import field_option, from_fields
from halohop.launch.options.shared import EVALUATION, LINKS, MODEL, PLACE, TRAINING
from halohop.launch.options.spec import AUTO
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console, echo
from halohop.launch.terminal.group import Command, Commands, is_alone
from halohop.recipes.config import InferConfig, Resume, TrainConfig

app = typer.Typer(
    name="halohop",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"halohop {__version__} (torch {version('torch')}, Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def halohop(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, show_default=False, help="Log progress. Give it twice for details.")
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only results and errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Train graph neural networks on graphs larger than one process or machine.

    $ halohop demo

    $ halohop partition synthetic:small parts --parts 4

    $ halohop train parts --nodes 2 --trainers 2 --out runs/first
    """
    logs.configure(logs.level_of(verbose=verbose, quiet=quiet))


DATA, TRAIN, DEPLOY, TOOLS = "Data", "Train", "Serve and deploy", "Tools"

_OF_DATA: tuple[Callable[..., None], ...] = (
    *(partition_command.partition, inspect_command.inspect, fetch_command.fetch, upload_command.upload),
    *(export_command.export, replicate_command.replicate, sum_weights_command.sum_weights),
)
for command in _OF_DATA:
    app.command(command.__name__.replace("_", "-"), cls=Command, rich_help_panel=DATA)(command)


@app.command(cls=Command, rich_help_panel=TRAIN)
@from_fields(
    TrainConfig,
    panels={
        "model": MODEL,
        "relation": LINKS,
        "epochs": TRAINING,
        "eval_every": EVALUATION,
        "workers": PLACE,
        "token_file": None,
    },
    before={"workers": ("nodes", "trainers"), "save_every": ("stage", "stage_bytes")},
)
def train(
    context: typer.Context,
    parts: Annotated[
        str,
        typer.Argument(
            metavar="PARTS_OR_SOURCE",
            help="Folder or URL of a partitioned graph, its servers (HOST:PORT,...), or a source to partition first.",
        ),
    ],
    settings: dict[str, Any],
    nodes: shared.Nodes = 1,
    trainers: shared.Trainers = 1,
    stage: shared.StageFolder = None,
    stage_bytes: shared.StageBytes = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            callback=parsing.read_run_option,
            is_eager=True,
            show_default=False,
            help="Continue the run in this folder or URL, with its options. auto continues this run in --out, or starts it.",
            rich_help_panel=PLACE,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=PLACE,
            help="Folder of the run, or its URL with --stage.",
            metavar="FOLDER",
            show_default="runs/DATE-TIME",
        ),
    ] = None,
    verify: shared.Verify = False,
    method: Annotated[
        shared.Method, typer.Option(help="How to assign nodes. auto is metis if it is installed and fits into memory.")
    ] = "auto",
    undirected: Annotated[bool, field_option(BuildOptions, "undirected").info] = False,
    normalize: Annotated[bool, field_option(BuildOptions, "normalize").info] = False,
    as_json: shared.Json = False,
    config: shared.Config = None,
) -> None:
    """Train a model to classify nodes or predict links.

    Start it once to use processes of this machine, or on every rank with torchrun.

    $ halohop train parts --fanout 15,10,5 --nodes 2 --trainers 2 --out runs/first

    $ halohop train synthetic:small --nodes 2 --epochs 5

    $ halohop train messages.pt --undirected --task link --time-attr time

    $ halohop train parts --config sage.toml --lr 0.003

    $ halohop train 10.0.0.7:5510,10.0.0.8:5510 --token-file secret

    $ halohop train s3://bucket/parts --stage /scratch/stage

    $ halohop train --resume runs/first

    $ halohop train parts --out runs/first --resume auto

    $ torchrun --nproc-per-node 4 -m halohop train parts --out runs/first
    """
    from halohop.launch.processes.forking import fork_server
    from halohop.launch.runs import runs
    from halohop.launch.runs.afar import parts_here
    from halohop.launch.runs.afar_results import run_here
    from halohop.launch.runs.outcome import show
    from halohop.launch.runs.source import SourceOptions
    from halohop.recipes.events import print_event
    from halohop.store.afar.staging import Stage
    from halohop.world import World

    auto = resume == AUTO
    if auto and out is None:
        raise InputError("--resume auto needs the folder of the run; give --out")
    folder = (None if auto else resume) or out or f"runs/{datetime.now():%Y%m%d-%H%M%S}"
    resumes: Resume = "auto" if auto else resume is not None
    source = SourceOptions(num_parts=nodes, method=method, undirected=undirected, normalize=normalize)
    place, world = Stage.of(stage, stage_bytes), World.detect()
    with (
        fork_server(alone=is_alone(context)) as start,
        parts_here(parts, place, console=logs.people(), world=world) as found,
    ):
        here, copy_to = run_here(folder, place, resume=resumes, rank=world.rank)
        outcome = runs.train(
            TrainConfig(parts=found, out=here, copy_to=copy_to, resume=resumes, **settings),
            source,
            nodes=nodes,
            trainers=trainers,
            console=logs.people(),
            on_event=print_event if as_json else runs.ignore_event,
            check=verify,
            start=start,
            given={"parts": parts, "stage": stage, "stage_bytes": stage_bytes},
        )
    if outcome is not None:
        show(outcome, logs.people() if as_json else Console(), url=copy_to)


@app.command(cls=Command, rich_help_panel=TRAIN)
@from_fields(
    InferConfig,
    panels={"fanout": EVALUATION, "workers": PLACE, "token_file": None},
    before={"overwrite": ("out",), "workers": ("nodes", "trainers")},
)
def infer(
    context: typer.Context,
    parts: Annotated[
        str,
        typer.Argument(
            metavar="PARTS", help="Folder or URL of a partitioned graph. With --fanout also its servers: HOST:PORT,..."
        ),
    ],
    checkpoint: Annotated[str, typer.Option(metavar="FOLDER", help="RUN/checkpoint of a training run, or its URL with --stage.")],
    settings: dict[str, Any],
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Folder for the results, or a URL with --stage.")] = "predictions",
    nodes: shared.Nodes = 1,
    trainers: shared.Trainers = 1,
    stage: shared.StageFolder = None,
    stage_bytes: shared.StageBytes = None,
    verify: shared.Verify = False,
    as_json: shared.Json = False,
    config: shared.Config = None,
) -> None:
    """Predict node classes or compute node embeddings with a trained model.

    Without --fanout each layer is computed once for all nodes, from all neighbors. If the command is stopped, run it again to
    resume.

    $ halohop infer parts --checkpoint runs/first/checkpoint --out predictions

    $ halohop infer parts --checkpoint runs/first/checkpoint --embeddings

    \b
    $ halohop infer parts --checkpoint runs/first/checkpoint \\
        --split test --form parquet --fanout 15,10
    """
    from halohop.launch.processes.forking import fork_server
    from halohop.launch.runs import runs
    from halohop.launch.runs.afar import parts_here
    from halohop.launch.runs.afar_results import checkpoint_here, results_here
    from halohop.recipes.events import print_event
    from halohop.store.afar.staging import Stage
    from halohop.world import World

    place, world = Stage.of(stage, stage_bytes), World.detect()
    with (
        fork_server(alone=is_alone(context) and nodes * trainers > 1) as start,
        parts_here(parts, place, console=logs.people(), world=world) as found,
        results_here(out, place, overwrite=settings["overwrite"], rank=world.rank) as results,
    ):
        files = runs.infer(
            InferConfig(parts=found, checkpoint=checkpoint_here(checkpoint, place), out=str(results), **settings),
            nodes=nodes,
            trainers=trainers,
            console=logs.people(),
            on_event=print_event if as_json else runs.ignore_event,
            check=verify,
            start=start,
        )
    for file in files if not as_json else ():
        echo(f"{masked(out)}/{file.name}" if is_url(out) else file)


app.command(cls=launch_command.LaunchCommand, rich_help_panel=DEPLOY)(launch_command.launch)
app.command("launch copy", cls=launch_command.LaunchCommand, rich_help_panel=DEPLOY)(copy_command.copy)
app.command(cls=Command, rich_help_panel=DEPLOY)(serve_command.serve)
app.command(cls=Command, rich_help_panel=DEPLOY)(tools.health)
app.command(cls=Command, rich_help_panel=DEPLOY)(tools.top)
app.command(cls=Command, rich_help_panel=TOOLS)(tools.demo)
app.command(cls=Command, rich_help_panel=TOOLS)(tools.bench)
app.command("compile", cls=Command, rich_help_panel=TOOLS)(tools.compile_kernels)
