"""`halohop launch --engine ray` on a cluster of three nodes: what the page shows, what is refused, failures, and ends."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, job_of
from halohop.launch.jobs.ray.engine import RayEngine
from tests.support.pages import section
from tests.support.ray_cluster import ROOT, Nodes, gone, until

on_a_cluster = [pytest.mark.full, pytest.mark.timeout(600), pytest.mark.xdist_group("ray")]
PAGE = section("deploy/clusters.md", "Ray")


def block(name: str) -> str:
    """A file that the page shows."""
    found = re.search(rf"^```\w+ {re.escape(name)}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return found[1]


def job(**table: Any) -> Job:
    return job_of({"engine": "ray", "data": "parts", "out": "run", "run": "train.py {graph}", **table}, "job.toml")


# ---- without a cluster


def test_what_would_run_is_shown() -> None:
    """A host has room for its servers beside its trainers."""
    asked = job(hosts=2, trainers=2, servers={"count": 3}, ray={"server_cpus": 2, "trainer_cpus": 0.5})
    expected = {"address": "auto", "strategy": "STRICT_SPREAD", "bundles": [{"CPU": 5.0}, {"CPU": 3.0}]}
    assert json.loads(RayEngine().show(asked)) == expected
    bundles = json.loads(RayEngine().show(job(ray={"trainer_cpus": 0, "trainer_gpus": 1})))["bundles"]
    assert bundles == [{"CPU": 0.001, "GPU": 1.0}]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"hosts": "a,b"}, "Ray chooses the nodes; give a number of hosts"),
        ({"ray": {"adress": "auto"}}, "unknown key 'adress'; did you mean 'address'"),
    ],
)
def test_what_ray_has_no_use_for_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        RayEngine().show(job(**table))
    assert message in str(caught.value)


def test_an_address_without_a_cluster_is_named(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'halohop[ray]'")
    for address in ("127.0.0.1:1", "nonsense"):
        with pytest.raises(InputError, match=f"no cluster of Ray answers at address='{address}'.* `ray start --head`"):
            RayEngine().run(job(out=str(tmp_path), ray={"address": address}), Console(quiet=True))


# ---- on a cluster


@pytest.fixture
def folder(nodes: Nodes, tmp_path: Path, ray_parts: Path) -> Path:
    """The page's folder, in which nothing has run."""
    (tmp_path / "parts").symlink_to(ray_parts)
    for name in ("train.py", "job.toml", "train.toml"):
        (tmp_path / name).write_text(block(name))
    return tmp_path


def launch(nodes: Nodes, folder: Path, *options: str, file: str = "job.toml") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "halohop", "launch", "--config", file, *options],
        cwd=folder,
        env=nodes.env | {"RAY_ADDRESS": nodes.address},
        capture_output=True,
        text=True,
        timeout=400,
    )


@contextmanager
def launching(nodes: Nodes, folder: Path, file: str = "job.toml") -> Iterator[subprocess.Popen[str]]:
    """A launcher that prints to the file `log`, and does not outlive the test."""
    words = [sys.executable, "-m", "halohop", "launch", "--config", file]
    with (folder / "log").open("w") as log:
        env = nodes.env | {"RAY_ADDRESS": nodes.address}
        launcher = subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log, text=True)
    try:
        yield launcher
    finally:
        launcher.kill()
        launcher.wait()


