"""Servers and clients that are killed or stand still: a named error in each survivor in time, or the same batches."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
import torch

import halohop
import halohop.glt as glt
from halohop.loading.seeds import digest
from halohop.net.service import Keeping
from halohop.testing.graphs import ring
from halohop.testing.worlds import environment, free_address
from tests.support import hosts
from tests.support.deadlines import within
from tests.support.forked import forkserver

ROOT = Path(__file__).parents[3]
EPOCHS, SEEDS = 25, 200
LOST_AFTER, WAITS = 10.0, 60.0
"""Seconds for which servers and clients wait for a server: where it does not come back, and where it does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kills")
    halohop.partition(ring(SEEDS), root / "parts", num_parts=2, method="random", edge_dir="out")
    for part in range(2):
        torch.save(torch.arange(part, SEEDS, 2), root / f"seeds{part}.pt")
    return root


def serve(folder: Path, port: int, seconds: float, rank: int, master: str = "localhost", lease: float = 4.0) -> None:
    """A server whose clients are lost after some seconds without a word of them."""
    glt.distributed.dist_server.halohop.serve = partial(halohop.serve, keeping=Keeping(lease_seconds=lease))
    dataset = glt.distributed.DistDataset()
    dataset.load(folder / "parts", rank, graph_mode="CPU")
    glt.distributed.init_server(2, rank, dataset, master, port, num_clients=2, request_timeout=seconds)
    glt.distributed.wait_and_shutdown_server()


def train(folder: Path, port: int, seconds: float, rank: int, out: Path, master: str = "localhost", epochs: int = EPOCHS) -> None:
    """Writes a line for each batch, or the error that ends it."""
    glt.distributed.dist_client.SECONDS_TO_WAIT = seconds
    options = glt.distributed.RemoteDistSamplingWorkerOptions(server_rank=[0, 1], worker_key="train", prefetch_size=1)
    try:
        glt.distributed.init_client(2, 2, rank, master, port)
        files = ["seeds0.pt", "seeds1.pt"]
        loader = glt.distributed.DistNeighborLoader(None, [3, 3], files, 10, shuffle=True, worker_options=options)
        with (out / f"{rank}.txt").open("w", buffering=1) as lines:
            for _ in range(epochs):
                for batch in loader:
                    lines.write(f"{digest(batch.node, batch.batch, batch.edge_index.view(-1))}\n")
        glt.distributed.shutdown_client()
    except BaseException:
        (out / f"{rank}.error").write_text(traceback.format_exc())
        raise


class Run:
    """Two servers and two clients; all of them end with it."""

    def __init__(self, folder: Path, out: Path, *, seconds: float = WAITS) -> None:
        self.out, self.common = out, (folder, int(free_address().split(":")[1]), seconds)
        self.servers = [self.server(rank) for rank in range(2)]
        self.clients = [self._begun(train, rank, out) for rank in range(2)]

    def server(self, rank: int) -> ForkServerProcess:
        return self._begun(serve, rank)

    def _begun(self, work: object, *words: object) -> ForkServerProcess:
        process = forkserver().Process(target=work, args=(*self.common, *words))  # type: ignore[arg-type]
        process.start()
        return process

    def batches(self, rank: int) -> list[str]:
        file = self.out / f"{rank}.txt"
        return file.read_text().split() if file.exists() else []

    def error(self, rank: int) -> str:
        file = self.out / f"{rank}.error"
        return file.read_text() if file.exists() else ""

    def until(self, count: int) -> None:
        """Until a client has had so many batches."""
        end = time.monotonic() + within(40)
        while len(self.batches(0)) < count:
            assert time.monotonic() < end, "no batches"
            assert not self.error(0), self.error(0)
            threading.Event().wait(0.005)

    def codes(self, processes: list[ForkServerProcess], seconds: float) -> list[int | None]:
        end = time.monotonic() + seconds
        for process in processes:
            process.join(max(0.0, end - time.monotonic()))
        return [process.exitcode for process in processes]

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.servers, *self.clients):
            process.kill()
            process.join(30)


@pytest.fixture(scope="module")
def undisturbed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    with Run(folder, tmp_path_factory.mktemp("out")) as run:
        assert run.codes([*run.clients, *run.servers], within(60)) == [0] * 4, (run.error(0), run.error(1))
        return [run.batches(rank) for rank in range(2)]


