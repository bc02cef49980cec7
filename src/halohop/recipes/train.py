"""Training, the same for one trainer and for many: every trainer runs `train`."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import halohop
from halohop import World
from halohop.collectives import from_rank_0, world_of
from halohop.recipes.compiling import check_compiler
from halohop.recipes.config import TrainConfig
from halohop.recipes.events import Event, EventLog
from halohop.recipes.folder import check_run
from halohop.recipes.link_task import LinkTask
from halohop.recipes.loop import Run
from halohop.recipes.node_task import NodeTask
from halohop.recipes.sharing import choose_device, shared_graph
from halohop.recipes.stopping import answering_sigterm, never
from halohop.recipes.task import Setting


def train(
    config: TrainConfig,
    *,
    world: World | None = None,
    on_event: Callable[[Event], None] = lambda _: None,
    stoppable: bool = False,
) -> Event:
    """Trains a model; called by every trainer of the world.

    Args:
        config: what to do.
        world: this trainer's place; None takes that in the process group that exists, or else what the launcher describes
            (`World.detect`).
        on_event: called on rank 0 with every event, as it is written to ``<out>/metrics.jsonl``; of a resumed run,
            first with those of before.
        stoppable: SIGTERM in any of the trainers ends all of them after their next step (several on GPUs: within 8 steps).
            They save the run and raise `ResumableStop`, which has an exit code of its own. Only in the main thread.

    Returns:
        The last event, "end", on every rank: test accuracy (of links: ``test_mrr``, ``test_auc``, ...), best epoch, totals.

    Raises:
        InputError: config and graph do not fit together, or not with the run that is to go on; or `out` holds a run that would be
            lost, and ``config.overwrite`` is false.
        WriteError: a file of the run cannot be written; names it.
        TransportError, ClusterError: another host or trainer is gone; names it.
    """
    world = world_of(world)
    resumes = world.rank == 0 and check_run(config, world.size)
    device = choose_device(config.device, world)
    if config.compile:
        check_compiler(device)
    with (
        shared_graph(config, world=world, device=device) as graph,
        EventLog(config.out, world, on_event) as emit,
    ):
        if config.resume == "auto":  # rank 0 has looked before anybody writes
            config = replace(config, resume=from_rank_0(bytes([resumes]), device, world) == b"\1")
        setting = Setting(config=config, graph=graph, world=world, device=device)
        with answering_sigterm() if stoppable else nullcontext(never) as asked:
            return _trained(setting, emit, asked)


def _trained(setting: Setting, emit: EventLog, asked: Callable[[], bool]) -> Event:
    """In a function of its own, so that nothing of the run outlives it: the process group ends next."""
    config = setting.config
    task = NodeTask(setting) if config.task == "node" else LinkTask(setting)
    run = Run(task, setting, emit, asked)
    if config.metrics is None:
        return run.go()
    with halohop.metrics(run.loader, listen=config.metrics, ahead=setting.world.local_rank):
        return run.go()
