"""Hosts on one machine: network namespaces joined by a switch, whose cables can be made slow, bad, cut, and healed.

Needs Linux, iproute2 and root.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from halohop.errors import ClusterError

_WIRE = Path(__file__).parent / "wire.py"
_BRIDGE = "bridge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A network namespace with one address, and one cable to the switch."""

    name: str
    address: str
    switch: str
    number: int
    running: list[subprocess.Popen[str]] = field(default_factory=list)
    wires: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Runs Python with these arguments on the host."""
        process = _python(self.name, *arguments, env=env)
        self.running.append(process)
        return process

    def shape(self, *, delay: float = 0.0, loss: float = 0.0) -> None:
        """Makes round trips over this host's cable take longer, in seconds, and loses a share of all packets."""
        port, inside, outside = self._plug, f"inside{self.number}", f"outside{self.number}"
        ip("-n", self.switch, "link", "add", inside, "type", "veth", "peer", "name", outside)
        ip("-n", self.switch, "link", "set", inside, "up")
        ip("-n", self.switch, "link", "set", port, "nomaster")
        ip("-n", self.switch, "link", "set", outside, "master", _BRIDGE, "up")
        wire = _python(self.switch, _WIRE, port, inside, delay, loss)
        self.wires.append(wire)
        assert wire.stdout is not None
        assert wire.stdout.readline() == "ready\n", "wire.py did not start"

    def limit_rate(self, bits_per_second: float) -> None:
        """Lets the host send no more than this."""
        burst = max(int(bits_per_second / 8 / 250), 2**17)  # what a timer of 250 Hz lets through at once
        limit = ("rate", f"{bits_per_second:.0f}bit", "burst", str(burst), "latency", "50ms")
        ip("netns", "exec", self.name, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *limit)

    def cut(self) -> None:
        """Nothing gets through any more, and nobody is told."""
        ip("-n", self.switch, "link", "set", self._plug, "nomaster")

    def heal(self) -> None:
        """Undoes `cut`. (A shaped cable is healed to a good one.)"""
        ip("-n", self.switch, "link", "set", self._plug, "master", _BRIDGE)

    def process_ids(self) -> set[int]:
        """Everything that runs on the host."""
        return _process_ids(self.name)

    @property
    def _plug(self) -> str:
        return f"port{self.number}"


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=20).stdout


def _process_ids(namespace: str) -> set[int]:
    return {int(line) for line in ip("netns", "pids", namespace).split()}


def _python(namespace: str, *arguments: object, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", namespace, sys.executable, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, **(env or {})}, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@contextmanager
def joined(count: int, tag: str = "hh") -> Iterator[list[Host]]:
    """Hosts that reach each other, and nothing else. What runs on them ends with them, children of children, too.

    Args:
        count: how many.
        tag: begins their names, so that one process can have several networks.

    Raises:
        subprocess.CalledProcessError: namespaces cannot be made here.
    """
    tag = f"{tag}{os.getpid()}"
    switch = f"{tag}-s"
    hosts = [
        Host(name=f"{tag}-{number}", address=f"10.99.0.{number + 1}", switch=switch, number=number) for number in range(count)
    ]
    made: list[str] = []
    try:
        for name in (switch, *(host.name for host in hosts)):
            ip("netns", "add", name)
            made.append(name)
        ip("-n", switch, "link", "add", _BRIDGE, "type", "bridge")
        ip("-n", switch, "link", "set", _BRIDGE, "up")
        for number, host in enumerate(hosts):
            port = f"port{number}"
            ip("-n", host.name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", switch)
            ip("-n", switch, "link", "set", port, "master", _BRIDGE, "up")
            ip("-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
            ip("-n", host.name, "link", "set", "eth0", "up")
            ip("-n", host.name, "link", "set", "lo", "up")
        yield hosts
    finally:
        started = [process for host in hosts for process in (*host.running, *host.wires)]
        for process in started:
            process.kill()
        for pid in (pid for name in made for pid in _process_ids(name)):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        for process in started:
            process.communicate(timeout=60)
        for name in made:
            ip("netns", "del", name)


@contextmanager
def joined_or_skipped(count: int, tag: str = "hh") -> Iterator[list[Host]]:
    """As `joined`; where namespaces cannot be made, the test is skipped."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need iproute2 and root")
    with ExitStack() as undo:
        try:
            hosts = undo.enter_context(joined(count, tag))
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces cannot be made here: {error.stderr.strip()}")
        yield hosts


def wait_until_it_serves(server: subprocess.Popen[str]) -> None:
    """Until a process of `halohop serve` says that it does."""
    assert server.stderr is not None
    lines: list[str] = []
    for line in server.stderr:  # it may have to compile kernels first, and says so
        lines.append(line)
        if line.startswith("serving partitions"):
            break
    else:
        raise ClusterError(f"the server ended before it served, and said: {''.join(lines)}")
