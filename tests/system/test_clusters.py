"""Servers and trainers on hosts of their own: any number of either, killed, started again, cut off, stopped, interrupted."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from halohop import partition
from halohop.datasets import synthetic
from halohop.testing.hosts import Host

CLIENT = Path(__file__).parent / "client.py"
WORKER = Path(__file__).parent / "worker.py"
SECRET = {"HALOHOP_TOKEN": "a secret of these tests only"}
EPOCHS = 3
PORT = 5510
PATIENCE = 100.0
"""Seconds that a call may take where its outcome shall be a batch."""
ENDS_WITHIN = 15.0
"""Seconds after Ctrl-C; 5 are promised, on a machine that does nothing else."""

Process = subprocess.Popen[str]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The same graph by its number of partitions."""
    folder = tmp_path_factory.mktemp("clusters")
    for num_parts in (2, 8):
        partition(synthetic("tiny"), folder / str(num_parts), num_parts=num_parts, method="random")
    return {num_parts: folder / str(num_parts) for num_parts in (2, 8)}


@pytest.fixture(scope="module")
def expected(folders) -> list[str]:
    """The digests of all batches of an undisturbed run, on the opened graph."""
    command = [sys.executable, str(WORKER), str(folders[2]), str(EPOCHS), "0", "neighbor"]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout.splitlines()[:-1]


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
        return home.start("-m", "halohop.launch.cli", "serve", self.folder, *options, env=SECRET)

    def start_client(self, number: int, sampling: str = "servers", *, seconds: float = PATIENCE, epochs: int = EPOCHS) -> Process:
        home = self.others[number % len(self.others)]
        return home.start(CLIENT, ",".join(self.addresses), epochs, sampling, seconds, env=SECRET)


def wait_until_it_serves(server: Process) -> None:
    assert server.stderr is not None
    line = server.stderr.readline()
    assert line.startswith("serving partitions"), line + server.stderr.read()


def take(client: Process, count: int) -> list[str]:
    """The digests of the client's next batches."""
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write("\n" * count)
    client.stdin.flush()
    lines = [client.stdout.readline().strip() for _ in range(count)]
    if "" in lines:
        pytest.fail(f"the client ended: {client.communicate(timeout=20)[1]}")
    return lines


def take_all(client: Process) -> list[str]:
    """The digests of all batches that are left; the client ends well."""
    out, err = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, err
    return out.splitlines()


def kill(process: Process) -> None:
    process.kill()
    process.communicate(timeout=20)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("num_servers", "num_clients", "num_parts"),
    [(2, 2, 2), (1, 3, 2), pytest.param(3, 1, 2, marks=pytest.mark.soak), pytest.param(2, 2, 8, marks=pytest.mark.soak)],
)
def test_any_number_of_servers_and_clients(network, folders, expected, num_servers, num_clients, num_parts):
    cluster = Cluster(network, folders[num_parts], num_servers)
    clients = [cluster.start_client(number, ("servers", "client")[number % 2]) for number in range(num_clients)]
    for client in clients:
        assert take_all(client) == expected


@pytest.mark.timeout(240)
def test_killed_and_started_again(network, folders, expected):
    play(network, folders[2], expected, rounds=2)


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_killed_and_started_again_many_times(network, folders, expected):
    play(network, folders[2], expected, rounds=20)


