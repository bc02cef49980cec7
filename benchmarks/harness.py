"""Runs the contestants of a benchmark in turn, unit by unit, so that whatever the machine does meets all of them.

The order within a round is drawn anew each time: nobody always comes after the same neighbour.
"""

import importlib.util
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.paths import ROOT
from benchmarks.peers import dgl_python
from benchmarks.protocol import Contestant, Unit
from benchmarks.suite import Benchmark, Entry

TESTS = ("tests/ops", "tests/sampling")
PAUSE = 0.1  # seconds between units: idle threads of the last one may still spin for a while


def check_tests() -> None:
    """Wrong results are fast: nothing is measured while the kernels differ from their reference.

    Raises:
        SystemExit: the equality tests are red.
    """
    print(f"running {' '.join(TESTS)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", *TESTS], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nThe equality tests are red, so there is nothing to measure.")


def measure(benchmark: Benchmark, folder: Path | None, *, rounds: int, unit: int, only: str = "") -> dict[str, Any]:
    """The record of a run: what the machine is, and every unit that every contestant measured."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    described = machine.describe()
    absent: dict[str, str] = {}
    contestants: dict[str, Contestant] = {}
    measured: dict[str, list[Unit]] = {}
    with ExitStack() as stack:
        for entry in benchmark.entries:
            if only not in entry.name:
                continue
            python, why_not = _interpreter(entry)
            if why_not:
                absent[entry.name] = why_not
                continue
            options = entry.options | ({} if entry.is_limit or folder is None else {"folder": str(folder)})
            contestant = Contestant(entry.name, entry.module, options, python, entry.threads)
            stack.callback(contestant.stop)
            contestants[entry.name] = contestant
        infos = {name: contestant.ready() for name, contestant in contestants.items()}
        order = random.Random(0)
        for number in range(-1, rounds):  # the first round warms up and is forgotten
            for name in order.sample(list(contestants), len(contestants)):
                time.sleep(PAUSE)
                result = contestants[name].run(unit)
                if number >= 0:
                    measured.setdefault(name, []).append(result)
            print(f"\rround {number + 1} of {rounds}", end="", flush=True)
    print()
    return {
        "title": benchmark.title,
        "date": started,
        "machine": described,
        "graph": folder.name if folder else "none",
        "unit": unit,
        "measure": benchmark.measure,
        "remarks": benchmark.remarks,
        "absent": absent,
        "contestants": {
            entry.name: {
                "entry": asdict(entry),
                "info": asdict(infos[entry.name]),
                "units": [asdict(result) for result in measured[entry.name]],
            }
            for entry in benchmark.entries
            if entry.name in measured
        },
        "comparisons": [asdict(comparison) for comparison in benchmark.comparisons],
    }


def _interpreter(entry: Entry) -> tuple[str, str]:
    """The Python to run it with, and why it cannot run if it cannot."""
    if entry.environment == "dgl":
        return dgl_python() or "", "" if dgl_python() else "no environment with DGL: python -m benchmarks.peers makes it"
    if entry.environment == "pyg" and not any(importlib.util.find_spec(name) for name in ("pyg_lib", "torch_sparse")):
        return "", "PyG cannot sample here: neither pyg-lib nor torch-sparse is installed"
    return sys.executable, ""
