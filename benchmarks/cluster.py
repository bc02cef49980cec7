"""What contestants of the cluster benchmark share: trainers on hosts of their own, told what to do as if they were one.

The contestant's process starts them, passes its orders on to them, and puts their answers together.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import IO, Any

from benchmarks.protocol import Unit
from tests.support.hosts import Host

_APART = "import os, sys; os.execvp('unshare', ['unshare', '--pid', '--fork', '--mount-proc', sys.executable, *sys.argv[1:]])"


class Trainers:
    """Trainers that speak `benchmarks.protocol`: modules of benchmarks/contestants, started with ``--trainer``."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, host: Host, options: dict[str, Any], env: dict[str, str] | None = None, *, apart: bool = False) -> None:
        """`apart`: the trainer, and what it starts, do not see the processes of other hosts, nor their memory."""
        arguments = ["-m", f"benchmarks.contestants.{self._module}", json.dumps(options), "--trainer"]
        self._processes.append(host.start(*(["-c", _APART] if apart else []), *arguments, env=env))

    def ready(self) -> None:
        for process in self._processes:
            _answer(process)

    def run(self, batches: int) -> Unit:
        """A unit of so many batches of each; the slowest one's seconds, and what all have done."""
        for process in self._processes:
            orders = told(process.stdin)
            orders.write(json.dumps({"batches": batches}) + "\n")
            orders.flush()
        units = [Unit(**_answer(process)) for process in self._processes]
        counts: Counter[str] = Counter()
        for unit in units:
            counts.update(unit.counts)
        return Unit(seconds=max(unit.seconds for unit in units), counts=dict(counts))


def is_trainer() -> bool:
    return "--trainer" in sys.argv


def resident_bytes() -> int:
    """Memory of this process and all that it has started; what they share is counted once."""
    here = {os.getpid()}
    total = 0
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if int(folder.name) in here or parent in here:
                here.add(int(folder.name))
                line = next(line for line in (folder / "smaps_rollup").read_text().splitlines() if line.startswith("Pss:"))
                total += 1024 * int(line.split()[1])
        except (OSError, StopIteration):  # it has ended meanwhile
            continue
    return total


def told(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _answer(trainer: subprocess.Popen[str]) -> dict[str, Any]:
    line = told(trainer.stdout).readline()
    if not line:
        sys.exit(f"a trainer ended: {told(trainer.stderr).read()}")
    answer: dict[str, Any] = json.loads(line)
    return answer
