"""Hosts and servers that are killed in mid-epoch and started again at another address, and hosts that are stopped."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hosts import Host

WORKER = Path(__file__).parent / "worker.py"
CLIENT = WORKER.parent / "client.py"
SECRET = {"HALOHOP_TOKEN": "a secret of these tests only"}
EPOCHS = 2
PORT = 5510
PATIENCE = 200.0
"""Seconds that a call may take: a host starts within it."""

Process = subprocess.Popen[str]


@pytest.fixture
def expected(folders, tmp_path) -> list[str]:
    """The lines of a run that nothing happens to."""
    command = [sys.executable, str(WORKER), str(tmp_path / "parts"), str(EPOCHS), "0", "neighbor"]
    alone = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=True)
    return alone.stdout.splitlines()[:-1]


def take(trainer: Process, count: int) -> list[str]:
    """The lines of the next batches."""
    assert trainer.stdin is not None
    assert trainer.stdout is not None
    trainer.stdin.write("\n" * count)
    trainer.stdin.flush()
    return [trainer.stdout.readline().strip() for _ in range(count)]


def take_all(trainer: Process) -> list[str]:
    """The lines of all batches that are left; the trainer ends well."""
    out, err = trainer.communicate(timeout=150)
    assert trainer.returncode == 0, err
    return out.splitlines()


def let_go(trainers: list[Process]) -> None:
    """From now on they take what comes; all of them, since they close their graphs together."""
    for trainer in trainers:
        assert trainer.stdin is not None
        trainer.stdin.write("\n" * 1000)  # more than there are
        trainer.stdin.flush()


def start_host(network: list[Host], home: Host, folders: list[Path], rank: int) -> Process:
    """A trainer that holds some of the graph; the first host of the network keeps the store."""
    env = SECRET | {
        "RANK": str(rank),
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": network[0].address,
        "MASTER_PORT": "29555",
    }
    return home.start(WORKER, folders[rank], EPOCHS, 2, "neighbor", "", PATIENCE, env=env)


@pytest.mark.full
@pytest.mark.parametrize("seconds", [3.0, pytest.param(20.0, marks=pytest.mark.soak)])
def test_a_host_that_is_stopped_for_some_seconds_is_waited_for(network, folders, expected, seconds):
    """By SIGSTOP, with all its connections open; the calls of the others may take longer than it is stopped."""
    step = 10
    trainers = [start_host(network, network[rank], folders, rank) for rank in range(3)]
    for trainer in trainers:
        assert take(trainer, step) == expected[:step]
    trainers[1].send_signal(signal.SIGSTOP)
    let_go(trainers)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            trainers[0].wait(seconds)
    finally:
        trainers[1].send_signal(signal.SIGCONT)
    for trainer in trainers:
        assert take_all(trainer) == [*expected[step:], "remote rows True"]


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1])
def test_a_host_that_is_started_again_elsewhere_is_found(network, folders, expected, seed):
    """On another machine, while the old one is cut off: nobody there refuses connections."""
    chance = random.Random(seed)
    victim, step = chance.randrange(1, 3), chance.randrange(2, len(expected) - 10)
    trainers = [start_host(network, network[rank], folders, rank) for rank in range(3)]
    for trainer in trainers:
        assert take(trainer, step) == expected[:step]
    network[victim].cut()
    trainers[victim].kill()
    trainers[victim].communicate(timeout=60)
    trainers[victim] = start_host(network, network[3], folders, victim)
    let_go(trainers)
    for rank, trainer in enumerate(trainers):
        assert take_all(trainer) == [*expected[0 if rank == victim else step :], "remote rows True"]


def start_server(home: Host, folder: Path, partitions: str, peers: str) -> Process:
    options = ("--partitions", partitions, "--listen", f"{home.address}:{PORT}", "--peers", peers)
    server = home.start("-m", "halohop", "serve", folder, *options, env=SECRET)
    assert server.stderr is not None
    line = server.stderr.readline()
    assert line.startswith("serving partitions"), line
    return server


@pytest.mark.timeout(300)
@pytest.mark.soak
@pytest.mark.parametrize("seed", [0, 1])
def test_a_server_that_is_started_again_elsewhere_is_found(network, tmp_path, folders, expected, seed):
    """By those that ask it, whether trainers or servers, and by who comes later and has heard of the old address only."""
    chance = random.Random(seed)
    victim, step = chance.randrange(2), chance.randrange(2, len(expected) - 10)
    homes, shares = network[:2], ("0", "1,2")
    addresses = [f"{home.address}:{PORT}" for home in homes]

    def start_client(sampling: str) -> Process:
        return network[2].start(CLIENT, ",".join(addresses), EPOCHS, sampling, PATIENCE, env=SECRET)

    servers = [start_server(homes[number], tmp_path / "parts", shares[number], addresses[1 - number]) for number in range(2)]
    clients = [start_client(sampling) for sampling in ("servers", "client")]
    for client in clients:
        assert take(client, step) == expected[:step]
    homes[victim].cut()
    servers[victim].kill()
    servers[victim].communicate(timeout=60)
    start_server(network[3], tmp_path / "parts", shares[victim], addresses[1 - victim])
    for client in clients:
        assert take_all(client) == expected[step:]
    late = start_client("servers")
    assert take_all(late) == expected
