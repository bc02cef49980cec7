"""A run from its source to its results: partition if need be, start the trainers, keep what they report, draw it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from halohop.errors import InputError
from halohop.files import UrlFolder, is_url, masked, refuse_links
from halohop.launch.options import spec
from halohop.launch.processes.starting import Start, fresh, is_launched
from halohop.launch.processes.tasks import Event
from halohop.launch.runs import preflight
from halohop.launch.runs.nodes import run_recipe
from halohop.launch.runs.outcome import PICTURE, Outcome, draw
from halohop.launch.runs.source import SourceOptions, is_partitioned, partition_source
from halohop.launch.runs.verifying import verify
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.progress import TrainingDisplay, stages
from halohop.launch.terminal.wording import counted
from halohop.recipes.checks import servers_of
from halohop.recipes.config import InferConfig, TrainConfig, to_dict
from halohop.recipes.folder import check_run
from halohop.recipes.inference import check_output, infer_with_events
from halohop.recipes.inference import infer as predict
from halohop.recipes.train import train as recipe
from halohop.world import World

OnEvent = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Does nothing with an event."""


def train(
    config: TrainConfig,
    source: SourceOptions,
    *,
    nodes: int,
    trainers: int,
    console: Console,
    on_event: OnEvent = ignore_event,
    check: bool = False,
    start: Start = fresh,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Outcome | None:
    """Trains on a partitioned graph, servers of one, or a source, here or as one of a launcher's ranks, and draws a picture.

    Args:
        config: its `parts` may be a source as well, which is then partitioned into the run folder.
        source: how.
        nodes, trainers: hosts to simulate, processes on each.
        console: where to show people how it goes.
        on_event: gets every event of rank 0, for machines.
        check: read all files of the partitions first, and compare them with their checksums.
        start: starts a trainer.
        given: what a URL was given by, and where it is staged, by the names of the options.

    Returns:
        What came out; None on a launcher's ranks other than 0.

    Raises:
        ClusterError: a process failed; names it.
        DatasetError: the data set cannot be used.
        InputError: a source under a launcher, options that speak of another world than it, or a run that would be lost.
    """
    preflight.check_machine(config)
    world = World.detect()
    joining = is_launched(world)
    served = bool(servers_of(config.parts))
    resumes = world.rank == 0 and check_run(config, world.size if joining else nodes * trainers)
    if world.rank == 0:
        refuse_links(*(Path(config.out, name) for name in (spec.OPTIONS, PICTURE)))
    kept: dict[str, Any] = {"nodes": nodes, "trainers": trainers, "method": source.method}
    if not served and not is_partitioned(config.parts):
        if joining:
            raise InputError(
                f"{config.parts} is no partitioned graph, and ranks of a launcher cannot make one together; "
                f"first: halohop partition {config.parts} PARTS"
            )
        kept |= _source(config, source)
        config = replace(config, parts=_partitioned(config, source, console, resumes=resumes))
    if not joining:
        preflight.check_graph(config, nodes)
    if check and world.local_rank == 0:
        verify(config.parts, console)

    def watch(event: Event) -> None:
        if event["event"] == "start":  # a run that is refused changes nothing in its folder
            _keep_options(config, kept, given)
        on_event(event)

    if joining:
        return train_as_one(config, nodes=nodes, trainers=trainers, console=console, on_event=watch)
    return train_here(config, nodes=nodes, trainers=trainers, console=console, on_event=watch, start=start)


def _source(config: TrainConfig, source: SourceOptions) -> dict[str, Any]:
    """What decides which graph a source becomes, as the run folder keeps it."""
    name = str(Path(config.parts).resolve()) if Path(config.parts).exists() else config.parts
    return {"source": name, "undirected": source.undirected, "normalize": source.normalize}


def _partitioned(config: TrainConfig, source: SourceOptions, console: Console, *, resumes: bool) -> str:
    """The folder of a source's partitions in the run folder. A run that resumes takes those that are there.

    Raises:
        InputError: the run that resumes had another source.
    """
    parts, then = Path(config.out) / "parts", spec.read_options(config.out) if resumes else {}
    for name, value in _source(config, source).items() if resumes else ():
        if name in then and then[name] != value:  # older runs do not say it, and their state says whether the graph is the same
            raise InputError(
                f"{name}={value!r}, but the run in {config.out} has {name}={then[name]!r}; choose another folder, or "
                "start again there (overwrite=True)"
            )
    if not (resumes and is_partitioned(parts)):
        partition_source(
            config.parts,
            parts,
            num_parts=source.num_parts,
            method=source.method,
            undirected=source.undirected,
            normalize=source.normalize,
            seed=config.seed,
            task=config.task,
            time_attr=config.time_attr,
            overwrite=True,
            console=console,
        )
    return str(parts)


def _keep_options(config: TrainConfig, kept: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Writes down how the run was started, for `--resume`."""
    out, known = Path(config.out), {"deadline": config.deadline_s, "overwrite": None, **kept}
    afar, served = is_url(str(given.get("parts", ""))), bool(servers_of(config.parts))
    parts = None if served or afar else config.parts
    files = {"parts": parts, "token_file": config.token_file, "stage": given.get("stage")}
    known |= {name: str(Path(file).resolve()) for name, file in files.items() if file is not None}
    if afar:
        known |= {"parts": masked(given["parts"]), "stage_bytes": given.get("stage_bytes")}
    before = spec.read_options(config.out)
    if before.get("parts") == known.get("parts"):  # `--resume RUN` names the partitions, not their source
        known = {name: before[name] for name in ("source", "undirected", "normalize") if name in before} | known
    spec.keep_options(out, to_dict(config) | known)
    if config.copy_to is not None:
        UrlFolder(config.copy_to).send(out / spec.OPTIONS, spec.OPTIONS)


def train_here(
    config: TrainConfig, *, nodes: int, trainers: int, console: Console, on_event: OnEvent = ignore_event, start: Start = fresh
) -> Outcome:
    """Trains with ``nodes * trainers`` processes on this machine and leaves results and a picture in the run folder.

    Raises:
        ClusterError: a process failed; names it.
        DatasetError: the data set cannot be used.
    """

    def go(watch: OnEvent) -> None:
        module = "halohop.recipes.trainer"
        run_recipe(module, config, nodes=nodes, trainers=trainers, console=console, on_event=watch, start=start)

    outcome = _watched(go, config, console, on_event)
    draw(outcome, config, f"{counted(nodes, 'node')} x {counted(trainers, 'trainer')}")
    return outcome


def train_as_one(
    config: TrainConfig, *, nodes: int, trainers: int, console: Console, on_event: OnEvent = ignore_event
) -> Outcome | None:
    """Trains as the one rank that a launcher made of this process; rank 0 returns the outcome.

    Raises:
        InputError: the options speak of another world than the launcher.
    """
    world = World.detect()
    _check_options(world, nodes, trainers)
    if world.rank != 0:
        recipe(config, world=world, on_event=ignore_event, stoppable=True)
        return None
    outcome = _watched(lambda watch: recipe(config, world=world, on_event=watch, stoppable=True), config, console, on_event)
    draw(outcome, config, f"{counted(world.num_hosts, 'node')} x {counted(world.local_size, 'trainer')}")
    return outcome


def infer(
    config: InferConfig,
    *,
    nodes: int,
    trainers: int,
    console: Console,
    on_event: OnEvent = ignore_event,
    check: bool = False,
    start: Start = fresh,
) -> list[Path]:
    """Writes predictions, in this process if it is the only one or a launcher's, and shows how far they are.

    Args:
        config: what to do.
        nodes, trainers: hosts to simulate, processes on each.
        console: where to show people how it goes.
        on_event: gets every event of rank 0, for machines.
        check, start: as of `train`.

    Returns:
        The files; none on a launcher's ranks other than 0.

    Raises:
        InputError: as `halohop.recipes.inference.infer`, or options that speak of another world than the launcher.
        DatasetError: the graph or the checkpoint cannot be used.
        ClusterError: a process failed; names it.
    """
    world = World.detect()
    if joining := is_launched(world):
        _check_options(world, nodes, trainers)
    if world.rank == 0:
        check_output(config)
    if check and world.local_rank == 0:
        verify(config.parts, console)
    if world.rank != 0:
        predict(config, world=world)
        return []
    files: list[str] = []
    preflight.check_machine(config)
    with stages(console) as progress:

        def watch(event: Event) -> None:
            on_event(event)
            if event["event"] == "progress":
                progress(event["stage"], event["done"], event["total"])
            elif event["event"] == "end":
                files.extend(event["files"])

        if joining or nodes * trainers == 1:
            infer_with_events(config, world, watch)
        else:
            preflight.check_graph(config, nodes)
            module = "halohop.recipes.inference"
            run_recipe(module, config, nodes=nodes, trainers=trainers, console=console, on_event=watch, start=start)
    return [Path(file) for file in files]


def _check_options(world: World, nodes: int, trainers: int) -> None:
    if nodes not in (1, world.num_hosts) or trainers not in (1, world.local_size):
        raise InputError(
            f"--nodes {nodes} --trainers {trainers}, but a launcher has started {world.size} ranks, {world.local_size} of them "
            "here; leave both out: torchrun decides, or srun, or what else started them"
        )


def _watched(start: Callable[[OnEvent], object], config: TrainConfig, console: Console, on_event: OnEvent) -> Outcome:
    """Shows a run's events while `start` makes them, passes them on to `on_event`, and keeps those that count."""
    epochs: list[Event] = []
    edges: dict[str, Event] = {"start": {}, "end": {}}
    with TrainingDisplay(console, epochs=config.epochs) as display:

        def watch(event: Event) -> None:
            display(event)
            on_event(event)
            if event["event"] == "epoch":
                epochs.append(event)
            elif event["event"] in edges:
                edges[event["event"]] = event

        start(watch)
    return Outcome(out=Path(config.out), start=edges["start"], epochs=tuple(epochs), end=edges["end"])
