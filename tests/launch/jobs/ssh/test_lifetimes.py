"""Whatever ends a launcher ends all that it started, on all hosts, and a host that is lost ends the job."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.deadlines import within
from tests.support.hosts import ip
from tests.support.sshd import Cluster

pytestmark = [pytest.mark.timeout(300), pytest.mark.full]

SLOW = 200_000
"""Bits per second of a host whose copies take minutes."""


PARTS = ("halohop launch", "-m halohop.launch.jobs.host", "halohop serve", "train.py")
"""What a job cannot do without, and an ssh client, by their command lines; a login shell forks what ends by itself."""


def running(cluster: Cluster, host: int, what: str) -> bool:
    """Whether something runs on a host; only there, since hosts share the list of processes."""
    found = False
    for number in cluster.hosts[host].process_ids():
        try:
            found |= what.encode() in Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:  # it has ended
            continue
    return found


def connecting(launches) -> bool:
    return running(launches.cluster, 1, "halohop.launch.jobs.host") or running(launches.cluster, 1, "sshd: ")


def copying(launches) -> bool:
    return bool([*(launches.folder / "cache-b").rglob("*.partial-*")])


def serving(launches) -> bool:
    return running(launches.cluster, 0, "halohop serve")


def training(launches) -> bool:
    return len([*launches.folder.glob("rank-*")]) == 4


PHASES: dict[str, Callable[..., bool]] = {one.__name__: one for one in (connecting, copying, serving, training)}


def begin(launches, phase: str):
    """A job that stays in a phase; returns its launcher when it is there."""
    more = "trainers = 2\nservers = 2" if phase == "serving" else "trainers = 2"
    if phase == "copying":
        more = f'{more}\ncache = "{launches.folder}/cache-{{host}}"'
        launches.cluster.here.limit_rate(SLOW)
    launcher = launches.start("wait", launches.folder, more=more)
    launches.wait_for(lambda: PHASES[phase](launches), launcher)
    return launcher


@pytest.fixture(autouse=True)
def _good_network(cluster: Cluster):
    yield
    cluster.here.limit_rate(10**10)
    for host in (*cluster.hosts, cluster.here):
        host.heal()


@pytest.mark.parametrize("phase", PHASES)
def test_a_launcher_that_is_killed_leaves_nothing(launches, phase: str) -> None:
    launcher = begin(launches, phase)
    launches.kill(launcher)
    launches.cluster.here.limit_rate(10**10)
    assert launches.gone_within() == []
    assert not [*launches.folder.rglob("*.partial-*")]


@pytest.mark.parametrize("who", ["launcher", "host"])
def test_a_cut_network_ends_everything_on_both_sides(launches, cluster: Cluster, who: str) -> None:
    launcher = begin(launches, "training")
    (cluster.here if who == "launcher" else cluster.hosts[1]).cut()
    _, err = launcher.communicate(timeout=within(25))
    assert "host b: the connection is lost: its network is cut, or the machine is down" in err or who == "launcher"
    assert "is lost" in err
    assert launches.gone_within() == []


def test_an_ssh_client_that_is_killed_is_a_lost_host(launches, cluster: Cluster) -> None:
    launcher = begin(launches, "training")
    for number in cluster.here.process_ids():
        command = Path(f"/proc/{number}/cmdline").read_bytes()
        if command.startswith(b"ssh\0") and b"\0b\0" in command:
            os.kill(number, signal.SIGKILL)
    _, err = launcher.communicate(timeout=within(25))
    assert "host b: " in err
    assert "rank 0 (a, process " in err
    assert launches.gone_within() == []


@pytest.mark.parametrize("part", ["runner", "guard", "rank"])
def test_a_part_of_a_host_that_is_killed_ends_the_job(launches, cluster: Cluster, part: str) -> None:
    launcher = begin(launches, "training")
    names = {"runner": "halohop host", "guard": "halohop guard"}
    for number in cluster.hosts[1].process_ids():
        named = Path(f"/proc/{number}/comm").read_text().strip() == names.get(part)
        if named or (part == "rank" and b"processes.child" in Path(f"/proc/{number}/cmdline").read_bytes()):
            os.kill(number, signal.SIGKILL)
    _, err = launcher.communicate(timeout=within(25))
    assert " b" in err
    assert launches.gone_within() == []


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_twenty_random_kills_leave_nothing(launches, cluster: Cluster) -> None:
    """The launcher, an ssh client, or anything on a host, at a random moment."""
    moments = random.Random(20261122)
    for number in range(20):
        for file in launches.folder.glob("rank-*"):
            file.unlink()
        servers = "servers = 2\n" if number % 2 else ""
        launcher = launches.start("wait", launches.folder, more=f'{servers}trainers = 2\nout = "{launches.folder}/run-{number}"')
        end = time.monotonic() + moments.uniform(0.2, 12)
        while time.monotonic() < end and launcher.poll() is None:
            time.sleep(0.01)
        everyone = {pid for host in (cluster.here, *cluster.hosts) for pid in host.process_ids()}
        victim = moments.choice(sorted(pid for pid in everyone if _is_needed(pid)))
        print(f"kill {number}: {_command(victim)}")
        if launcher.poll() is None:
            os.kill(victim, signal.SIGKILL)
            _, err = launcher.communicate(timeout=within(60))
            assert launcher.returncode != 0
            assert victim == launcher.pid or "error" in err
        assert launches.gone_within(15) == []
        assert _ports(cluster) == []


def _is_needed(number: int) -> bool:
    command = _command(number)
    return any(part in command for part in PARTS) and not command.startswith(("bash", "sh "))


def _command(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


def _ports(cluster: Cluster) -> list[str]:
    """What listens on the hosts besides their ssh servers."""
    found = []
    for host in cluster.hosts:
        table = ip("netns", "exec", host.name, "cat", "/proc/net/tcp", "/proc/net/tcp6")
        rows = [line.split() for line in table.splitlines()]
        found += [row[1] for row in rows if row[3:4] == ["0A"] and not row[1].endswith(":0016")]
    return found