def play(network: list[Host], folder: Path, expected: list[str], *, rounds: int) -> None:
    """Each round two clients go through all epochs, and one of the four, each in its turn, is killed and started again."""
    chance = random.Random(rounds)
    cluster = Cluster(network, folder, 2)
    for number in range(rounds):
        clients = [cluster.start_client(0, "servers"), cluster.start_client(1, "client")]
        step, victim = chance.randrange(1, len(expected) * 2 // 3), number // 2 % 2
        got = [take(client, step) for client in clients]
        if number % 2:
            kill(clients[victim])
            clients[victim], got[victim] = cluster.start_client(victim, ("servers", "client")[victim]), []
        else:
            kill(cluster.servers[victim])
            cluster.servers[victim] = cluster.start_server(victim)
            wait_until_it_serves(cluster.servers[victim])
        for client, before in zip(clients, got, strict=True):
            assert before + take_all(client) == expected, (number, step, victim)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param({"delay": 0.2}, marks=pytest.mark.soak),
        pytest.param({"loss": 0.05}, marks=pytest.mark.soak),
        {"delay": 0.05, "loss": 0.02},
    ],
    ids=str,
)
def test_slow_and_lossy_networks_give_the_same_batches(network, folders, expected, trouble):
    network[0].shape(**trouble)
    cluster = Cluster(network, folders[2], 2)
    clients = [cluster.start_client(0, "servers", epochs=1), cluster.start_client(1, "client", epochs=1)]
    for client in clients:
        assert take_all(client) == expected[: len(expected) // EPOCHS]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("cut", [0, 2], ids=["server", "client"])
def test_a_cut_that_heals_gives_the_same_batches(network, folders, expected, cut):
    cluster = Cluster(network, folders[2], 2)
    clients = [cluster.start_client(0, "servers"), cluster.start_client(0, "client")]
    got = [take(client, 20) for client in clients]
    network[cut].cut()
    for client in clients:  # from now on they take what comes
        assert client.stdin is not None
        client.stdin.write("\n" * len(expected))
        client.stdin.flush()
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


@pytest.mark.timeout(240)
def test_a_peer_that_never_answers_is_named_at_the_deadline(network, folders):
    home, other = network[:2]
    silent = home.start("-c", SILENT, home.address, PORT)
    assert silent.stdout is not None
    assert silent.stdout.readline() == "listens\n"
    client = other.start(CLIENT, f"{home.address}:{PORT}", 1, "servers", 3.0, env=SECRET)
    _, err = client.communicate(timeout=40)
    assert client.returncode == 1
    assert "halohop.errors.PeerLostError: " in err
    assert f"peer 'server 0' at tcp://{home.address}:{PORT}" in err


@pytest.mark.timeout(240)
@pytest.mark.parametrize("sampling", ["servers", "client"])
def test_a_stopped_server_is_stood_in_for(network, folders, expected, sampling):
    """The first and the third have the same partition. The first, which is asked, stops with all its connections open."""
    cluster = Cluster(network, folders[2], 3)
    assert cluster.share(0) == cluster.share(2)
    client = cluster.start_client(0, sampling)
    got = take(client, 10)
    cluster.servers[0].send_signal(signal.SIGSTOP)
    assert got + take_all(client) == expected


@pytest.mark.timeout(240)
def test_a_stopped_server_without_a_stand_in_is_named(network, folders):
    cluster = Cluster(network, folders[2], 2)
    client = cluster.start_client(0, "client", seconds=20.0)
    take(client, 10)
    cluster.servers[1].send_signal(signal.SIGSTOP)
    _, err = client.communicate(timeout=60)
    assert client.returncode == 1
    assert "server 1" in err
    assert cluster.addresses[1] in err


@pytest.mark.timeout(240)
@pytest.mark.parametrize("alive", [True, False], ids=["mid-epoch", "waiting for a dead server"])
@pytest.mark.parametrize("sampling", ["servers", "client"])
def test_ctrl_c_ends_a_trainer(network, folders, alive, sampling):
    cluster = Cluster(network, folders[2], 2)
    client = cluster.start_client(0, sampling)
    take(client, 10)
    if not alive:
        kill(cluster.servers[0])
        assert client.stdin is not None
        client.stdin.write("\n" * 40)
        client.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(3)
    client.send_signal(signal.SIGINT)
    assert client.wait(ENDS_WITHIN) == -signal.SIGINT, client.communicate(timeout=20)[1]  # what a shell calls 130
    assert not cluster.others[0].process_ids()
    assert_no_shared_memory(client)


@pytest.mark.timeout(240)
def test_ctrl_c_ends_a_trainer_that_waits_for_servers_to_start(network):
    program = "import halohop, sys; connect = halohop.connect; print(flush=True); connect(sys.argv[1:])"
    client = network[0].start("-c", program, f"{network[1].address}:{PORT}", env=SECRET)
    assert client.stdout is not None
    client.stdout.readline()
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(3)
    client.send_signal(signal.SIGINT)
    assert client.wait(ENDS_WITHIN) == -signal.SIGINT, client.communicate(timeout=20)[1]
    assert not network[0].process_ids()


@pytest.mark.timeout(240)
def test_ctrl_c_ends_a_server_that_waits_for_a_dead_peer(network, folders):
    cluster = Cluster(network, folders[2], 2)
    client = cluster.start_client(0, "servers")
    take(client, 10)
    kill(cluster.servers[0])
    assert client.stdin is not None
    client.stdin.write("\n" * 40)
    client.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        client.wait(3)
    server = cluster.servers[1]
    server.send_signal(signal.SIGINT)
    assert server.wait(ENDS_WITHIN) == 130, server.communicate(timeout=20)[1]
    assert not cluster.homes[1].process_ids()
    assert_no_shared_memory(server)


def assert_no_shared_memory(process: Process) -> None:
    assert not list(Path("/dev/shm").glob(f"halohop_{process.pid}_*"))
