"""DGL's guide to distributed training, as its users start it: copied to two hosts with ssh servers, and launched there."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import halohop
import halohop.dgl as dgl
from halohop.datasets.sources import load_source
from halohop.recipes.config import TrainConfig
from halohop.recipes.train import train
from halohop.store.tables import GraphTables
from halohop.world import World
from tests.launch.jobs.ssh.test_dgl_hosts import Hosts, ended

pytestmark = [pytest.mark.timeout(400), pytest.mark.full, pytest.mark.data]

EXAMPLES = Path(__file__).parents[4] / "examples" / "dgl"
README = EXAMPLES / "README.md"
OPTIONS = "--num_hidden 64 --fan_out 10,10 --lr 0.01 --batch_size 64"


@pytest.fixture(scope="module")
def tables(pyg_root: Path) -> GraphTables:
    """Co-purchases of 7,650 products."""
    return load_source(f"pyg:Amazon/Photo?root={pyg_root}", normalize=True)


@pytest.fixture(scope="module")
def photo(tables: GraphTables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions, as `partition_graph` writes them."""
    (nodes,), (edges,) = tables.nodes.values(), tables.edges.values()
    g = dgl.graph((edges.src.long(), edges.dst.long()), num_nodes=nodes.num_nodes)
    for name, rows in nodes.columns.items():
        g.ndata[{"x": "feat", "y": "label"}.get(name, name)] = rows
    folder = tmp_path_factory.mktemp("photo") / "data"
    dgl.distributed.partition_graph(g, "graph", 2, str(folder), part_method="metis")
    return folder


@pytest.fixture(scope="module")
def recipe(tables: GraphTables, tmp_path_factory: pytest.TempPathFactory) -> float:
    """The accuracy of the recipe with PyG's model, in one process."""
    folder = tmp_path_factory.mktemp("recipe")
    halohop.partition(tables, folder / "parts", num_parts=2, method="metis")
    config = TrainConfig(parts=str(folder / "parts"), out=str(folder / "run"), fanout=(10, 10), epochs=15)
    accuracy: float = train(config, world=World())["test_accuracy"]
    return accuracy


@pytest.fixture
def hosts(launches, photo: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Two hosts that have their partitions and the scripts, copied by the README's command in its folder."""
    made = Hosts(launches, photo, scripts=EXAMPLES)
    shutil.copytree(photo, made.scripts / "data")
    monkeypatch.chdir(made.scripts)
    code, _, err = ended(made.start(*command("copy_files", made.workspace), "--out", launches.folder / "copied"))
    assert code == 0, err
    yield made
    made.clear()


def command(name: str, workspace: Path) -> list[str]:
    """The words of a command of the README that begins so, for a workspace."""
    text = README.read_text().replace("\\\n", " ").replace("~/dgl", str(workspace))
    (found,) = [line for line in text.splitlines() if line.startswith(f"python -m halohop.dgl.{name} --")]
    return shlex.split(found)[2:]


def launched(hosts: Hosts, *more: object, script: str) -> subprocess.Popen[str]:
    """The README's job, with further options, and further ones of the script."""
    *words, run = command("launch", hosts.workspace)
    return hosts.start(*words, "--out", hosts.launches.folder / "run", *more, f"{run} {OPTIONS} {script}")


@pytest.mark.parametrize("servers", [0, 1])
def test_the_guides_script_learns_on_two_hosts_what_the_recipe_learns(hosts: Hosts, recipe: float, servers: int) -> None:
    code, out, err = ended(launched(hosts, "--num_servers", servers, script="--num_epochs 15"), 300)
    assert code == 0, err
    found = re.search(r"test accuracy (0\.\d+)$", out, re.MULTILINE)
    assert found is not None
    assert float(found[1]) == pytest.approx(recipe, abs=0.01)
    assert hosts.launches.gone_within() == []


@pytest.mark.parametrize("servers", [0, 1])
def test_a_rank_that_is_killed_while_it_trains_is_named_and_all_end(hosts: Hosts, servers: int) -> None:
    launcher = launched(hosts, "--num_servers", servers, script="--num_epochs 1000")
    log = hosts.launches.folder / "run" / "logs" / f"{hosts.addresses[1]}-trainers-1.log"
    hosts.launches.wait_for(lambda: log.exists() and "rank 3: epoch 1 " in log.read_text(), launcher)
    os.kill(trainers(hosts, 1)[1], signal.SIGKILL)
    code, _, err = ended(launcher, 30)
    assert code == 1
    assert re.search(rf"trainers 1 \({hosts.addresses[1]}, process \d+\) failed with exit code 1; the end of", err), err
    assert re.search(r"exitcode +: -9 [\s\S]*\bSIGKILL\b", err), err
    assert hosts.launches.gone_within() == []


def trainers(hosts: Hosts, host: int) -> list[int]:
    """The numbers of the processes of a host's ranks, without torchrun's."""
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in hosts.launches.cluster.hosts[host].process_ids()}
    mine = {pid: command for pid, command in commands.items() if b"distributed_sage.py" in command}
    return [pid for pid, command in mine.items() if b"torch.distributed.run" not in command]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of a graph of several types, by the script for it."""
    folder = tmp_path_factory.mktemp("typed") / "data"
    words = ["--dataset", "synthetic-hetero:tiny", "--part_method", "random", "--out", folder]
    subprocess.run([sys.executable, EXAMPLES / "partition.py", *words], check=True, capture_output=True, timeout=100)
    return folder


def test_vectors_are_learned_alike_on_two_hosts_and_on_their_servers(launches, typed: Path) -> None:
    hosts = Hosts(launches, typed, scripts=EXAMPLES)
    try:
        assert ended(hosts.copy())[0] == 0
        run, printed = "python3 scripts/distributed_rgcn.py --ip_config ip_config.txt --num_epochs 2", []
        for servers in (0, 1):
            code, out, err = ended(hosts.launch(run, "--num_servers", servers))
            assert code == 0, err
            printed.append(re.findall(r"epoch \d loss (\d\.\d+)", out))
        assert printed[0] == printed[1]
        first, second = map(float, printed[0])
        assert second < first
        assert launches.gone_within() == []
    finally:
        hosts.clear()
