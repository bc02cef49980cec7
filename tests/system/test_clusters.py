"""Servers and trainers on hosts of their own: any number of either, killed, started again, cut off, stopped, interrupted.

A trainer prints a line for every batch: a digest, and where its loader stands.
"""

import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from halohop import partition
from halohop.datasets import synthetic
from halohop.launch.runs.nodes import node_folders
from tests.support.deadlines import within
from tests.support.hosts import Host, wait_until_it_serves

pytestmark = pytest.mark.xdist_group("clusters")  # one process makes the fixtures of the module

CLIENT = Path(__file__).parent / "client.py"
WORKER = Path(__file__).parent / "worker.py"
SECRET = {"HALOHOP_TOKEN": "a secret of these tests only"}
EPOCHS = 3
PORT = 5510
PATIENCE = 200.0
"""Seconds that a call may take where its outcome shall be a batch."""
PROMISED = 5.0
"""Seconds until everything has ended after Ctrl-C."""

Process = subprocess.Popen[str]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The same graph by its number of partitions."""
    folder = tmp_path_factory.mktemp("clusters")
    for num_parts in (2, 8):
        partition(synthetic("tiny"), folder / str(num_parts), num_parts=num_parts, method="random")
    return {num_parts: folder / str(num_parts) for num_parts in (2, 8)}


Lines = Callable[[int], list[str]]


@pytest.fixture(scope="module")
def undisturbed(folders) -> Lines:
    """The lines of so many epochs that nothing happens to, on the opened graph."""

    @cache
    def lines(epochs: int) -> list[str]:
        command = [sys.executable, str(WORKER), str(folders[2]), str(epochs), "0", "neighbor"]
        alone = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200, check=True)
        return alone.stdout.splitlines()[:-1]

    return lines


@pytest.fixture(scope="module")
def expected(undisturbed) -> list[str]:
    return undisturbed(EPOCHS)


class Cluster:
    """Servers on the first hosts, each with its share of the partitions and all others as peers; trainers on the rest."""

    def __init__(self, hosts: list[Host], folder: Path, num_servers: int) -> None:
        self.folder = folder
        self.num_parts = int(folder.name)
        self.homes, self.others = hosts[:num_servers], hosts[num_servers:]
        self.addresses = [f"{home.address}:{PORT}" for home in self.homes]
        self.servers = [self.start_server(number) for number in range(num_servers)]
        for server in self.servers:
            wait_until_it_serves(server)

    def share(self, server: int) -> str:
        """Every partition has a server, and every server a partition."""
        shared = range(server, self.num_parts, len(self.homes)) or [server % self.num_parts]
        return ",".join(map(str, shared))

    def start_server(self, number: int) -> Process:
        home, address = self.homes[number], self.addresses[number]
        peers = ",".join(other for other in self.addresses if other != address)
        options = ("--partitions", self.share(number), "--listen", address, "--peers", peers)
        return home.start("-m", "halohop", "serve", self.folder, *options, env=SECRET)

    def start_client(
        self, number: int, sampling: str = "servers", *, seconds: float = PATIENCE, epochs: int = EPOCHS, state: str = ""
    ) -> Process:
        home = self.others[number % len(self.others)]
        return home.start(CLIENT, ",".join(self.addresses), epochs, sampling, seconds, state, env=SECRET)


class Job:
    """Trainers that hold the graph: three hosts with some partitions each. Two trainers share the second host."""

    homes = (0, 1, 1, 2)

    def __init__(self, hosts: list[Host], folder: Path, views: Path) -> None:
        self.hosts = hosts[:3]
        self.folders = node_folders(folder, views, 3)

    def start(self, epochs: int, state: str = "") -> list[Process]:
        return [self._start(rank, home, epochs, state) for rank, home in enumerate(self.homes)]

    def _start(self, rank: int, home: int, epochs: int, state: str) -> Process:
        places = {
            "RANK": rank,
            "WORLD_SIZE": len(self.homes),
            "LOCAL_RANK": rank - self.homes.index(home),
            "LOCAL_WORLD_SIZE": self.homes.count(home),
            "GROUP_RANK": home,
            "GROUP_WORLD_SIZE": len(self.hosts),
            "MASTER_ADDR": self.hosts[0].address,
            "MASTER_PORT": PORT,
        }
        env = SECRET | {name: str(place) for name, place in places.items()}
        return self.hosts[home].start(WORKER, self.folders[home], epochs, 2, "neighbor", state, env=env)


def take(client: Process, count: int) -> list[str]:
    """The lines of the client's next batches."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write("\n" * count)
    client.stdin.flush()
    lines = [client.stdout.readline().strip() for _ in range(count)]
    if "" in lines:
        pytest.fail(f"the client ended: {client.communicate(timeout=60)[1]}")
    return lines


def let_go(*clients: Process) -> None:
    """From now on they take what comes."""
    for client in clients:
        assert client.stdin is not None
        client.stdin.write("\n" * 1000)  # more than there are
        client.stdin.flush()


