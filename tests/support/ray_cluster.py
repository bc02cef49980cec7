"""A cluster of Ray's with three nodes on this machine, and drivers of it, each in processes of their own."""

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.deadlines import within

ROOT = Path(__file__).parents[2]
OF_A_JOB = ("HostActor", "Registry", "GraphServer", "TrainController", "RayTrainWorker")
"""Classes of the actors of a job. Ray Train's PlacementGroupCleaner outlives a job that is killed: it learns of that from
Ray's dashboard, and these clusters have none."""


class Nodes:
    """A cluster, and the processes of it that a test may kill."""

    def __init__(self, folder: Path) -> None:
        self._mark = secrets.token_hex(16)
        own = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "RAY_USAGE_STATS_ENABLED": "0"}
        self.env = os.environ | own
        with (folder / "cluster.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.ray_nodes", str(folder), "3", "4"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self.env | {"MARK_OF_THE_CLUSTER": self._mark},
                text=True,
            )
        self.address: str = self._answer()["address"]

    def ask(self, command: str) -> list[int]:
        """Raylets of all nodes but the first, after a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        raylets: list[int] = self._answer()
        return raylets

    def workers(self, *kinds: str) -> list[int]:
        """Processes of actors of these classes; all that belong to a job, without one."""
        named = [(pid, _title(pid)) for pid in self._below()]
        return [pid for pid, title in named if title.startswith("ray::") and any(kind in title for kind in kinds or OF_A_JOB)]

    def launched(self) -> list[int]:
        """Processes of the hosts of launched jobs: actors, runners, and what these have started."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            title = _title(int(folder.name))
            ours = "HostActor" in title or not (title.startswith("ray::") or "/ray/" in title or "tests.support.ray" in title)
            if ours and title and self._mark in _read(folder / "environ"):
                found.append(int(folder.name))
        return found

    def node_of(self, pid: int) -> int:
        """The raylet that has started a worker."""
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _below(self) -> list[int]:
        found, ahead = [], [self._process.pid]
        while ahead:
            pid = ahead.pop()
            with suppress(FileNotFoundError):  # it has ended meanwhile
                for file in Path(f"/proc/{pid}/task").glob("*/children"):
                    ahead += [int(child) for child in _read(file).split()]
            found.append(pid)
        return found


class Driver:
    """A driver of the cluster in a process of its own."""

    def __init__(self, arguments: list[str], env: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("w") as stream:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], env=env, stdout=subprocess.PIPE, stderr=stream, text=True
            )
        self.pid = self._process.pid

    def says(self) -> Any:
        """The next line of JSON that it prints; Ray prints others."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise AssertionError(self.log.read_text()[-3000:])

    def wait(self, seconds: float) -> int:
        return self._process.wait(seconds)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Waits for a condition."""
    ends, pause = time.monotonic() + within(seconds), threading.Event()
    while not condition():
        assert time.monotonic() < ends, f"not within {seconds} s: {what}"
        pause.wait(0.05)


def gone(pids: list[int], seconds: float) -> None:
    """Waits until processes have ended."""
    until(lambda: not any(is_alive(pid) for pid in pids), seconds, f"the end of {pids}")


def is_alive(pid: int) -> bool:
    state = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(state) and state[0] != "Z"


def _title(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/cmdline"))


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
