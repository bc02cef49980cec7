"""Pods of manifests on hosts in network namespaces: their very command lines, and names that move with them."""

import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.hosts import Host, wait_until_it_serves
from tests.support.kubernetes import Container, Pod, pods_of

Process = subprocess.Popen[str]


class Pods:
    """The pods of some manifests, each on one of the hosts.

    Args:
        hosts: all that there are.
        text: the manifests.
        secrets: values by "NAME/KEY".
    """

    def __init__(self, hosts: Sequence[Host], text: str, secrets: Mapping[str, str]) -> None:
        self._hosts = hosts
        self._pods: dict[str, Pod] = {pod.name.split(".")[0]: pod for pod in pods_of(text, secrets)}
        self._at: dict[str, Host] = {}

    def start(self, homes: Mapping[str, Host]) -> dict[str, Process]:
        """Starts pods on hosts, all at once, after their names have moved there and what comes before has ended well."""
        self._at |= homes
        self._publish()
        for pod, home in ((self._pods[name], home) for name, home in homes.items()):
            for container in pod.before:
                process = self._begin(container, home)
                _, err = process.communicate(timeout=100)
                assert process.returncode == 0, err
        return {name: self._begin(self._pods[name].main, home) for name, home in homes.items()}

    def serve(self, homes: Mapping[str, Host]) -> dict[str, Process]:
        """`start`, of servers, until they serve."""
        started = self.start(homes)
        for server in started.values():
            wait_until_it_serves(server)
        return started

    def _begin(self, container: Container, home: Host) -> Process:
        assert container.argv[0] == "python"
        return home.start(*container.argv[1:], env={**container.env})

    def _publish(self) -> None:
        """What the name server of a cluster would answer, and who a host is; in place, since processes have this very file."""
        lines = [f"{home.address} {self._pods[name].name}" for name, home in self._at.items()]
        for host in self._hosts:
            own = ("127.0.0.1 localhost", f"{host.address} {socket.gethostname()}")
            _file(host).write_text("\n".join((*own, *lines, "")))


@contextmanager
def on_pods(hosts: Sequence[Host], text: str, secrets: Mapping[str, str]) -> Iterator[Pods]:
    """Pods on hosts whose processes read names from files of their own; the files go with it, the processes with the hosts."""
    for host in hosts:
        _file(host).parent.mkdir(parents=True, exist_ok=True)
        _file(host).touch()
    try:
        yield Pods(hosts, text, secrets)
    finally:
        for host in hosts:
            shutil.rmtree(_file(host).parent)


def _file(host: Host) -> Path:
    """What `ip netns exec` shows as /etc/hosts."""
    return Path("/etc/netns") / host.name / "hosts"


def terminate(process: Process) -> str:
    """Ends a process as the kubelet does; returns what it said. It ends well."""
    process.terminate()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert isinstance(err, str)
    return err


def kill(process: Process) -> None:
    process.kill()
    process.communicate(timeout=20)
