"""The engine for one machine: starts N nodes x M trainers as processes, passes on what they report, and leaves none behind.

Every process leads a process group, so that whatever it starts ends with it, and holds a lifeline to this one. The launcher
keeps the TCPStore where the ranks meet, as torchrun's agent does.
"""

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
from halohop.files.aside import writing
from halohop.files.private import refuse_links
from halohop.launch.processes.ends import Ends
from halohop.launch.processes.places import THREADS, rank_environment, worlds
from halohop.launch.processes.stalls import Stalls
from halohop.launch.processes.starting import CORES, Start, fresh
from halohop.launch.processes.tasks import Child, Ended, Event, News, Task, error_file, remove_logs, started
from halohop.launch.terminal.signals import Resumable, Stopped
from halohop.transport import TOKEN_VARIABLE
from halohop.world import World

LOOPBACK = "127.0.0.1"
GRACE_S = 3.0
"""Seconds between asking a process to end and killing it: everything ends within 5 s of Ctrl-C."""


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
    stall: float | None = None,
    start: Start = fresh,
) -> None:
    """Starts processes, and waits for all but those that stay as long as the others need them.

    Args:
        tasks_in: the processes, whose environments extend one that they have in common.
        size: how many of them are ranks, which meet in a store that this process keeps; 0: none is, and there is no store.
        secret: environment that is not this process's.
        logs: folder of their logs; what an earlier run has left there goes.
        on_event: gets the events.
        linger: seconds the others may run on after the first process ended well; None: as long as they like.
        stall: as of `Stalls`.
        start: starts a process.

    Raises:
        ClusterError, InputError, DatasetError: as of `run`.
    """
    refuse_links(logs)
    with writing(logs):
        logs.mkdir(parents=True, exist_ok=True)
        remove_logs(logs)
    news: News = queue.SimpleQueue()
    with ExitStack() as stack:
        env, lifeline = stack.enter_context(_meeting_place(size, secret))
        children: list[Child] = []
        stack.callback(_end, children)
        stalls = stack.enter_context(Stalls(stall))
        ends = Ends[int](name=lambda number: children[number].name, linger=linger)
        for number, task in enumerate(tasks_in(env)):
            children.append(started(start, task, number, lifeline, news, stalls))
            ends.begin(number, task.member)
        try:
            _attend(ends, news, on_event)
        except Stopped as stop:  # this process is asked to end, and so asks the others
            _end(children)
            while not news.empty():
                _take(news.get(), ends, on_event)
            if stop.code == 128 + signal.SIGTERM and ends.may_resume:  # Ctrl-C keeps its own code
                raise Resumable from stop
            raise
        ends.judge(lambda number: children[number].failed(ends.codes[number]), logs=logs)


def environment_of(world: World, env: Mapping[str, str]) -> dict[str, str]:
    """What a rank has beside the environment of all: its place, and GPUs and cores of its node's own where there are enough."""
    gpus = node_gpus(world, env, torch.cuda.device_count())
    return rank_environment(world) | gpus | node_cores(world, usable_cores())


@contextmanager
def _meeting_place(size: int, secret: Mapping[str, str]) -> Iterator[tuple[dict[str, str], int]]:
    """The environment that all processes share, and the lifeline; this and the ranks' store live as long as the context."""
    # What the user has set counts. All ranks share this machine, and gloo needs no name resolution to find it.
    polite = {THREADS: str(max(len(usable_cores()) // size, 1))} if size else {}
    if "lo" in (name for _, name in socket.if_nameindex()):
        polite["GLOO_SOCKET_IFNAME"] = "lo"
    store, meeting = _store() if size else (None, {})
    read_end, write_end = os.pipe()
    try:
        yield {**polite, **os.environ, **meeting, **secret, "PYTHONUNBUFFERED": "1"}, read_end
    finally:
        os.close(read_end)
        os.close(write_end)
        del store


def _store() -> tuple[dist.TCPStore, dict[str, str]]:
    """A store where ranks meet, and the environment that says where it is. It has no password, so it listens here only."""
    listener = socket.create_server((LOOPBACK, 0))
    port = listener.getsockname()[1]
    store = dist.TCPStore(LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=listener.detach())
    return store, {
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
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


def _attend(ends: Ends[int], news: News, on_event: Callable[[Event], None]) -> None:
    """Passes events on until all have ended that do not stay, or one has failed and the others had their time."""
    while not ends.is_over:
        try:
            item = news.get(timeout=ends.left())
        except queue.Empty:
            return
        _take(item, ends, on_event)


def _take(item: Ended | Event, ends: Ends[int], on_event: Callable[[Event], None]) -> None:
    if isinstance(item, Ended):
        ends.note(item.number, item.code)
    else:
        on_event(item)


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
