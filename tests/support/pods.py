"""Pods of manifests on hosts in network namespaces: their very command lines, and names that move with them."""

import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from halohop.launch.jobs.job_text import parse_job
from halohop.launch.jobs.k8s.engine import plan_of
from halohop.launch.processes.places import rank_environment, world_of
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

    def train(self, name: str, home: Host) -> Process:
        """Starts the only rank of a pod of trainers on a host, without the launcher, so that a test can talk to it."""
        self._at |= {name: home}
        self._publish()
        container = self._pods[name].main
        (process,) = plan_of(parse_job(container.argv[-1])).trainers
        return home.start(*process.argv, env={**container.env, **rank_environment(world_of(0, 1, 1))})

    def _begin(self, container: Container, home: Host) -> Process:
        assert container.argv[0] == "python"
        return home.start(*container.argv[1:], env={**container.env})

    def _publish(self) -> None:
        """What the name server of a cluster would answer, and who a host is."""
        publish(self._hosts, [(home.address, self._pods[name].name) for name, home in self._at.items()])


@contextmanager
def on_pods(hosts: Sequence[Host], text: str, secrets: Mapping[str, str]) -> Iterator[Pods]:
    """Pods on hosts whose processes read names from files of their own; the files go with it, the processes with the hosts."""
    for host in hosts:
        hosts_file(host).parent.mkdir(parents=True, exist_ok=True)
        hosts_file(host).touch()
    try:
        yield Pods(hosts, text, secrets)
    finally:
        for host in hosts:
            shutil.rmtree(hosts_file(host).parent)


def publish(hosts: Sequence[Host], found: Iterable[tuple[str, str]]) -> None:
    """Writes addresses and names to the files where processes on hosts look names up; in place, as they have this very file."""
    for host in hosts:
        own = [("127.0.0.1", "localhost"), (host.address, socket.gethostname())]
        hosts_file(host).write_text("".join(f"{address} {name}\n" for address, name in [*own, *found]))


def hosts_file(host: Host) -> Path:
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