class TestOnACluster:
    pytestmark = on_a_cluster

    def test_the_pages_script(self, nodes: Nodes, folder: Path) -> None:
        done = launch(nodes, folder)
        assert done.returncode == 0, done.stderr
        assert "epoch 2: loss" in done.stdout
        logs = {log.name.partition("-")[2]: log.read_text() for log in folder.glob("runs/ray/logs/*.log")}
        assert {*logs} == {"0-rank-0.log", "0-server-0.log", "1-rank-1.log", "1-server-1.log"}
        assert "epoch 2: loss" in logs["0-rank-0.log"]
        assert "rank 1, epoch 2: loss" in logs["1-rank-1.log"]
        assert "WARNING" not in done.stderr
        nothing_left(nodes)

    def test_the_pages_recipe_goes_on_after_a_kill(self, nodes: Nodes, folder: Path) -> None:
        """Its losses are those of a run that nothing disturbs."""
        job = block("train.toml").replace("epochs = 3", "epochs = 12").replace("save-every = 10", "save-every = 2")
        (folder / "train.toml").write_text(job)
        (folder / "again.toml").write_text(job.replace("runs/recipe", "runs/again"))
        done = launch(nodes, folder, file="train.toml")
        assert done.returncode == 0, done.stderr
        with launching(nodes, folder, "again.toml") as launcher:
            until(lambda: (folder / "runs/again/resume.pt").exists(), 200, "a saved state")
            rank = next(pid for pid in nodes.launched() if "train\0" in Path(f"/proc/{pid}/cmdline").read_text())
            os.kill(rank, signal.SIGKILL)
            code, said = launcher.wait(400), (folder / "log").read_text()
        assert code == 0, said
        assert losses(folder / "runs/again") == losses(folder / "runs/recipe")
        assert "was killed by SIGKILL" in said
        assert "the job starts again (failure 1)" in said

    def test_a_node_that_is_lost_costs_a_restart(self, nodes: Nodes, folder: Path) -> None:
        """All three nodes are hosts, so the second turn waits until there is another node."""
        script = "import threading\nfrom pathlib import Path\nif not Path('over').exists():\n    threading.Event().wait()\n"
        (folder / "train.py").write_text(f"print('begun', flush=True)\n{script}print('done', flush=True)\n")
        job = block("job.toml").replace("[ray]", "[ray]\nmax_failures = 1").replace("hosts = 2", "hosts = 3")
        (folder / "job.toml").write_text(job)
        log = folder / "log"
        with launching(nodes, folder) as launcher:
            until(lambda: "begun" in log.read_text(), 200, "a trainer")
            (folder / "over").touch()
            nodes.ask(f"remove {nodes.ask('nodes')[0]}")
            until(lambda: "the job starts again (failure 1)" in log.read_text(), 100, "a second turn")
            nodes.ask("add")
            assert launcher.wait(300) == 0, log.read_text()
        nothing_left(nodes)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"hosts = 2": "hosts = 4"}, r"4 hosts need 2 CPUs or 1 CPUs, each on a node of its own .* 3 nodes: .* with 4 CPUs"),
            ({"trainer_cpus = 1": "trainer_cpus = 20"}, r"2 hosts need 21 CPUs, each on a node"),
            ({'data = "parts"': 'data = "elsewhere"'}, r"2 of 2 hosts cannot run this job: .*elsewhere has no manifest\.json"),
            ({"train.py": "gone.py"}, r"there is no script .*gone\.py; copy it there"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, changes: dict[str, str], message: str, nodes: Nodes, folder: Path) -> None:
        text = block("job.toml")
        for old, new in changes.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "job.toml").write_text(text)
        done = launch(nodes, folder)
        assert done.returncode == 2
        assert re.search(message, done.stderr.replace("\n", " ")), done.stderr

    def test_the_example(self, nodes: Nodes, tmp_path: Path) -> None:
        example = ROOT / "examples" / "ray_train.py"
        done = subprocess.run(
            [sys.executable, example],
            cwd=tmp_path,
            env=nodes.env | {"RAY_ADDRESS": nodes.address},
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr
        found = re.search(r"step (\d+): loss (\d\.\d+)", done.stdout)
        assert found is not None
        assert float(found[2]) < 1.5


def losses(out: Path) -> list[float]:
    """Of all epochs, from the event log; steps that were done twice are there once."""
    events = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "epoch"]


def nothing_left(nodes: Nodes) -> None:
    gone([*nodes.workers(), *nodes.launched()], 10)
