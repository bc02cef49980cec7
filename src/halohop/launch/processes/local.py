"""The engine for one machine: starts N nodes x M trainers as processes, passes on what they report, and leaves none behind.

Every process leads a process group, so that whatever it starts ends with it, and holds a lifeline to this one. The launcher
keeps the TCPStore where the ranks meet, as torchrun's agent does.
"""

import logging
import os
import queue
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from halohop.cores import usable_cores
from halohop.errors import ClusterError, InputError
from halohop.files.aside import writing
from halohop.files.private import refuse_links
from halohop.launch.processes.failures import failure
from halohop.launch.processes.starting import CORES, Start, fresh
from halohop.launch.processes.tasks import Child, Ended, Event, News, Task, error_file, started
from halohop.launch.terminal.signals import EXIT_RESUMABLE, Resumable, Stopped
from halohop.transport import TOKEN_VARIABLE
from halohop.world import World

LOOPBACK = "127.0.0.1"
SETTLE_S = 5.0
"""Seconds that the other ranks have, after one failed, to say themselves what they saw."""
GRACE_S = 3.0
"""Seconds between asking a process to end and killing it: everything ends within 5 s of Ctrl-C."""

_LOG = logging.getLogger(__name__)


def run(
    module: str,
    arguments: Sequence[Sequence[str]],
    *,
    trainers: int,
    logs: Path,
    on_event: Callable[[Event], None] = lambda event: None,
    linger: float = 60.0,
    own_token: bool = True,
    start: Start = fresh,
) -> None:
    """Runs a module in ``len(arguments) * trainers`` processes, torchrun's environment in each, and waits for all of them.

    Args:
        module: what every process runs, as ``python -m`` does.
        arguments: per node, the module's command line.
        trainers: processes per node.
        logs: folder for what the ranks print, ``rank-K.log``.
        on_event: gets every JSON object that rank 0 prints to its standard output, one per line.
        linger: seconds the others may run on after the first process ended well.
        own_token: gives the ranks a new secret to talk to each other; without it they have the user's, if any.
        start: starts a process.

    Raises:
        ClusterError: names the process that failed, with its error or the end of its log, and says what became of the others.
        InputError, DatasetError: a process's own error, where it says what is wrong with the input.
        InputError: no node or no trainer.
    """
    places = worlds(len(arguments), trainers)

    def ranks(env: Mapping[str, str]) -> list[Task]:
        return [
            Task(
                name=f"rank {world.rank}",
                place=f"node {world.host}",
                argv=("-m", module, *arguments[world.host]),
                env={**env, **environment_of(world, env)},
                log=logs / f"rank-{world.rank}.log",
                events=world.rank == 0,
            )
            for world in places
        ]

    secret = {TOKEN_VARIABLE: secrets.token_hex(32)} if own_token else {}
    run_tasks(ranks, len(places), secret=secret, logs=logs, on_event=on_event, linger=linger, start=start)


def run_tasks(
    tasks_in: Callable[[Mapping[str, str]], Sequence[Task]],
    size: int,
    *,
    secret: Mapping[str, str],
    logs: Path,
    on_event: Callable[[Event], None] = lambda event: None,
    linger: float | None = 60.0,
    start: Start = fresh,
) -> None:
    """Starts processes, and waits for all but those that stay as long as the others need them.

    Args:
        tasks_in: the processes, whose environments extend one that they have in common.
        size: how many of them are ranks, which meet in a store that this process keeps.
        secret: environment that is not this process's.
        logs: folder of their logs; what an earlier run has left there goes.
        on_event: gets the events.
        linger: seconds the others may run on after the first process ended well; None: as long as they like.
        start: starts a process.

    Raises:
        ClusterError, InputError, DatasetError: as of `run`.
    """
    refuse_links(logs)
    with writing(logs):
        logs.mkdir(parents=True, exist_ok=True)
        for stale in (file for kind in ("rank", "server") for file in logs.glob(f"{kind}-*")):
            stale.unlink()
    news: News = queue.SimpleQueue()
    with ExitStack() as stack:
        env, lifeline = stack.enter_context(_meeting_place(size, secret))
        children: list[Child] = []
        stack.callback(_end, children)
        for number, task in enumerate(tasks_in(env)):
            children.append(started(start, task, number, lifeline, news))
        try:
            _attend(children, news, on_event, linger)
        except Stopped as stop:  # this process is asked to end, and so asks the others
            _end(children)
            if stop.code == 128 + signal.SIGTERM and _all_saved(children, news, on_event):  # Ctrl-C keeps its own code
                raise Resumable from stop
            raise


def worlds(nodes: int, trainers: int) -> list[World]:
    """The places of all ranks.

    Raises:
        InputError: there are none.
    """
    if nodes < 1 or trainers < 1:
        raise InputError(f"{nodes} nodes x {trainers} trainers are no processes; give at least 1 of each")
    return [world_of(rank, nodes, trainers) for rank in range(nodes * trainers)]


def environment_of(world: World, env: Mapping[str, str]) -> dict[str, str]:
    """What a rank has beside the environment of all: its place, and GPUs and cores of its node's own where there are enough."""
    gpus = node_gpus(world, env, torch.cuda.device_count())
    return _rank_environment(world) | gpus | node_cores(world, usable_cores())


