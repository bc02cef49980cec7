"""The commands of GLT's documents in worker mode: two nodes with two trainers each, on one machine and on two hosts."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import halohop
from halohop.testing.worlds import environment, free_addresses
from tests.support import hosts
from tests.support.deadlines import within
from tests.support.glt_documents import RESULTS, clone, command, easy, results, write_products
from tests.support.ogb_files import write_ogb

SCRIPT = "dist_train_sage_supervised.py"
ENV = {"OMP_NUM_THREADS": "1"}


def ports() -> dict[str, object]:
    """Three that nothing listens at."""
    names = ("training_pg_master_port", "train_loader_master_port", "test_loader_master_port")
    return dict(zip(names, (address.split(":")[1] for address in free_addresses(3)), strict=True))


def start(folder: Path, **options: object) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command(SCRIPT, **options), cwd=folder, stdout=pipe, stderr=pipe, text=True, env=environment() | ENV)


def end(nodes: list[subprocess.Popen[str]], seconds: float) -> list[tuple[int, str]]:
    """Exit codes, and what nodes have written to standard error; none outlives this."""
    try:
        said = [node.communicate(timeout=seconds)[1] for node in nodes]
        return [(node.returncode, err) for node, err in zip(nodes, said, strict=True)]
    finally:
        for node in nodes:
            node.kill()
            node.communicate(timeout=60)


@pytest.mark.timeout(240)
@pytest.mark.full
def test_two_nodes_on_one_machine(tmp_path):
    """Loss falls, the results file has a whole line of every trainer and epoch, and the nodes end well."""
    write_products(tmp_path / "data", easy(400))
    folder = clone(tmp_path)
    options = {"num_nodes": 2, "master_addr": "localhost", "epochs": 3, "batch_size": 32, **ports()}
    found = end([start(folder, **options, node_rank=rank) for rank in range(2)], within(60))
    assert [code for code, _ in found] == [0, 0], found
    losses, accuracy = results(folder / RESULTS)
    assert {rank: len(of_rank) for rank, of_rank in losses.items()} == dict.fromkeys(range(4), 3)
    assert sum(of_rank[-1] for of_rank in losses.values()) < 0.9 * sum(of_rank[0] for of_rank in losses.values())
    assert len(set(accuracy.values())) == 1
    assert set(accuracy) == set(range(4))
    assert "Traceback" not in "".join(err for _, err in found)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_documents_from_the_raw_files(tmp_path):
    """OGB's files are divided by one command, whose folders and defaults are those that the next one reads; seeds are odd."""
    folder = clone(tmp_path)
    write_ogb(tmp_path / "data" / "ogbn-products", num_nodes=705, num_classes=4)
    divide = command("partition_ogbn_dataset.py", dataset="ogbn-products", num_partitions=2)
    done = subprocess.run(divide, cwd=folder, capture_output=True, text=True, timeout=within(90), env=environment() | ENV)
    assert done.returncode == 0, done.stderr
    options = {"num_nodes": 2, "master_addr": "localhost", "epochs": 3, "batch_size": 35, **ports()}
    found = end([start(folder, **options, node_rank=rank) for rank in range(2)], within(90))
    assert [code for code, _ in found] == [0, 0], found
    losses, accuracy = results(folder / RESULTS)
    assert [len(of_rank) for of_rank in losses.values()] == [3] * 4
    assert sum(of_rank[-1] for of_rank in losses.values()) < 0.9 * sum(of_rank[0] for of_rank in losses.values())
    assert accuracy[0] > 0.5  # of four classes


