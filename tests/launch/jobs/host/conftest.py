"""Runners of this host, started by a plain process: they do not know what carries their pipes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from halohop.errors import PeerLostError
from halohop.launch.jobs.host.channel import Channel
from halohop.launch.jobs.host.messages import Begin, Checked, Ended, Hello, Order, Output, Program, Started
from tests.support.deadlines import within

Kind = TypeVar("Kind")
READY = "import sys; print('ready', flush=True); "


class Launcher:
    """A runner, and the launcher's end of its connection; it beats only if it is asked to."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "halohop.launch.jobs.host"]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.channel = Channel(self.process.stdout.fileno(), self.process.stdin.fileno(), name="the runner")

    def hello(self) -> Hello:
        self.channel.find_mark(within(20))
        return self.answer(Hello)

    def order(self, *programs: Program, folder: Path = Path("/"), **others: Any) -> Checked:
        self.hello()
        self.channel.send(Order(programs=programs, folder=str(folder), **others))
        return self.answer(Checked)

    def answer(self, kind: type[Kind]) -> Kind:
        answer = self.channel.receive(within(20))
        assert isinstance(answer, kind), answer
        return answer

    def run(self, *programs: Program, **others: Any) -> Self:
        """Starts programs and waits until each has printed something."""
        assert self.order(*programs, **others).problems == ()
        for program in programs:
            self.channel.send(Begin(name=program.name))
        waiting = {program.name for program in programs}
        while waiting:
            message = self.channel.receive(within(20))
            assert isinstance(message, Started | Output), message
            if isinstance(message, Output):
                waiting.discard(message.name)
        return self

    def until_ended(self) -> tuple[dict[str, bytes], dict[str, int]]:
        """What processes print from now on, and their exit codes, until the runner ends."""
        printed: dict[str, bytes] = {}
        codes = {}
        with suppress(PeerLostError):
            while True:
                message = self.channel.receive(within(20))
                if isinstance(message, Output):
                    printed[message.name] = printed.get(message.name, b"") + message.data
                elif isinstance(message, Ended):
                    codes[message.name] = message.code
        return printed, codes

    def leave(self) -> None:
        """Closes standard input, as a launcher that ends does."""
        self.channel.close()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close(self) -> None:
        self.leave()
        try:
            self.process.wait(within(20))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def launcher() -> Iterator[Launcher]:
    one = Launcher()
    yield one
    one.close()


@pytest.fixture
def marked(tmp_path: Path) -> Callable[[], set[int]]:
    """The numbers of all living processes that have a certain variable in their environment."""
    name = f"HALOHOP_TEST_MARK={tmp_path}"

    def find() -> set[int]:
        found = set()
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and int(folder.name) != os.getpid():
                with suppress(OSError):
                    if name.encode() in (folder / "environ").read_bytes():
                        found.add(int(folder.name))
        return found

    return find


@pytest.fixture
def mark(tmp_path: Path) -> dict[str, str]:
    """Environment of processes that `marked` finds."""
    return {"HALOHOP_TEST_MARK": str(tmp_path)}
