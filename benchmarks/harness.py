"""Runs the contestants of a benchmark in turn, unit by unit, so that whatever the machine does meets all of them.

The order within a round is drawn anew each time: nobody always comes after the same neighbour.
"""

import importlib.machinery
import importlib.util
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import allocators, machine
from benchmarks.entries import Benchmark, Entry
from benchmarks.paths import PYG_VARIABLE, ROOT, pyg_folder
from benchmarks.peers import dgl_python
from benchmarks.protocol import Contestant, Info, Unit

PAUSE = 0.1  # seconds between units: idle threads of the last one may still spin for a while

_PYG = {"pyg": ("pyg_lib", "torch_sparse"), "pyg-lib": ("pyg_lib",)}
"""The packages of which PyG needs one."""


NOT_MEASURED = tuple(f"--ignore-glob=*/{name}" for name in ("test_gpu_*.py", "test_on_device.py", "test_warmup.py"))
"""Tests of what runs on no CPU, or before anything is measured."""


def check_tests(*tests: str) -> None:
    """Wrong results are fast: nothing is measured while the kernels differ from their reference.

    Raises:
        SystemExit: the equality tests are red.
    """
    print(f"running {' '.join(tests)}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-x", *NOT_MEASURED, *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nThe equality tests are red, so there is nothing to measure.")


def measure(benchmark: Benchmark, folder: Path | None, *, rounds: int, unit: int, only: str = "") -> dict[str, Any]:
    """The record of a run: what the machine is, and every unit that every contestant measured."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    described = machine.describe()
    entries = [entry for entry in benchmark.entries if only in entry.name]
    absent = {entry.name: why_not for entry in entries if (why_not := _interpreter(entry)[1])}
    infos: dict[str, Info] = {}
    measured: dict[str, list[Unit]] = {}
    for group in dict.fromkeys(entry.group for entry in entries):
        together = [entry for entry in entries if entry.group == group and entry.name not in absent]
        for name, info, units in _measure_together(together, folder, rounds=rounds, unit=unit):
            infos[name], measured[name] = info, units
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


def _measure_together(
    entries: list[Entry], folder: Path | None, *, rounds: int, unit: int
) -> Iterator[tuple[str, Info, list[Unit]]]:
    """Name by name what the contestants are, and the units that they measured in turn."""
    contestants: dict[str, Contestant] = {}
    with ExitStack() as stack:
        for entry in entries:
            options = entry.options | ({} if entry.is_limit or folder is None else {"folder": str(folder)})
            variables = allocators.variables(entry.allocator)
            paths = [pyg_folder()] if entry.environment in _PYG and pyg_folder() else []
            python = _interpreter(entry)[0]
            contestant = Contestant(entry.name, entry.module, options, python, entry.threads, variables, paths)
            stack.callback(contestant.stop)
            contestants[entry.name] = contestant
        infos = {name: contestant.ready() for name, contestant in contestants.items()}
        units: dict[str, list[Unit]] = {name: [] for name in contestants}
        order = random.Random(0)
        for number in range(-1, rounds):  # the first round warms up and is forgotten
            for name in order.sample(list(contestants), len(contestants)):
                time.sleep(PAUSE)
                result = contestants[name].run(unit)
                if number >= 0:
                    units[name].append(result)
            print(f"\rround {number + 1} of {rounds}", end="", flush=True)
    print()
    for name, info in infos.items():
        yield name, info, units[name]


def _interpreter(entry: Entry) -> tuple[str, str]:
    """The Python to run it with, and why it cannot run if it cannot."""
    if why_not := allocators.missing(entry.allocator):
        return "", why_not
    if entry.environment == "dgl":
        return dgl_python() or "", "" if dgl_python() else "no environment with DGL: python -m benchmarks.peers makes it"
    if entry.environment in _PYG and not any(map(_is_there, _PYG[entry.environment])):
        packages = " and ".join(_PYG[entry.environment])
        return "", f"PyG cannot sample here: {packages} cannot be imported, nor in a folder that {PYG_VARIABLE} names"
    return sys.executable, ""


def _is_there(name: str) -> bool:
    """Whether a package can be imported, from what is installed or from the folder for PyG."""
    apart = pyg_folder() and importlib.machinery.PathFinder.find_spec(name, [pyg_folder()])
    return bool(apart or importlib.util.find_spec(name))
