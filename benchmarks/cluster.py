"""What contestants of the cluster benchmark share: trainers on hosts of their own, told what to do as if they were one.

The contestant's process starts them, passes its orders on to them, and puts their answers together.
"""

import json
import subprocess
import sys
from collections import Counter
from typing import IO, Any

from benchmarks.protocol import Unit
from tests.support.hosts import Host


class Trainers:
    """Trainers that speak `benchmarks.protocol`: modules of benchmarks/contestants, started with ``--trainer``."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, host: Host, options: dict[str, Any], env: dict[str, str] | None = None) -> None:
        module = f"benchmarks.contestants.{self._module}"
        self._processes.append(host.start("-m", module, json.dumps(options), "--trainer", env=env))

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


def told(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _answer(trainer: subprocess.Popen[str]) -> dict[str, Any]:
    line = told(trainer.stdout).readline()
    if not line:
        sys.exit(f"a trainer ended: {told(trainer.stderr).read()}")
    answer: dict[str, Any] = json.loads(line)
    return answer