@pytest.mark.full
@pytest.mark.timeout(900)
def test_accuracy_is_that_of_halohop_train(tmp_path):
    """As many epochs of the same model, from the same partitions, come within a point of each other."""
    made = easy(3000)
    write_products(tmp_path / "data", made)
    halohop.partition(made, tmp_path / "parts", num_parts=2, method="random")
    folder = clone(tmp_path)
    options = {"num_nodes": 2, "master_addr": "localhost", "epochs": 8, "batch_size": 64, "out_channel": 8, **ports()}
    found = end([start(folder, **options, node_rank=rank) for rank in range(2)], within(240))
    assert [code for code, _ in found] == [0, 0], found
    _, accuracy = results(folder / RESULTS)
    model = ["--model", "sage", "--fanout", "15,10,5", "--hidden", "256", "--dropout", "0", "--lr", "0.01", "--batch-size", "64"]
    run = ["--epochs", "8", "--patience", "0", "--nodes", "2", "--trainers", "2", "--out", tmp_path / "run", "--json"]
    train = [sys.executable, "-m", "halohop", "train", tmp_path / "parts", *model, *run]
    done = subprocess.run([*map(str, train)], capture_output=True, text=True, timeout=within(240), env=environment() | ENV)
    assert done.returncode == 0, done.stderr
    (tested,) = [event["test_accuracy"] for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "end"]
    assert tested > 0.9
    assert accuracy[0] == pytest.approx(tested, abs=0.01)


@pytest.fixture
def two_hosts():
    try:
        with hosts.joined(2, "gw") as joined:
            yield joined
    except (FileNotFoundError, PermissionError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces need root and iproute2: {error}")


def on_two_hosts(two_hosts, tmp_path: Path, **options: object) -> list[subprocess.Popen[str]]:
    """Each has the files of its own partition only; ports are those of the documents."""
    write_products(tmp_path / "data", easy(600))
    nodes = []
    for rank, host in enumerate(two_hosts):
        own = tmp_path / f"host{rank}"
        others = shutil.ignore_patterns(f"part-000{1 - rank}", f"partition{1 - rank}.pt")
        shutil.copytree(tmp_path / "data", own / "data", ignore=others)
        _, script, *words = command(SCRIPT, num_nodes=2, node_rank=rank, master_addr=two_hosts[0].address, **options)
        env = environment() | ENV | {"GLOO_SOCKET_IFNAME": "eth0"}
        nodes.append(host.start(clone(own) / script, *words, env=env))
    return nodes


@pytest.mark.full
@pytest.mark.timeout(600)
def test_two_hosts_with_a_partition_each(two_hosts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = end(on_two_hosts(two_hosts, tmp_path, epochs=3, batch_size=32), within(120))
    assert [code for code, _ in found] == [0, 0], found
    losses, accuracy = results(tmp_path / RESULTS)
    assert {rank: len(of_rank) for rank, of_rank in losses.items()} == dict.fromkeys(range(4), 3)
    assert sum(of_rank[-1] for of_rank in losses.values()) < sum(of_rank[0] for of_rank in losses.values())
    assert len(set(accuracy.values())) == 1
    assert [host.process_ids() for host in two_hosts] == [set(), set()]


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("victim", [1, 2, 3])
def test_a_trainer_that_is_killed(victim, tmp_path):
    """All others end with an error that says what is lost, within the deadline of 15 s, and leave nothing behind."""
    write_products(tmp_path / "data", easy(600))
    folder = clone(tmp_path)
    program = (folder / SCRIPT).read_text()
    assert "pin_memory=True," in program
    (folder / SCRIPT).write_text(program.replace("pin_memory=True,", "pin_memory=True, rpc_timeout=15,"))
    options = {"num_nodes": 2, "master_addr": "localhost", "epochs": 1000, "batch_size": 16, **ports()}
    nodes = [start(folder, **options, node_rank=rank) for rank in range(2)]
    try:
        for node in nodes:
            assert node.stdout is not None
            while "Epoch: 001" not in node.stdout.readline():
                assert node.poll() is None
        children = [trainers(node.pid) for node in nodes]
        assert [len(pids) for pids in children] == [2, 2]
        os.kill(children[victim // 2][victim % 2], signal.SIGKILL)
        found = end(nodes, within(30))
    finally:
        for node in nodes:
            node.kill()
            node.communicate(timeout=60)
    assert [code != 0 for code, _ in found] == [True, True]
    for rank, (_, err) in enumerate(found):
        named = "SIGKILL" if rank == victim // 2 else r"PeerLostError|(closed|reset) by peer"  # of halohop, or of gloo
        assert re.search(named, err), err
    assert [Path(f"/proc/{pid}").exists() for pids in children for pid in pids] == [False] * 4


def trainers(launcher: int) -> list[int]:
    """The processes that `mp.spawn` has started, in the order of their ranks."""
    pids = [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]
    return sorted(pid for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes())