def world_of(rank: int, nodes: int, trainers: int) -> World:
    """A rank's place where every node has the same number of trainers."""
    return World(
        rank=rank,
        size=nodes * trainers,
        host=rank // trainers,
        num_hosts=nodes,
        local_rank=rank % trainers,
        local_size=trainers,
    )


@contextmanager
def _meeting_place(size: int, secret: Mapping[str, str]) -> Iterator[tuple[dict[str, str], int]]:
    """The environment that all ranks share, and the lifeline; this and the store live as long as the context."""
    # Listens on the loopback interface only: the store has no password.
    listener = socket.create_server((LOOPBACK, 0))
    port = listener.getsockname()[1]
    store = dist.TCPStore(LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    read_end, write_end = os.pipe()
    own = {
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
        **secret,
        "PYTHONUNBUFFERED": "1",
    }
    # What the user has set counts. All ranks share this machine, and gloo needs no name resolution to find it.
    polite = {"OMP_NUM_THREADS": str(max(len(usable_cores()) // size, 1))}
    if "lo" in (name for _, name in socket.if_nameindex()):
        polite["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        yield {**polite, **os.environ, **own}, read_end
    finally:
        os.close(read_end)
        os.close(write_end)
        del store


def _rank_environment(world: World) -> dict[str, str]:
    return {
        "RANK": str(world.rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_RANK": str(world.local_rank),
        "LOCAL_WORLD_SIZE": str(world.local_size),
        "GROUP_RANK": str(world.host),
        "GROUP_WORLD_SIZE": str(world.num_hosts),
    }


def node_gpus(world: World, env: Mapping[str, str], gpus: int) -> dict[str, str]:
    """Environment that gives each simulated node GPUs of its own, as hosts have them; nothing where there are too few.

    Args:
        world: whose node.
        env: says in CUDA_VISIBLE_DEVICES which GPUs of the machine are ours, if not all.
        gpus: how many are ours.

    Example:
        >>> node_gpus(World(rank=1, size=2, host=1, num_hosts=2), {"CUDA_VISIBLE_DEVICES": "4,6"}, 2)
        {'CUDA_VISIBLE_DEVICES': '6'}
    """
    if gpus < world.size or gpus == 0:
        return {}
    visible = env["CUDA_VISIBLE_DEVICES"].split(",") if env.get("CUDA_VISIBLE_DEVICES") else list(map(str, range(gpus)))
    first = world.host * world.local_size
    return {"CUDA_VISIBLE_DEVICES": ",".join(visible[first : first + world.local_size])}


def node_cores(world: World, cores: Sequence[int]) -> dict[str, str]:
    """Environment that gives each simulated node cores of its own, as hosts have them; nothing where there are too few.

    Else each node would start threads and workers for the whole machine.

    Example:
        >>> node_cores(World(rank=1, size=2, host=1, num_hosts=2), [0, 1, 2, 3])
        {'HALOHOP_CORES': '2,3'}
    """
    if world.num_hosts < 2 or len(cores) < world.num_hosts:
        return {}
    first, last = (host * len(cores) // world.num_hosts for host in (world.host, world.host + 1))
    return {CORES: ",".join(map(str, cores[first:last]))}


def _attend(children: Sequence[Child], news: News, on_event: Callable[[Event], None], linger: float | None) -> None:
    """Passes events on until all have ended that do not stay, or one has failed and the others had their time."""
    running = {*range(len(children))}
    failed: list[Ended] = []
    deadline = None
    while any(not children[number].task.stays for number in running):
        try:
            item = news.get(timeout=None if deadline is None else max(deadline - time.monotonic(), 0))
        except queue.Empty:
            break
        if not isinstance(item, Ended):
            on_event(item)
            continue
        running.remove(item.number)
        if item.code and children[item.number].task.spare:
            _LOG.warning("%s has ended (%d); others stand in for it", children[item.number].name, item.code)
            continue
        if item.code:
            failed.append(item)
        fails = item.code not in (0, EXIT_RESUMABLE)
        patience = SETTLE_S if fails else None if children[item.number].task.stays else linger
        if patience is not None and (deadline is None or fails):
            deadline = min(deadline or float("inf"), time.monotonic() + patience)
    if failed and not running and all(item.code == EXIT_RESUMABLE for item in failed):
        raise Resumable
    if failed:
        raise failure(
            [children[ended.number].failed(ended.code) for ended in failed],
            ended=[children[number].name for number in sorted(running)],
        )
    if late := [children[number].name for number in sorted(running) if not children[number].task.stays]:
        logs = children[0].task.log.parent
        raise ClusterError(f"{', '.join(late)} did not end within {linger:g} s after the others had; see {logs}")


def _all_saved(children: Sequence[Child], news: News, on_event: Callable[[Event], None]) -> bool:
    """Whether all that do not stay have ended with a state to go on from, by the news that are left."""
    codes: dict[int, int] = {}
    while not news.empty():
        item = news.get()
        if isinstance(item, Ended):
            codes[item.number] = item.code
        else:
            on_event(item)
    ranks = [number for number, child in enumerate(children) if not child.task.stays]
    return all(codes.get(number) == EXIT_RESUMABLE for number in ranks)


def _end(children: Sequence[Child]) -> None:
    """Asks those that still run to end, and after a grace kills them."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S
        for child in children:
            if child.waiter.is_alive():
                child.send(kind)
        for child in children:
            child.waiter.join(max(deadline - time.monotonic(), 0))
    for child in children:
        error_file(child.task.log).unlink(missing_ok=True)
