"""What contestants of the transport benchmark share: requests in flight, how long each took, what the processors did for them.

A request is a few bytes, its reply is large: the way of rows. A server runs in a process of its own, in the same script.
"""

import json
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from benchmarks.protocol import Info, Unit

SECRET = "of this benchmark only"
LOOPBACK = "127.0.0.1"

Wait = Callable[[], int]
"""Waits for a reply and returns its bytes; the reply itself is dropped."""


class ServerProcess:
    """The script's other half: started with ``--serve`` and its options, it says where it answers, and ends with its input."""

    def __init__(self, module: str, **options: Any) -> None:
        command = [sys.executable, "-m", f"benchmarks.contestants.{module}", json.dumps(options), "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def cpu_seconds(self) -> float:
        return time.clock_gettime((~self._process.pid << 3) | 2)  # Linux's name for the clock of a process


def is_server() -> bool:
    return "--serve" in sys.argv


def say_where(address: str) -> None:
    """Tells the contestant, then waits until it is gone."""
    print(address, flush=True)
    sys.stdin.read()


def contestant(
    submit: Callable[[], Wait], server: ServerProcess, *, in_flight: int, repeat: int, versions: dict[str, str]
) -> tuple[Info, Callable[[int], Unit]]:
    """What `protocol.serve` wants. A unit of n "batches" is n times `repeat` requests, so many in flight at a time."""

    def run(batches: int) -> Unit:
        waiting: deque[tuple[float, Wait]] = deque()
        latencies: list[float] = []
        total = 0

        def finish() -> None:
            nonlocal total
            begin, wait = waiting.popleft()
            total += wait()
            latencies.append(time.perf_counter() - begin)

        begin, cpu = time.perf_counter(), time.process_time() + server.cpu_seconds()
        for _ in range(batches * repeat):
            if len(waiting) == in_flight:
                finish()
            waiting.append((time.perf_counter(), submit()))
        while waiting:
            finish()
        seconds, cpu = time.perf_counter() - begin, time.process_time() + server.cpu_seconds() - cpu
        count = len(latencies)
        hundredths = statistics.quantiles(latencies, n=100, method="inclusive") if count > 1 else latencies * 99
        timings = {"p50_seconds": count * hundredths[49], "p99_seconds": count * hundredths[98], "cpu_seconds": cpu}
        return Unit(seconds=seconds, counts={"batches": count, "bytes": total, **timings})

    return Info(versions=versions), run