CASES = ("server_lost", "server_back", "client_lost", "server_stands_still")


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(20))
def test_what_survivors_see(seed, folder, undisturbed, tmp_path):
    chance = random.Random(seed)
    case, victim = CASES[seed % len(CASES)], chance.randrange(2)
    assert [len(batches) for batches in undisturbed] == [EPOCHS * SEEDS // 20] * 2
    with Run(folder, tmp_path, seconds=LOST_AFTER if case == "server_lost" else WAITS) as run:
        run.until(chance.randrange(1, EPOCHS * SEEDS // 40))
        if case == "client_lost":
            run.clients[0].kill()
            assert run.codes(run.clients[1:], within(60)) == [0], run.error(1)
            assert run.batches(1) == undisturbed[1]
            assert run.codes(run.servers, within(15)) == [0, 0]
            return
        server = run.servers[victim]
        assert server.pid is not None
        if case == "server_stands_still":
            os.kill(server.pid, signal.SIGSTOP)
            threading.Event().wait(chance.uniform(0.5, 3))
            os.kill(server.pid, signal.SIGCONT)
        else:
            server.kill()
        if case == "server_back":
            server.join(30)
            threading.Event().wait(chance.uniform(0, 2))
            run.servers[victim] = run.server(victim)
        begun = time.monotonic()
        if case == "server_lost":
            assert run.codes(run.clients, within(2 * LOST_AFTER)) == [1, 1]
            for rank in range(2):
                assert "PeerLostError" in run.error(rank).splitlines()[-1], run.error(rank)
                assert "server " in run.error(rank)
                assert run.batches(rank) == undisturbed[rank][: len(run.batches(rank))]
            assert run.codes([run.servers[1 - victim]], within(15)) == [0]
            return
        assert run.codes(run.clients, within(60)) == [0, 0], (run.error(0), run.error(1), time.monotonic() - begun)
        assert [run.batches(rank) for rank in range(2)] == undisturbed
        assert run.codes(run.servers, within(30)) == [0, 0]


@pytest.fixture
def two_hosts():
    try:
        with hosts.joined(2, "gs") as joined:
            yield joined
    except (FileNotFoundError, PermissionError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces need root and iproute2: {error}")


@pytest.mark.full
@pytest.mark.timeout(400)
@pytest.mark.parametrize("heals", [True, False])
def test_a_link_between_servers_that_is_cut(heals, folder, undisturbed, two_hosts, tmp_path):
    """Server 1 is on a host of its own."""
    near, far = two_hosts
    common = f"Path({str(folder)!r}), 11110, {WAITS if heals else LOST_AFTER}"
    env = environment() | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}

    def begun(host: hosts.Host, call: str) -> "subprocess.Popen[str]":
        names = "from pathlib import Path; from tests.glt.distributed.test_server_kills import serve, train"
        return host.start("-c", f"{names}; {call}", env=env)

    servers = [begun(host, f"serve({common}, {rank}, {near.address!r}, 60.0)") for rank, host in enumerate(two_hosts)]
    clients = [
        begun(near, f"train({common}, {rank}, Path({str(tmp_path)!r}), {near.address!r}, {8 * EPOCHS})") for rank in range(2)
    ]
    lines, end = [tmp_path / f"{rank}.txt" for rank in range(2)], time.monotonic() + within(60)
    while not all(file.exists() and len(file.read_text().split()) >= 20 for file in lines):
        assert time.monotonic() < end, "no batches"
        threading.Event().wait(0.01)
    far.cut()
    assert [client.poll() for client in clients] == [None, None]
    if heals:
        threading.Event().wait(5)
        far.heal()
    for rank, client in enumerate(clients):
        _, err = client.communicate(timeout=within(90))
        assert client.returncode == (0 if heals else 1), err
        made, expected = (tmp_path / f"{rank}.txt").read_text().split(), undisturbed[rank]
        assert made[: len(expected)] == expected[: len(made)]
        if heals:
            assert len(made) == 8 * len(expected)
        else:
            error = (tmp_path / f"{rank}.error").read_text().splitlines()[-1]
            assert re.match(r"halohop\.errors\.\w+Error: ", error), error
            assert f"tcp://{far.address}:" in error, error
    for server in servers[: 2 if heals else 1]:
        _, err = server.communicate(timeout=within(60))
        assert server.returncode == 0, err
