"""The commands of GLT's example in server-client mode: two nodes with a server, and two nodes with two clients each."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import halohop
from halohop.testing.worlds import environment, free_addresses
from tests.support.deadlines import within
from tests.support.glt_documents import clone, command, easy, write_products

ENV = {"OMP_NUM_THREADS": "1"}
Node = subprocess.Popen[str]


def start(folder: Path, script: str, **options: object) -> Node:
    pipe = subprocess.PIPE
    words = command(script, **options)
    return subprocess.Popen(words, cwd=folder, stdout=pipe, stderr=pipe, text=True, env=environment() | ENV)


def start_all(folder: Path, **options: object) -> list[Node]:
    """The servers' nodes, then the clients'."""
    names = ("server_client_master_port", "training_pg_master_port", "train_loader_master_port", "test_loader_master_port")
    ports = dict(zip(names, (address.split(":")[1] for address in free_addresses(4)), strict=True))
    port = {names[0]: ports[names[0]]}
    here = folder / "server_client_mode"
    servers = [start(here, "server.py", node_rank=rank, master_addr="localhost", **port) for rank in range(2)]
    return servers + [start(here, "client.py", node_rank=rank, master_addr="localhost", **ports, **options) for rank in range(2)]


def end(nodes: list[Node], seconds: float) -> list[tuple[int, str, str]]:
    """Exit codes, and what nodes have written to standard output and error; none outlives this."""
    try:
        said = [node.communicate(timeout=seconds) for node in nodes]
        return [(node.returncode, out, err) for node, (out, err) in zip(nodes, said, strict=True)]
    finally:
        for node in nodes:
            node.kill()
            node.communicate(timeout=60)


def children(node: Node) -> list[int]:
    """The processes that `mp.spawn` has started, in the order of their ranks."""
    pids = [int(pid) for pid in Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()]
    return sorted(pid for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())


@pytest.mark.full
@pytest.mark.timeout(900)
def test_accuracy_is_that_of_halohop_train(tmp_path):
    """Loss falls on all clients, and the same model from the same partitions comes within a point after as many epochs."""
    made = easy(3000)
    write_products(tmp_path / "data", made)
    halohop.partition(made, tmp_path / "parts", num_parts=2, method="random")
    found = end(start_all(clone(tmp_path), epochs=5, batch_size=64, out_channel=8), within(240))
    assert [code for code, _, _ in found] == [0] * 4, found
    assert "Traceback" not in "".join(err for _, _, err in found)
    assert sorted(re.findall(r"\[Server (\d)\] Exited", found[0][1] + found[1][1])) == ["0", "1"]
    printed = found[2][1] + found[3][1]
    for rank in range(4):
        losses = [float(loss) for loss in re.findall(rf"\[Client {rank}\] Epoch: \d+, Loss: (\d+\.\d+)", printed)]
        assert len(losses) == 5
        assert losses[-1] < 0.5 * losses[0]
    (accuracy,) = {last_of(printed, rank) for rank in range(4)}
    model = ["--model", "sage", "--fanout", "15,10,5", "--hidden", "256", "--dropout", "0", "--lr", "0.01", "--batch-size", "64"]
    run = ["--epochs", "5", "--patience", "0", "--nodes", "2", "--trainers", "2", "--out", tmp_path / "run", "--json"]
    train = [sys.executable, "-m", "halohop", "train", tmp_path / "parts", *model, *run]
    done = subprocess.run([*map(str, train)], capture_output=True, text=True, timeout=within(240), env=environment() | ENV)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    tested = [event["accuracy"] for event in events if event["event"] == "evaluation" and event["split"] == "test"][-1]
    assert tested > 0.9
    assert accuracy == pytest.approx(tested, abs=0.01)


def last_of(printed: str, rank: int) -> float:
    """The last test accuracy that a client has printed."""
    return float(re.findall(rf"\[Client {rank}\] Test Accuracy: (\d\.\d+)", printed)[-1])


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("victim", ["server", "client"])
def test_a_process_that_is_killed(victim, tmp_path):
    """All clients end with an error that says what is lost; the servers that are left end after them; nothing stays."""
    write_products(tmp_path / "data", easy(600))
    nodes = start_all(clone(tmp_path), epochs=1000, batch_size=16, out_channel=8)
    try:
        for node in nodes[2:]:
            assert node.stdout is not None
            while "Epoch: 001" not in node.stdout.readline():
                assert node.poll() is None
        pids = [children(node) for node in nodes]
        assert [len(each) for each in pids] == [1, 1, 2, 2]
        os.kill(pids[1 if victim == "server" else 3][0], signal.SIGKILL)
        found = end(nodes, within(200))
    finally:
        for node in nodes:
            node.kill()
            node.communicate(timeout=60)
    codes, errors = [code for code, _, _ in found], [err for _, _, err in found]
    assert [code != 0 for code in codes] == ([False, True, True, True] if victim == "server" else [False, False, True, True])
    assert "SIGKILL" in errors[1 if victim == "server" else 3]
    if victim == "server":
        assert all("PeerLostError" in err and "server 0' at tcp://localhost" in err for err in errors[2:]), errors
    assert [Path(f"/proc/{pid}").exists() for each in pids for pid in each] == [False] * 6
