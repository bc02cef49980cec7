"""One trainer: the user's script, or `halohop train`, as the train loop of a worker of Ray Train."""

import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from halohop.collectives import from_rank_0, max_over_ranks
from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.ray.data import Parts
from halohop.launch.jobs.ray.library import ray_library
from halohop.launch.jobs.ray.registry import Member, RegistryClient, Report
from halohop.store.share import Share
from halohop.transport.security import ENCRYPT_VARIABLE, TOKEN_VARIABLE
from halohop.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTask:
    """What all trainers of a job do.

    Args:
        service: name of the job's registry.
        argv: what follows the interpreter: a script and arguments, or ``-m``, a module and arguments. ``{graph}`` stands for
            addresses of servers, or the folder on the trainer's node.
        graph: the addresses; empty without servers.
        folder: working directory.
        parts: the data set, where no servers hold it.
    """

    service: str
    argv: tuple[str, ...]
    folder: str
    graph: str
    parts: Parts | None


def train_rank(config: Mapping[str, RankTask]) -> None:
    """The train loop: Ray Train calls it in each worker, with ``{"task": RankTask}``, where torch's process group is made.

    Raises:
        InputError: a folder or the script is not on this host, or another rank was refused before.
        Exception: what the script raises.
    """
    task, world = config["task"], World.detect()
    client = RegistryClient(task.service)
    member = Member.here(f"rank-{world.rank}")
    begun_before = client.ask("enter", member)
    for report in client.reports():
        if report.is_final:  # it would fail again
            raise report.error()
    print(f"rank-{world.rank} of {world.size} on {member.host} begins", flush=True)
    try:
        _take_place(task, client)
        graph = task.graph if task.parts is None else task.parts.here(_share_of_this_node(world))
        argv = tuple(word.replace("{graph}", graph) for word in task.argv)
        again = from_rank_0(bytes([begun_before > 0]), _device(), world) == b"\1"
        run_program(task, argv, begins_again=again)
    except BaseException as error:
        client.ask("report", Report.of(member, error))
        raise


def _take_place(task: RankTask, client: RegistryClient) -> None:
    """Makes this process what a script expects: its folder, the secret, the processes' path."""
    try:
        os.chdir(task.folder)
    except OSError as error:
        raise InputError(f"cannot work in {task.folder}: {error.strerror}; give a folder that all nodes have") from error
    token = client.ask("token")
    if token is not None:
        os.environ[TOKEN_VARIABLE] = token.key.decode()
        os.environ[ENCRYPT_VARIABLE] = str(int(token.encrypt))


def _share_of_this_node(world: World) -> tuple[Share, ...]:
    """Of a job whose trainers' nodes hold the graph: every N-th partition, on the K-th of N nodes."""
    node = ray_library("ray.train").get_context().get_node_rank()
    nodes = int(max_over_ranks(node, _device(), world)) + 1
    return (Share(index=node, count=nodes),)


def _device() -> torch.device:
    """Where the process group that Ray has made computes."""
    device: torch.device = ray_library("ray.train.torch").get_device()
    return device


def run_program(task: RankTask, argv: Sequence[str], *, begins_again: bool) -> None:
    """Runs what a rank runs; `halohop train` resumes its run if it `begins_again`.

    Raises:
        InputError: the script is not there.
        ClusterError: it ended with another exit code than 0.
        Exception: what it raises.
    """
    match argv:
        case ("-m", "halohop", *arguments):
            _command([*arguments, *(("--resume", "auto") if begins_again and "--resume" not in arguments else ())])
        case ("-m", module, *arguments):
            sys.path.insert(0, task.folder)
            _program(module, arguments, lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))
        case (script, *arguments):
            if not Path(script).is_file():
                raise InputError(f"there is no script {script} in {task.folder} here; give one that all nodes see")
            sys.path.insert(0, str(Path(script).absolute().parent))
            _program(script, arguments, lambda: runpy.run_path(script, run_name="__main__"))


def _command(arguments: list[str]) -> None:
    """Runs `halohop` in this process, which answers no signals: Ray ends it."""
    from halohop.launch.cli import app

    code = app(["--debug", *arguments], prog_name="halohop", standalone_mode=False)
    if code:
        raise ClusterError(f"halohop {arguments[0]} ended with exit code {code}")


def _program(name: str, arguments: list[str], run: Any) -> None:
    sys.argv = [name, *arguments]
    try:
        run()
    except SystemExit as end:
        if end.code not in (None, 0):
            raise ClusterError(f"{name} ended with exit code {end.code}") from end
