"""The engine for one machine: starts N nodes x M trainers as processes, passes on what they report, and leaves none behind.

Every process leads a process group, so that whatever it starts ends with it, and holds a lifeline to this one. The launcher
keeps the TCPStore where the ranks meet, as torchrun's agent does.
"""

import os
import queue
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import torch
import torch.distributed as dist

from halohop.cores import usable_cores
from halohop.errors import ClusterError, InputError
from halohop.files.aside import writing
from halohop.launch.processes.failures import ERROR_FILE, Failure, failure, prepare, reported
from halohop.launch.processes.starting import CORES, Order, Process, Start, fresh
from halohop.launch.terminal.logs import LEVEL, level_of_trainers
from halohop.transport import TOKEN_VARIABLE
from halohop.world import World

LOOPBACK = "127.0.0.1"
SETTLE_S = 5.0
"""Seconds that the other ranks have, after one failed, to say themselves what they saw."""
GRACE_S = 3.0
"""Seconds between asking a process to end and killing it: everything ends within 5 s of Ctrl-C."""

Event = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """A process has ended with this exit code, as `subprocess` counts: negative for a signal."""

    rank: int
    code: int


_News = queue.SimpleQueue[_Ended | Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    world: World
    process: Process
    log: Path
    waiter: threading.Thread

    @property
    def name(self) -> str:
        return f"rank {self.world.rank} (node {self.world.host}, process {self.process.pid})"

    def failed(self, code: int) -> Failure:
        return Failure(name=self.name, code=code, log=self.log, error=reported(_error_file(self.log)))


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
    if not arguments or trainers < 1:
        raise InputError(f"{len(arguments)} nodes x {trainers} trainers are no processes; give at least 1 of each")
    with writing(logs):
        logs.mkdir(parents=True, exist_ok=True)
        for stale in (*logs.glob("rank-*.log"), *logs.glob("rank-*.error.json")):
            stale.unlink()
    news: _News = queue.SimpleQueue()
    with ExitStack() as stack:
        env, lifeline = stack.enter_context(
            _meeting_place(len(arguments) * trainers, {TOKEN_VARIABLE: secrets.token_hex(32)} if own_token else {})
        )
        children: list[_Child] = []
        stack.callback(_end, children)
        for rank in range(len(arguments) * trainers):
            world = world_of(rank, len(arguments), trainers)
            own = env | _rank_environment(world) | node_gpus(world, env, torch.cuda.device_count())
            own |= node_cores(world, usable_cores())
            children.append(_started(start, module, arguments[world.host], world, own, lifeline, logs, news))
        _attend(children, news, on_event, linger)


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
def _meeting_place(size: int, secret: dict[str, str]) -> Iterator[tuple[dict[str, str], int]]:
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
    share = max((os.cpu_count() or 1) // size, 1)
    polite = {"OMP_NUM_THREADS": str(share)}
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


def _talk(log: Path) -> dict[str, str]:
    """Environment that says how much a trainer logs, and where it reports an error."""
    return {ERROR_FILE: str(_error_file(log).resolve()), LEVEL: str(level_of_trainers())}


def _error_file(log: Path) -> Path:
    return log.with_suffix(".error.json")


def _started(
    start: Start, module: str, arguments: Sequence[str], world: World, env: dict[str, str], lifeline: int, logs: Path, news: _News
) -> _Child:
    log = logs / f"rank-{world.rank}.log"
    with writing(log):
        log.write_bytes(b"")
        prepare(_error_file(log))
    with ExitStack() as ours:
        errors = output = ours.enter_context(log.open("ab"))
        events = None
        if world.rank == 0:
            read_end, write_end = os.pipe()
            events, output = os.fdopen(read_end, "rb"), ours.enter_context(os.fdopen(write_end, "wb"))
        order = Order(
            module=module,
            arguments=arguments,
            env=env | _talk(log),
            stdout=output.fileno(),
            stderr=errors.fileno(),
            lifeline=lifeline,
        )
        try:
            process = start(order)
        except BaseException:
            if events is not None:
                events.close()
            raise
    waiter = threading.Thread(target=_wait, args=(world.rank, process, events, log, news), name=f"halohop-wait-{world.rank}")
    waiter.start()
    return _Child(world=world, process=process, log=log, waiter=waiter)


def _wait(rank: int, process: Process, events: IO[bytes] | None, log: Path, news: _News) -> None:
    """Runs in a thread: a process's events, then its end, in this order."""
    reader = None
    if events is not None:
        reader = threading.Thread(target=_read, args=(events, log, news), name=f"halohop-read-{rank}")
        reader.start()
    code = process.wait()
    _signal_group(process, signal.SIGKILL)  # whatever it started; they might keep the pipe open, too
    if reader is not None:
        reader.join(GRACE_S)
    news.put(_Ended(rank=rank, code=code))


def _read(pipe: IO[bytes], log: Path, news: _News) -> None:
    """Runs in a thread: JSON objects are events, other lines go to the log."""
    with pipe, log.open("ab", buffering=0) as other:
        for line in pipe:
            try:
                news.put(msgspec.json.decode(line, type=Event))
            except (msgspec.DecodeError, RecursionError):
                with suppress(OSError):  # on a full disk events still count; what rank 0 cannot write itself, ends it
                    other.write(line)


def _attend(children: Sequence[_Child], news: _News, on_event: Callable[[Event], None], linger: float) -> None:
    """Passes events on until all have ended, or one has failed and the others had their time."""
    running = {child.world.rank for child in children}
    failed: list[_Ended] = []
    deadline = None
    while running:
        try:
            item = news.get(timeout=None if deadline is None else max(deadline - time.monotonic(), 0))
        except queue.Empty:
            break
        if not isinstance(item, _Ended):
            on_event(item)
            continue
        running.remove(item.rank)
        patience = SETTLE_S if item.code else linger
        if item.code:
            failed.append(item)
        if deadline is None or item.code:
            deadline = min(deadline or float("inf"), time.monotonic() + patience)
    if failed:
        raise failure(
            [children[ended.rank].failed(ended.code) for ended in failed],
            ended=[children[rank].name for rank in sorted(running)],
        )
    if running:
        names = ", ".join(child.name for child in children if child.world.rank in running)
        raise ClusterError(f"{names} did not end within {linger:g} s after the others had; see {children[0].log.parent}")


def _end(children: Sequence[_Child]) -> None:
    """Asks those that still run to end, and after a grace kills them."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S
        for child in children:
            if child.waiter.is_alive():
                _signal_group(child.process, kind)
        for child in children:
            child.waiter.join(max(deadline - time.monotonic(), 0))
    for child in children:
        _error_file(child.log).unlink(missing_ok=True)


def _signal_group(process: Process, kind: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # none is left; macOS says of zombies that they are not ours
        os.killpg(process.pid, kind)
