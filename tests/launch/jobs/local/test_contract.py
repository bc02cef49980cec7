"""The engine for one machine keeps the contract of engines."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from halohop.testing.worlds import environment
from tests.support.contracts.engine import AttachedContract
from tests.support.launches import Launches, read

pytestmark = pytest.mark.timeout(120)


class LocalLaunches(Launches):
    """On this machine; what runs is found by its environment."""

    engine = "local"

    def __init__(self, folder: Path, parts: Path) -> None:
        super().__init__(folder, parts)
        self._mark = secrets.token_hex(16)
        self._port = 0

    def popen(self, arguments: Sequence[object], env: Mapping[str, str]) -> subprocess.Popen[str]:
        pipe, own = subprocess.PIPE, environment() | {"MARK_OF_THE_TEST": self._mark, **env}
        words = [sys.executable, *map(str, arguments)]
        return subprocess.Popen(words, cwd=self.folder, env=own, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    def processes(self) -> list[int]:
        mine, launchers = os.getpid(), {process.pid for process in self._running}
        numbers = {int(folder.name) for folder in Path("/proc").glob("[0-9]*")} - launchers - {mine}
        return [number for number in numbers if self._mark.encode() in read(number, "environ")]

    def server_port(self) -> int:
        while not self._port:
            with socket.create_server(("127.0.0.1", 0)) as first:
                port = first.getsockname()[1]
                try:
                    socket.create_server(("127.0.0.1", port + 1)).close()
                    self._port = port
                except (OSError, OverflowError):
                    continue
        return self._port

    def listening(self, port: int) -> AbstractContextManager[object]:
        return socket.create_server(("127.0.0.1", port))


@pytest.fixture
def launches(tmp_path: Path, tiny_parts: Path) -> Iterator[Launches]:
    one = LocalLaunches(tmp_path, tiny_parts)
    yield one
    one.close()


class TestLocal(AttachedContract):
    pass
