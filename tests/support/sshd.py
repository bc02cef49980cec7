"""OpenSSH's own server on hosts in network namespaces, and a client's configuration that reaches them.

Needs Debian's openssh-server or its like, and root.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.deadlines import within
from tests.support.hosts import Host, joined_or_skipped

SSHD = Path("/usr/sbin/sshd")
_SOURCE = Path(__file__).parents[2] / "src"
_PRIVILEGES = Path("/run/sshd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Hosts with ssh servers, called ``a``, ``b``, ..., and one without, where the launcher runs.

    Args:
        here: the launcher's host.
        hosts: the others.
        config: the client's configuration; ``ssh -F`` takes it.
        folder: of keys and configurations.
        private: a folder of which each host has its own; they share all others with the launcher.
    """

    here: Host
    hosts: tuple[Host, ...]
    config: Path
    folder: Path
    private: Path

    @property
    def names(self) -> list[str]:
        return [chr(ord("a") + number) for number in range(len(self.hosts))]

    def left(self) -> dict[int, str]:
        """What runs on the hosts besides their ssh servers: numbers and command lines."""
        numbers = {number for host in (*self.hosts, self.here) for number in host.process_ids()}
        found = {number: _command(number) for number in numbers}
        return {number: text for number, text in found.items() if text and not text.startswith(("sshd", str(SSHD)))}

    def connect(self, host: int) -> str:
        """The text that a user of ssh sees on a host when it works."""
        run = ["ip", "netns", "exec", self.here.name, "ssh", "-F", str(self.config), self.names[host], "echo", "reached"]
        return subprocess.run(run, capture_output=True, text=True, timeout=20, check=False).stdout


@contextmanager
def ssh_hosts(count: int, folder: Path, *, python_path: Sequence[Path] = (_SOURCE,)) -> Iterator[Cluster]:
    """Hosts that reach each other, and whose ssh servers let us in; skips the test where there is no ssh server, or no root."""
    if not SSHD.exists() or shutil.which("ssh-keygen") is None:
        pytest.skip("OpenSSH's server is not installed: apt-get install openssh-server")
    with joined_or_skipped(count + 1) as (here, *hosts):
        _PRIVILEGES.mkdir(exist_ok=True)
        for name in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True, timeout=20, stdin=subprocess.DEVNULL)
        private = folder / "private"
        private.mkdir()
        cluster = Cluster(here=here, hosts=tuple(hosts), config=_client(folder, hosts), folder=folder, private=private)
        for host in hosts:
            _serve(host, folder, python_path)
        deadline = time.monotonic() + within(20)
        waiting = [*range(count)]
        while waiting := [number for number in waiting if cluster.connect(number) != "reached\n"]:
            assert time.monotonic() < deadline, (folder / f"{hosts[waiting[0]].name}.log").read_text()
        yield cluster


def _client(folder: Path, hosts: Sequence[Host]) -> Path:
    """Names, our key, and the keys of the hosts, which are all the same."""
    key = (folder / "host.pub").read_text().strip()
    (folder / "known_hosts").write_text("".join(f"{host.address} {key}\n" for host in hosts))
    lines = [f"UserKnownHostsFile {folder}/known_hosts", "GlobalKnownHostsFile /dev/null"]
    lines += [f"IdentityFile {folder}/user", "IdentitiesOnly yes", "IdentityAgent none"]
    for number, host in enumerate(hosts):
        lines += [f"Host {chr(ord('a') + number)}", f"  HostName {host.address}"]
    config = folder / "client.config"
    config.write_text("\n".join(lines) + "\n")
    return config


def _serve(host: Host, folder: Path, python_path: Sequence[Path]) -> None:
    authorized = folder / "authorized_keys"
    shutil.copy(folder / "user.pub", authorized)
    paths = os.pathsep.join(map(str, python_path))
    config = folder / f"{host.name}.sshd"
    config.write_text(
        f"HostKey {folder}/host\nAuthorizedKeysFile {authorized}\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        f'SetEnv "PYTHONPATH={paths}" "OMP_NUM_THREADS=1"\n'
    )
    run = f"mount -t tmpfs halohop {folder}/private && exec {SSHD} -D -E {folder}/{host.name}.log -f {config}"
    command = ["ip", "netns", "exec", host.name, "unshare", "--mount", "sh", "-c", run]
    pipe = subprocess.PIPE
    host.running.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))


def _command(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:  # it has ended
        return ""
