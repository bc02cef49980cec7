"""`halohop launch --engine ray` on a cluster of three nodes: what the page shows, what is refused, failures, and ends."""

import json
import os
import re
import signal
import subprocess
import sys
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
    shown = RayEngine().show(job(hosts=2, trainers=2, servers={"count": 3}, ray={"server_cpus": 2}))
    assert "3 servers of" in shown
    assert "actors with 2 CPUs, STRICT_SPREAD" in shown
    assert "4 trainers of Ray Train with 1 CPUs and 0 GPUs" in shown
    assert "train.py {graph}" in shown


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"hosts": "a,b"}, "Ray chooses the nodes; give a number of hosts"),
        ({"python": "/usr/bin/python3"}, "run the interpreter that `ray start` was called with; leave it out"),
        ({"ray": {"adress": "auto"}}, "unknown key 'adress'; did you mean 'address'"),
        ({"servers": {"options": {"clients": 3}}}, "unknown key 'clients'"),
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


class TestOnACluster:
    pytestmark = on_a_cluster

    def test_the_pages_script(self, nodes: Nodes, folder: Path) -> None:
        done = launch(nodes, folder)
        assert done.returncode == 0, done.stderr
        assert "epoch 2: loss" in done.stdout
        assert "epoch 2: loss" in next(folder.glob("runs/ray/logs/*-rank-0.log")).read_text()
        assert "rank-1 of 2" in next(folder.glob("runs/ray/logs/*-rank-1.log")).read_text()
        nothing_left(nodes)

    def test_the_pages_recipe_goes_on_after_a_kill(self, nodes: Nodes, folder: Path) -> None:
        """Its losses are those of a run that nothing disturbs."""
        job = block("train.toml").replace("epochs = 3", "epochs = 12").replace("save-every = 10", "save-every = 2")
        (folder / "train.toml").write_text(job)
        (folder / "again.toml").write_text(job.replace("runs/recipe", "runs/again"))
        done = launch(nodes, folder, file="train.toml")
        assert done.returncode == 0, done.stderr
        with (folder / "log").open("w") as log:
            killed = subprocess.Popen(
                [sys.executable, "-m", "halohop", "launch", "--config", "again.toml"],
                cwd=folder,
                env=nodes.env | {"RAY_ADDRESS": nodes.address},
                stderr=log,
            )
        until(lambda: (folder / "runs/again/resume.pt").exists(), 200, "a saved state")
        os.kill(nodes.workers("RayTrainWorker")[0], signal.SIGKILL)
        assert killed.wait(400) == 0, (folder / "log").read_text()
        assert losses(folder / "runs/again") == losses(folder / "runs/recipe")

    @pytest.mark.parametrize(
        ("script", "message"),
        [
            (
                "import halohop\nif halohop.World.detect().rank:\n    halohop.World(rank=5)\n",
                "rank-1 on .*: rank=5 is outside",
            ),
            (
                "import os, halohop\nprint('so far', flush=True)\nif halohop.World.detect().rank:\n    os.kill(os.getpid(), 9)\n"
                "import torch.distributed as dist\ndist.barrier()\n",
                r"rank-1 on .* was killed, or its node is gone; the end of .*rank-1\.log:\n.*so far",
            ),
        ],
    )
    def test_the_first_failure_is_named(self, script: str, message: str, nodes: Nodes, folder: Path) -> None:
        (folder / "train.py").write_text(script)
        (folder / "job.toml").write_text(block("job.toml").replace("[ray]", "[ray]\nmax_failures = 0"))
        done = launch(nodes, folder)
        assert done.returncode != 0
        assert re.search(message, done.stderr, re.DOTALL), done.stderr
        nothing_left(nodes)

    @pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT])
    def test_the_end_of_the_launch_ends_all_of_it(self, kind: signal.Signals, nodes: Nodes, folder: Path) -> None:
        (folder / "train.py").write_text("import threading\nprint('{}', flush=True)\nthreading.Event().wait()\n")
        env = nodes.env | {"RAY_ADDRESS": nodes.address}
        with (folder / "log").open("w") as log:
            running = subprocess.Popen(
                [sys.executable, "-m", "halohop", "launch", "--config", "job.toml"], cwd=folder, env=env, stderr=log
            )
        until(lambda: len([*folder.glob("runs/ray/logs/*rank-*.log")]) == 2, 200, "two trainers")
        pids = nodes.workers()
        running.send_signal(kind)
        gone([running.pid, *pids], 10)
        assert running.wait() == (-signal.SIGKILL if kind is signal.SIGKILL else 130)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"count = 2": "count = 4"}, r"4 servers need 1 CPUs, each on a node of its own .* 3 nodes: .* with 4 CPUs"),
            ({"hosts = 2": "hosts = 20"}, r"20 trainers with 1 CPUs and 0 GPUs each, and 2 servers .* do not fit"),
            ({'data = "parts"': 'data = "elsewhere"'}, r"server-\d on .*: there is no folder .*elsewhere here"),
            ({"train.py": "gone.py"}, r"rank-\d on .*: there is no script gone\.py in .* here"),
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
    gone(nodes.workers(), 10)
