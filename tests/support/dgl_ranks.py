"""Ranks of a job as processes, with the environment that torchrun gives them."""

import faulthandler
import os
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from halohop.testing.worlds import free_address
from tests.support.forked import forkserver

SECONDS = 240
"""How long a rank may take before its traceback is written and it is killed; on a machine with a load of 12 one took 100."""


def in_ranks(work: Callable[..., Any], size: int, hosts: int, out: Path, *args: Any, **env: str) -> list[Any]:
    """What ``work(rank, host, *args)`` returns on each rank, of as many on each host.

    Args:
        out: a folder for what they return.
        env: more of their environment.
    """
    port, each = free_address().split(":")[1], size // hosts
    processes = []
    for rank in range(size):
        given = {
            "RANK": rank,
            "WORLD_SIZE": size,
            "LOCAL_RANK": rank % each,
            "LOCAL_WORLD_SIZE": each,
            "GROUP_RANK": rank // each,
            "GROUP_WORLD_SIZE": hosts,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "HALOHOP_TOKEN": "for tests only, no secret",
            **env,
        }
        texts = {name: str(value) for name, value in given.items()}
        processes.append(forkserver().Process(target=_rank, args=(work, rank, rank // each, texts, out, args)))
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join(SECONDS)
        codes = [process.exitcode for process in processes]
        assert codes == [0] * size, f"exit codes {codes} (None: still runs)\n" + "\n".join(
            path.read_text() for path in sorted(out.glob("*.error"))
        )
    finally:
        for process in processes:
            process.kill()
            process.join(30)
    return [torch.load(out / f"{rank}.pt", weights_only=True) for rank in range(size)]


def folders_of_hosts(folder: Path, hosts: int) -> list[Path]:
    """Copies of a data set for hosts: each has what all have, and every so many-th partition."""
    parts = sorted(path.name for path in folder.glob("part-*") if path.is_dir())
    found = []
    for host in range(hosts):
        copy = folder.parent / f"{folder.name}-of-{host}"
        others = [name for number, name in enumerate(parts) if number % hosts != host]
        shutil.copytree(folder, copy, ignore=lambda _, names, others=others: [name for name in names if name in others])
        found.append(copy)
    return found


def _rank(work: Callable[..., Any], rank: int, host: int, env: dict[str, str], out: Path, args: tuple[Any, ...]) -> None:
    os.environ |= env
    file = (out / f"{rank}.error").open("w", buffering=1)  # stays open: a process may hang or die in its end, too
    faulthandler.enable(file)  # where it dies by a signal
    faulthandler.dump_traceback_later(SECONDS - 20, file=file)  # where it hangs
    try:
        torch.save(work(rank, host, *args), out / f"{rank}.pt")
    except BaseException:
        traceback.print_exc(file=file)
        raise
