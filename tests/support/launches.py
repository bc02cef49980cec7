"""Launchers of `halohop launch` whose jobs run a script that does what its arguments say, on hosts ``a`` and ``b``."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from tests.support.deadlines import within

PROMISED_S = 10.0
"""Seconds after the end of a launcher in which everything else ends."""

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
rank, graph, what, *rest = int(os.environ["RANK"]), *sys.argv[1:]
sys.stdout.write(f"rank {rank} of {os.environ['WORLD_SIZE']} reads {graph}\\n")  # `print` would write the end of the line apart
if what in ("wait", "save", "until"):
    if what == "save":
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(75))
    Path(rest[0], f"rank-{rank}").touch()
    while what != "until" or not Path(rest[0], "over").exists():
        time.sleep(.05)
elif what == "hang":
    from halohop.alive import note_step
    note_step()
    if rank == int(rest[0]):
        os.kill(os.getpid(), signal.SIGSTOP)
elif what == "refuse" and rank == int(rest[0]):
    from halohop.errors import InputError
    raise InputError("lr=0 must be over 0")
elif what == "fail" and rank == int(rest[0]):
    raise LookupError("no such luck")
elif what == "die" and rank == int(rest[0]):
    os.kill(os.getpid(), 9)
elif what == "write" and rank == 0:
    Path(rest[0]).mkdir(parents=True, exist_ok=True)
    Path(rest[0], "result.txt").write_text("forty two")
if what in ("fail", "die", "hang", "refuse"):
    time.sleep(1000)
"""


class Launches:
    """Starts launchers of one engine, and knows what runs because of them.

    Args:
        folder: of the script, the job file and the run.
        parts: a data set of two partitions.
    """

    engine = ""
    hosts: object = "a,b"
    names = ("a", "b")
    """What the hosts are called in messages and logs."""
    options: Sequence[str] = ()
    """Lines of the engine's table."""
    own_logs: tuple[str, ...] = ()
    """How names of logs begin that are not of a process of the job."""

    def __init__(self, folder: Path, parts: Path) -> None:
        self.folder, self.out = folder, folder / "run"
        self._parts = parts
        (folder / "train.py").write_text(SCRIPT)
        self._running: list[subprocess.Popen[str]] = []

    def popen(self, arguments: Sequence[object], env: Mapping[str, str]) -> subprocess.Popen[str]:
        """Starts Python with arguments where launchers run."""
        raise NotImplementedError

    def processes(self) -> list[int]:
        """Numbers of what runs because of a launcher, without itself."""
        raise NotImplementedError

    def printed(self, out: str, err: str) -> list[str]:
        """The lines of ranks that a launcher shows."""
        return out.splitlines()

    def server_port(self) -> int:
        """A port that is free on all hosts, as the next one is."""
        return 5510

    def listening(self, port: int) -> AbstractContextManager[object]:
        """Something else listens at a port of host ``a`` while the context lasts."""
        raise NotImplementedError

    def start(self, *run: object, more: str = "", table: str = "") -> subprocess.Popen[str]:
        """Starts a job.

        Args:
            run: what follows ``train.py {graph}``.
            more: further lines of the job file; they win.
            table: further lines of the engine's table.
        """
        given = {
            "engine": self.engine,
            "hosts": self.hosts,
            "data": str(self._parts),
            "out": str(self.out),
            "folder": str(self.folder),
            "python": sys.executable,
            "run": ["train.py", "{graph}", *map(str, run)],
        }
        lines = [f"{name} = {value!r}" for name, value in given.items() if f"{name} =" not in more]
        job = self.folder / "job.toml"
        job.write_text("\n".join([*lines, more, f"[{self.engine}]", *self.options, table, ""]))
        return self.command("-m", "halohop", "launch", "--config", job)

    def command(self, *arguments: object, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Starts Python with these arguments where launchers run."""
        process = self.popen(arguments, env or {})
        self._running.append(process)
        return process

    def run(self, *run: object, **options: str) -> tuple[int, str, str]:
        """Runs a job to its end: exit code, standard output, standard error."""
        return self.ended(self.start(*run, **options), 100)

    def ended(self, launcher: subprocess.Popen[str], seconds: float = 25) -> tuple[int, str, str]:
        """Waits for the end of a launcher: exit code, standard output, standard error."""
        out, err = launcher.communicate(timeout=within(seconds))
        return launcher.returncode, out, err

    def wait_for(self, found: Callable[[], object], launcher: subprocess.Popen[str]) -> None:
        """Until something is so, while the launcher runs."""
        deadline, pause = time.monotonic() + within(60), threading.Event()
        while not found():
            assert launcher.poll() is None, launcher.communicate(timeout=20)
            assert time.monotonic() < deadline
            pause.wait(0.02)

    def until_training(self, launcher: subprocess.Popen[str], ranks: int) -> None:
        """Until so many ranks of a script that is told to wait in the folder have begun."""
        self.wait_for(lambda: len([*self.folder.glob("rank-*")]) == ranks, launcher)

    def kill(self, launcher: subprocess.Popen[str]) -> None:
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.communicate(timeout=20)

    def ranks(self) -> dict[int, int]:
        """Numbers of the processes of ranks."""
        found = {}
        for number in self.processes():
            if b"train.py" in read(number, "cmdline").split(b"\0"):
                names = dict(line.partition(b"=")[::2] for line in read(number, "environ").split(b"\0"))
                if b"RANK" in names:
                    found[int(names[b"RANK"])] = number
        return found

    def server(self, number: int) -> int:
        """The process of a server."""
        share = f"{number}/2".encode()
        commands = {process: read(process, "cmdline").split(b"\0") for process in self.processes()}
        serving = {process: words[words.index(b"--share") + 1] for process, words in commands.items() if b"--share" in words}
        (found,) = (process for process, held in serving.items() if held.startswith(share))
        return found

    def gone_within(self, seconds: float = PROMISED_S, *, but: str = "") -> list[str]:
        """Command lines of what still runs after so many seconds, if anything does.

        Args:
            seconds: to wait, at most.
            but: is in the command lines of what may stay.
        """
        deadline, pause = time.monotonic() + within(seconds), threading.Event()
        while (left := self._commands(but)) and time.monotonic() < deadline:
            pause.wait(0.05)
        return left

    def _commands(self, but: str) -> list[str]:
        found = [read(number, "cmdline").replace(b"\0", b" ").decode() for number in self.processes()]
        return [command for command in found if command and not (but and but in command)]

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                self.kill(process)
        assert self.gone_within() == []


class SubmittedLaunches(Launches):
    """Of an engine that submits jobs to a cluster, whose launcher follows them on standard error."""

    hosts = 2

    def printed(self, out: str, err: str) -> list[str]:
        assert out == ""
        return [line for line in err.splitlines() if line.startswith("rank ")]


def read(number: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{number}/{name}").read_bytes()
    except OSError:  # it has ended
        return b""