def state_of(line: str) -> str:
    return line.partition(" ")[2]


def take_all(client: Process) -> list[str]:
    """The lines of all batches that are left; the client ends well."""
    out, err = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, err
    return out.splitlines()


def kill(process: Process) -> None:
    process.kill()
    process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("num_servers", "num_clients", "num_parts"),
    [
        pytest.param(2, 2, 2, marks=pytest.mark.full),  # slow and lossy networks have as many of both
        pytest.param(1, 3, 2, marks=pytest.mark.full),
        pytest.param(3, 1, 2, marks=pytest.mark.soak),
        pytest.param(2, 2, 8, marks=pytest.mark.soak),
    ],
)
def test_any_number_of_servers_and_clients(network, folders, expected, num_servers, num_clients, num_parts):
    cluster = Cluster(network, folders[num_parts], num_servers)
    clients = [cluster.start_client(number, ("servers", "client")[number % 2]) for number in range(num_clients)]
    for client in clients:
        assert take_all(client) == expected


def play_servers(network: list[Host], folders: dict[int, Path], undisturbed: Lines, rounds: int, _: Path) -> None:
    """Each round two clients go through all epochs, and one of the four, each in its turn, is killed and started again."""
    chance = random.Random(rounds)
    expected = undisturbed(EPOCHS)
    cluster = Cluster(network, folders[2], 2)
    for number in range(rounds):
        clients = [cluster.start_client(0, "servers"), cluster.start_client(1, "client")]
        step, victim = chance.randrange(1, len(expected) * 2 // 3), number // 2 % 2
        got = [take(client, step) for client in clients]
        if number % 2:
            kill(clients[victim])
            clients[victim] = cluster.start_client(victim, ("servers", "client")[victim], state=state_of(got[victim][-1]))
        else:
            kill(cluster.servers[victim])
            cluster.servers[victim] = cluster.start_server(victim)
            wait_until_it_serves(cluster.servers[victim])
        for client, before in zip(clients, got, strict=True):
            assert before + take_all(client) == expected, (number, step, victim)


def play_workers(network: list[Host], folders: dict[int, Path], undisturbed: Lines, rounds: int, views: Path) -> None:
    """Each epoch a trainer is killed that shares its host's port, and then one, each in its turn, that had opened one.

    The others go on after the first, and after the second come to their end, naming its host. Then all are started again where
    they stood. (Rank 0 keeps the store, besides.)
    """
    chance = random.Random(rounds)
    job = Job(network, folders[8], views)
    expected, trainers, place = undisturbed(rounds + 1), job.start(rounds + 1), 0
    steps = len(expected) // (rounds + 1)
    for number in range(rounds):
        sharer, owner = 2, (1, 0, 3)[number % 3]
        running = dict(enumerate(trainers))
        for victim, step in zip((sharer, owner), sorted(chance.sample(range(1, steps), 2)), strict=True):
            begin, place = place, steps * number + step
            for trainer in running.values():
                assert take(trainer, place - begin) == expected[begin:place], (number, victim)
            kill(running.pop(victim))
        let_go(*running.values())
        for trainer in running.values():
            out, err = trainer.communicate(timeout=PATIENCE)
            made = out.splitlines()
            assert made == expected[place : place + len(made)], (number, victim)
            assert trainer.returncode == 1, err
            assert re.search(rf"PeerLostError: \w+: peer 'host {job.homes[owner]}' at .* went away", err), err
            assert_no_shared_memory(trainer)
        assert not any(host.process_ids() for host in job.hosts)
        trainers = job.start(rounds + 1, state_of(expected[place - 1]))
    let_go(*trainers)
    assert [take_all(trainer) for trainer in trainers] == [[*expected[place:], "remote rows True"]] * len(trainers)


@pytest.mark.parametrize(
    ("play", "rounds"),
    [
        pytest.param(play_servers, 1, marks=[pytest.mark.full, pytest.mark.timeout(480)]),
        pytest.param(play_servers, 2, marks=[pytest.mark.full, pytest.mark.timeout(480)]),
        pytest.param(play_workers, 1, marks=[pytest.mark.full, pytest.mark.timeout(480)]),
        pytest.param(play_servers, 20, marks=[pytest.mark.soak, pytest.mark.timeout(2400)]),
        pytest.param(play_workers, 20, marks=[pytest.mark.soak, pytest.mark.timeout(2400)]),
    ],
)
def test_killed_and_started_again(network, folders, undisturbed, play, rounds, tmp_path):
    play(network, folders, undisturbed, rounds, tmp_path)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"delay": 0.2}, marks=pytest.mark.soak),
        pytest.param({"loss": 0.05}, marks=pytest.mark.soak),
        pytest.param({"delay": 0.05, "loss": 0.02}, marks=pytest.mark.full),
    ],
    ids=str,
)
def test_slow_and_lossy_networks_give_the_same_batches(network, folders, expected, trouble):
    network[0].shape(**trouble)
    cluster = Cluster(network, folders[2], 2)
    clients = [cluster.start_client(0, "servers", epochs=1), cluster.start_client(1, "client", epochs=1)]
    for client in clients:
        assert take_all(client) == expected[: len(expected) // EPOCHS]


@pytest.mark.full  # tests/transport cuts connections between threads
@pytest.mark.parametrize("cut", [0, pytest.param(2, marks=pytest.mark.soak)], ids=["server", "client"])
def test_a_cut_that_heals_gives_the_same_batches(network, folders, expected, cut):
    cluster = Cluster(network, folders[2], 2)
    clients = [cluster.start_client(0, "servers"), cluster.start_client(0, "client")]
    got = [take(client, 20) for client in clients]
    network[cut].cut()
    let_go(*clients)
    with pytest.raises(subprocess.TimeoutExpired):
        clients[0].wait(5)
    network[cut].heal()
    for client, before in zip(clients, got, strict=True):
        assert before + take_all(client) == expected


SILENT = """
import socket, sys
listener = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("listens", flush=True)
kept = []
while True:
    kept.append(listener.accept())
"""


@pytest.mark.full
def test_a_peer_that_never_answers_is_named_at_the_deadline(network, folders):
    home, other = network[:2]
    silent = home.start("-c", SILENT, home.address, PORT)
    assert silent.stdout is not None
    assert silent.stdout.readline() == "listens\n"
    client = other.start(CLIENT, f"{home.address}:{PORT}", 1, "servers", 3.0, env=SECRET)
    _, err = client.communicate(timeout=60)
    assert client.returncode == 1
    assert "halohop.errors.PeerLostError: " in err
    assert f"peer 'server 0' at tcp://{home.address}:{PORT}" in err


@pytest.mark.full  # test_serve.py stops one of two servers
@pytest.mark.parametrize("sampling", ["servers", pytest.param("client", marks=pytest.mark.soak)])
def test_a_stopped_server_is_stood_in_for(network, folders, expected, sampling):
    """The first and the third have the same partition. The first, which is asked, stops with all its connections open."""
    cluster = Cluster(network, folders[2], 3)
    assert cluster.share(0) == cluster.share(2)
    client = cluster.start_client(0, sampling)
    got = take(client, 10)
    cluster.servers[0].send_signal(signal.SIGSTOP)
    assert got + take_all(client) == expected


@pytest.mark.full  # tests/transport stops a process
def test_a_stopped_server_without_a_stand_in_is_named(network, folders):
    cluster = Cluster(network, folders[2], 2)
    client = cluster.start_client(0, "client", seconds=20.0)
    take(client, 10)
    cluster.servers[1].send_signal(signal.SIGSTOP)
    _, err = client.communicate(timeout=60)
    assert client.returncode == 1
    assert "server 1" in err
    assert cluster.addresses[1] in err


@pytest.mark.parametrize(
    ("alive", "sampling"),
    [
        pytest.param(True, "servers", marks=pytest.mark.full),
        pytest.param(False, "client", marks=pytest.mark.full),
        pytest.param(True, "client", marks=pytest.mark.soak),
        pytest.param(False, "servers", marks=pytest.mark.soak),
    ],
)
def test_ctrl_c_ends_a_trainer(network, folders, alive, sampling):
    cluster = Cluster(network, folders[2], 2)
    client = cluster.start_client(0, sampling)
    take(client, 10)
    if not alive:
        kill(cluster.servers[0])
        let_go(client)
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(3)
    client.send_signal(signal.SIGINT)
    assert client.wait(within(PROMISED)) == -signal.SIGINT, client.communicate(timeout=60)[1]  # what a shell calls 130
    assert not cluster.others[0].process_ids()
    assert_no_shared_memory(client)


@pytest.mark.full
def test_ctrl_c_ends_a_trainer_that_waits_for_servers_to_start(network):
    program = "import halohop, sys; connect = halohop.connect; print(flush=True); connect(sys.argv[1:])"
    client = network[0].start("-c", program, f"{network[1].address}:{PORT}", env=SECRET)
    assert client.stdout is not None
    client.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(3)
    client.send_signal(signal.SIGINT)
    assert client.wait(within(PROMISED)) == -signal.SIGINT, client.communicate(timeout=60)[1]
    assert not network[0].process_ids()


@pytest.mark.full  # test_serve.py does it without a network
def test_ctrl_c_ends_a_server_that_waits_for_a_dead_peer(network, folders):
    cluster = Cluster(network, folders[2], 2)
    client = cluster.start_client(0, "servers")
    take(client, 10)
    kill(cluster.servers[0])
    let_go(client)
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(3)
    server = cluster.servers[1]
    server.send_signal(signal.SIGINT)
    assert server.wait(within(PROMISED)) == 130, server.communicate(timeout=60)[1]
    assert not cluster.homes[1].process_ids()
    assert_no_shared_memory(server)


def assert_no_shared_memory(process: Process) -> None:
    assert not list(Path("/dev/shm").glob(f"halohop_{process.pid}_*"))
