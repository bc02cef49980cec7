"""How the harness talks to a contestant: a process, a line of JSON on its standard input, a line back on its standard output.

    started with one argument, its options as JSON          {"graph": ".bench/graphs/products", "threads": 1, ...}
    contestant, when ready                                  {"versions": {"dgl": "2.1.0"}, "widths": {"indices": "int32"}}
    harness                                                 {"batches": 8}
    contestant, after a unit of 8 batches                   {"seconds": 0.11, "counts": {"batches": 8, "edges": 6032000, ...}}

Nothing but the standard library is imported here: contestants run in environments that share nothing else.
"""

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.paths import LOGS, ROOT

DEADLINE = 900.0
"""Seconds to wait for one line of a contestant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """What a contestant says of itself before the first unit."""

    versions: dict[str, str]
    widths: dict[str, str] = field(default_factory=dict)
    notes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What a contestant measured: seconds, and what was done in them."""

    seconds: float
    counts: dict[str, float]


# ---- in the contestant's process


def serve(start: Callable[..., tuple[Info, Callable[[int], Unit]]]) -> None:
    """Runs a contestant: `start` takes the options, and returns what it is and a function that measures a unit of n batches."""
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # whatever libraries print goes to the log, not between the replies

        def reply(record: Info | Unit) -> None:
            replies.write(json.dumps(asdict(record)) + "\n")
            replies.flush()

        info, run = start(**json.loads(sys.argv[1]))
        reply(info)
        for line in sys.stdin:
            reply(run(json.loads(line)["batches"]))


def timed(make: Callable[[Any], dict[str, float]], tasks: Iterable[Any], pool: ThreadPoolExecutor | None = None) -> Unit:
    """Calls `make` on every task, one after the other or in the pool's threads.

    `make` returns what it counted and nothing else: its batch is dropped before the next one begins, as in a training loop.
    """
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    for counted in map(make, tasks) if pool is None else pool.map(make, tasks):
        counts.update(counted)
    return Unit(seconds=time.perf_counter() - start, counts=dict(counts))


def in_turn(
    step: Callable[[Any], object],
    batches: Sequence[Any],
    counts: dict[str, float],
    after: Callable[[], dict[str, float]] = dict,
) -> Callable[[int], Unit]:
    """Measures units of steps, each on the next of some batches.

    Args:
        step: on a batch.
        batches: of which the first comes after the last.
        counts: of a step.
        after: what else is said of a unit.
    """

    def make(number: int) -> dict[str, float]:
        step(batches[number % len(batches)])
        return counts

    def run(count: int) -> Unit:
        unit = timed(make, range(count))
        return Unit(seconds=unit.seconds, counts=unit.counts | after())

    return run


# ---- in the harness's process


class ContestantError(Exception):
    """A contestant did not start, ended early, or stayed silent."""


class Contestant:
    """A contestant's process."""

    def __init__(
        self,
        name: str,
        module: str,
        options: dict[str, Any],
        python: str,
        threads: int,
        variables: dict[str, str],
        paths: list[str],
    ) -> None:
        self.name = name
        LOGS.mkdir(parents=True, exist_ok=True)
        self._log = LOGS / f"{''.join(c if c.isalnum() else '-' for c in name)}.log"
        environment = {
            **os.environ,
            "PYTHONPATH": ":".join([str(ROOT), str(ROOT / "src"), *paths]),
            "OMP_NUM_THREADS": str(threads),
        } | variables
        environment.setdefault("PYTHONUNBUFFERED", "1")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, "-m", f"benchmarks.contestants.{module}", json.dumps(options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=environment,
                text=True,
            )

    def ready(self) -> Info:
        return Info(**self._receive())

    def run(self, batches: int) -> Unit:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"batches": batches}) + "\n")
        self._process.stdin.flush()
        return Unit(**self._receive())

    def stop(self) -> None:
        """Ends the process; safe to call twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _receive(self) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        readable, _, _ = select.select([stream], [], [], DEADLINE)
        line = stream.readline() if readable else ""
        if not line:
            self.stop()  # and so let it finish its log
            what = "ended early" if readable else f"said nothing for {DEADLINE:g} s"
            raise ContestantError(f"{self.name} {what}; the end of {self._log}:\n{_tail(self._log)}")
        record: dict[str, Any] = json.loads(line)
        return record


def _tail(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
