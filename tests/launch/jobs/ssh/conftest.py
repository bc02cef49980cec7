"""Jobs on hosts with real ssh servers, in network namespaces."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from halohop.datasets import synthetic
from halohop.partitioning.building.build import partition
from tests.support.deadlines import within
from tests.support.sshd import Cluster, ssh_hosts

PROMISED_S = 10.0
"""Seconds after the end of a launcher in which everything else ends."""

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
rank, graph, what, *rest = int(os.environ["RANK"]), *sys.argv[1:]
sys.stdout.write(f"rank {rank} of {os.environ['WORLD_SIZE']} reads {graph}\\n")  # `print` would write the end of the line apart
if what == "wait":
    Path(rest[0], f"rank-{rank}").touch()
    time.sleep(1000)
elif what == "save":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(75))
    Path(rest[0], f"rank-{rank}").touch()
    time.sleep(1000)
elif what == "hang":
    from halohop.alive import note_step
    note_step()
    if rank == int(rest[0]):
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)
elif what == "until":
    Path(rest[0], f"rank-{rank}").touch()
    while not Path(rest[0], "over").exists():
        time.sleep(.05)
elif what == "fail" and rank == int(rest[0]):
    raise LookupError("no such luck")
elif what == "die" and rank == int(rest[0]):
    os.kill(os.getpid(), 9)
elif what == "write" and rank == 0:
    Path(rest[0]).mkdir(parents=True, exist_ok=True)
    Path(rest[0], "result.txt").write_text("forty two")
if what in ("fail", "die"):
    time.sleep(1000)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two hosts, ``a`` and ``b``."""
    with ssh_hosts(2, tmp_path_factory.mktemp("ssh")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "parts"
    partition(synthetic("tiny"), path, num_parts=2, method="random")
    return path


class Launches:
    """Starts launchers on the cluster's own host, which has no ssh server."""

    def __init__(self, cluster: Cluster, folder: Path, parts: Path) -> None:
        self.cluster, self.folder, self.out = cluster, folder, folder / "run"
        self._parts = parts
        (folder / "train.py").write_text(SCRIPT)
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *run: object, more: str = "", ssh: str = "", config: Path | None = None) -> subprocess.Popen[str]:
        """Starts a job.

        Args:
            run: what follows ``train.py {graph}``.
            more, ssh: further lines of the job file, and of its table [ssh].
            config: of ssh.
        """
        given = {
            "engine": "ssh",
            "hosts": self.cluster.names,
            "data": str(self._parts),
            "out": str(self.out),
            "folder": str(self.folder),
            "python": sys.executable,
            "run": ["train.py", "{graph}", *map(str, run)],
        }
        lines = [f"{name} = {value!r}" for name, value in given.items() if f"{name} =" not in more]
        command = f"command = 'ssh -F {config or self.cluster.config}'"
        job = self.folder / "job.toml"
        job.write_text("\n".join([*lines, more, "[ssh]", command, ssh, ""]))
        return self.command("-m", "halohop", "launch", "--config", job)

    def command(self, *arguments: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts Python with these arguments on the launcher's host."""
        process = self.cluster.here.start(*arguments, env=env)
        self._running.append(process)
        return process

    def run(self, *run: object, **options: object) -> tuple[int, str, str]:
        """Runs a job to its end: exit code, standard output, standard error."""
        process = self.start(*run, **options)  # type: ignore[arg-type]
        out, err = process.communicate(timeout=within(100))
        return process.returncode, out, err

    def wait_for(self, found: Callable[[], object], process: subprocess.Popen[str]) -> None:
        """Until something is so, while the launcher runs."""
        deadline = time.monotonic() + within(60)
        while not found():
            assert process.poll() is None, process.communicate(timeout=20)
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self, process: subprocess.Popen[str]) -> None:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=20)

    def gone_within(self, seconds: float = PROMISED_S, *, but: str = "") -> list[str]:
        """What still runs on the hosts after so many seconds, if anything does.

        Args:
            seconds: to wait, at most.
            but: is in the command lines of what may stay.
        """
        deadline = time.monotonic() + within(seconds)
        while (left := self._left(but)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def _left(self, but: str) -> list[str]:
        return [command for command in self.cluster.left() if not but or but not in command]

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                self.kill(process)
        assert self.gone_within() == []


@pytest.fixture
def launches(cluster: Cluster, tmp_path: Path, parts: Path) -> Iterator[Launches]:
    one = Launches(cluster, tmp_path, parts)
    yield one
    one.close()
