"""The documents' commands with their own scripts, on two hosts with ssh servers and one partition each on their disks."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.jobs.ssh.test_glt_nodes import Nodes
from tests.support.ogb_files import write_ogb

pytestmark = [pytest.mark.timeout(400), pytest.mark.full]

EXAMPLES = Path(__file__).parents[4] / "examples" / "glt"
NAME = "ogbn-products"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder as the documents' first command leaves it."""
    folder = tmp_path_factory.mktemp("products") / NAME
    write_ogb(folder)
    script, root = EXAMPLES / "partition_ogbn_dataset.py", f"--root_dir={os.path.relpath(folder, EXAMPLES)}"
    command = [sys.executable, script, f"--dataset={NAME}", root, "--num_partitions=2"]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    return folder


@pytest.fixture
def nodes(launches, data: Path) -> Nodes:
    """Two nodes with the scripts, and with what each of them needs of the data."""
    made = Nodes(launches)
    for number, script in enumerate(made.scripts):
        shutil.copy(EXAMPLES / "dist_train_sage_supervised.py", script)
        own = script.parents[2] / "data" / NAME
        shutil.rmtree(own)
        shutil.copytree(data, own, ignore=shutil.ignore_patterns("ogbn_products"))
        shutil.rmtree(own / f"{NAME}-partitions" / f"part-000{1 - number}")
        (own / f"{NAME}-train-partitions" / f"partition{1 - number}.pt").unlink()
    return made


def test_two_nodes_train_and_write_all_results(nodes: Nodes) -> None:
    code, out, err = nodes.run(f"--master_addr={nodes.names[0]}", "--epochs=6", "--batch_size=128")
    assert code == 0, err
    for number, script in enumerate(nodes.scripts):
        text = (script / "dist_sage_sup.txt").read_text()
        pattern = r"^-- \[Trainer (\d)\] Epoch: 00(\d), (Loss|Test Accuracy): (\d\.\d{4})"
        found = re.findall(pattern, text, re.MULTILINE)
        assert len(found) == len(text.splitlines()) == 2 * (6 + 2)
        for trainer in (2 * number, 2 * number + 1):
            values = [(int(epoch), what, float(value)) for rank, epoch, what, value in found if int(rank) == trainer]
            losses = [value for _, what, value in values if what == "Loss"]
            assert [epoch for epoch, what, _ in values if what == "Loss"] == [*range(6)]
            assert losses[-1] < losses[0] / 2
            assert {epoch for epoch, what, _ in values if what == "Test Accuracy"} == {4, 5}
        assert f"[{nodes.names[number]}] -- [Trainer {2 * number}] Epoch: 005" in out
    accuracies = set(re.findall(r"Epoch: 005, Test Accuracy: (\S+)", out))
    assert len(accuracies) == 1  # of all trainers together
    assert float(accuracies.pop()) > 0.5
    assert nodes.launches.gone_within() == []


@pytest.mark.parametrize("node", [0, 1])
def test_a_trainer_that_is_killed_ends_all_and_its_node_is_named(nodes: Nodes, node: int) -> None:
    launcher = nodes.start("--epochs=1000")
    results = [script / "dist_sage_sup.txt" for script in nodes.scripts]
    nodes.launches.wait_for(lambda: all(file.exists() for file in results), launcher)
    numbers = nodes.launches.cluster.hosts[node].process_ids()
    trainers = [one for one in numbers if b"multiprocessing.spawn" in Path(f"/proc/{one}/cmdline").read_bytes()]
    os.kill(max(trainers), signal.SIGKILL)
    _, err = launcher.communicate(timeout=100)
    assert launcher.returncode == 1
    assert re.search(rf"error: trainers {node} \({nodes.names[node]}, process \d+\) failed with exit code 1", err), err
    assert "terminated with signal SIGKILL" in err
    assert nodes.launches.gone_within() == []
