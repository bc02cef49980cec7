"""Jobs on a real Slurm: a controller and three nodes in network namespaces."""

import json
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.deadlines import within
from tests.support.pages import section
from tests.support.slurm import Cluster

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.xdist_group("alone")]

TRAIN = {"epochs": 30, "batch_size": 32, "save_every": 1, "eval_every": 30, "fanout": "5,5"}


class Launch:
    """`halohop launch` on the login host, with a job file of its own."""

    def __init__(self, cluster: Cluster, folder: Path, parts: Path) -> None:
        self.cluster, self.folder, self.parts = cluster, folder, parts

    def file(self, name: str, **given: Any) -> Path:
        """A job file; its run folder is called like it, with a blank."""
        options = {"time": 30, "mem": "1000M"} | given.pop("slurm", {})
        values = {
            "engine": "slurm",
            "hosts": 2,
            "data": str(self.parts),
            "out": str(self.out(name)),
            "env": {"OMP_NUM_THREADS": "1"},
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(values | given | {"slurm": options}))  # JSON is YAML
        return path

    def out(self, name: str) -> Path:
        return self.folder / f"run {name}"

    def command(self, name: str, *more: str, **given: Any) -> list[object]:
        return [sys.executable, "-m", "halohop", "launch", "--config", self.file(name, **given), *more]

    def submit(self, name: str, **given: Any) -> str:
        """Submits a job; returns its number."""
        done = self.cluster.run(*self.command(name, **given), cwd=self.folder)
        return next(line for line in done.stderr.splitlines() if line.startswith("job ")).split()[1]

    def log(self, name: str) -> str:
        """What the batch script has printed."""
        return "".join(file.read_text() for file in (self.out(name) / "logs").glob("slurm-*.log"))

    def events(self, name: str) -> list[dict[str, Any]]:
        path = self.out(name) / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def losses(self, name: str) -> list[float]:
        return [event["loss"] for event in self.events(name) if event["event"] == "epoch"]

    def reaches(self, name: str, epochs: int) -> None:
        """Waits until a run has finished so many epochs."""
        until(lambda: len(self.losses(name)) >= epochs, f"{epochs} epochs of {name}: {self.log(name)}")


def until(done: Callable[[], bool], what: str | Callable[[], str], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + within(seconds)
    while not done():
        assert time.monotonic() < deadline, f"this did not come: {what() if callable(what) else what}"
        threading.Event().wait(0.05)


@pytest.fixture
def launch(cluster: Cluster, tmp_path: Path, parts: Path) -> Iterator[Launch]:
    yield Launch(cluster, tmp_path, parts)
    cluster.run("scancel", "--user=root")
    until(lambda: not cluster.processes(), lambda: f"all processes end: {cluster.processes()}")


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster, parts: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of the epochs of a run that nothing disturbs, from the script that is printed."""
    launch = Launch(cluster, tmp_path_factory.mktemp("undisturbed"), parts)
    printed = cluster.run(*launch.command("calm", "--print", train=TRAIN), cwd=launch.folder).stdout
    (launch.folder / "job.sh").write_text(printed)
    (launch.out("calm") / "logs").mkdir(parents=True)
    number = cluster.run("sbatch", "--parsable", launch.folder / "job.sh").stdout.strip()
    assert cluster.wait(number)["ExitCode"] == "0:0", launch.log("calm")
    assert launch.log("calm").endswith("halohop: done\n")
    losses = launch.losses("calm")
    assert len(losses) == TRAIN["epochs"]
    return losses


def test_servers_with_copied_partitions_give_the_same_losses(launch: Launch, undisturbed: list[float]) -> None:
    cache = str(launch.folder / "disk of {host}")
    number = launch.submit("served", train=TRAIN, servers={"count": 2}, cache=cache, slurm={"cpus_per_task": 1})
    assert launch.cluster.wait(number)["JobState"] == "COMPLETED", launch.log("served")
    assert launch.losses("served") == pytest.approx(undisturbed, rel=1e-6)
    for node, mine in (("node1", {"part-0000", "part-0002"}), ("node2", {"part-0001", "part-0003"})):
        (copied,) = (launch.folder / f"disk of {node}").iterdir()
        assert {path.name for path in copied.glob("part-*")} == mine
    until(lambda: not launch.cluster.processes(), "servers end with the job")
    assert "terminated" in (launch.out("served") / "logs" / "node1-server-0.log").read_text()


def test_a_job_that_is_queued_again_in_mid_epoch_goes_on(launch: Launch, undisturbed: list[float]) -> None:
    number = launch.submit("again", train=TRAIN)
    launch.reaches("again", 2)
    launch.cluster.run("scontrol", "requeue", number)
    job = launch.cluster.wait(number, "COMPLETED")
    assert job["Restarts"] == "1"
    assert launch.losses("again") == pytest.approx(undisturbed, rel=1e-6)
    assert [event["event"] for event in launch.events("again")].count("resume") == 1


def test_before_its_time_limit_a_job_saves_and_goes_on(launch: Launch, undisturbed: list[float]) -> None:
    """Slurm's own signal comes to whole minutes only, so the test sends it."""
    number = launch.submit("limit", train=TRAIN | {"save_every": 0})
    launch.reaches("limit", 2)
    launch.cluster.run("scancel", "--batch", "--signal=USR1", number)
    job = launch.cluster.wait(number, "COMPLETED")
    assert job["Restarts"] == "1"
    assert "the time is nearly over; all ranks save where they stand" in launch.log("limit")
    assert launch.losses("limit") == pytest.approx(undisturbed, rel=1e-6)


def test_a_job_whose_node_is_lost_goes_on_elsewhere(launch: Launch, undisturbed: list[float]) -> None:
    """Rank 0 fails at once, long before Slurm sees what has happened."""
    number = launch.submit("lost", train=TRAIN)
    launch.reaches("lost", 2)
    launch.cluster.kill_node("node2")
    job = launch.cluster.wait(number, "COMPLETED", seconds=300)
    launch.cluster.start_node("node2")
    assert job["Restarts"] == "1"
    assert job["NodeList"] == "node[1,3]"
    assert launch.losses("lost") == pytest.approx(undisturbed, rel=1e-6)


def test_a_job_that_is_cancelled_leaves_nothing(launch: Launch) -> None:
    before = set(Path("/dev/shm").iterdir())
    number = launch.submit("cancelled", train=TRAIN | {"epochs": 100_000}, servers={"count": 2})
    launch.reaches("cancelled", 1)
    launch.cluster.run("scancel", number)
    assert launch.cluster.wait(number)["JobState"] == "CANCELLED"
    until(lambda: not launch.cluster.processes(), lambda: f"all processes end: {launch.cluster.processes()}", seconds=20)
    assert set(Path("/dev/shm").iterdir()) <= before
    assert launch.cluster.job(number)["Restarts"] == "0"


SCRIPT = """
import os, signal, sys, time
import halohop
world = halohop.World.from_env()
if sys.argv[1] == "fail" and world.rank == 1:
    sys.exit("there is no such column")
if sys.argv[1] == "again" and "SLURM_RESTART_COUNT" not in os.environ:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    print("first turn", world, flush=True)
if sys.argv[1] == "again" and "SLURM_RESTART_COUNT" in os.environ:
    print("second turn", sys.argv[2])
    sys.exit()
time.sleep(600)
"""


def test_the_first_failure_of_a_job_is_named(launch: Launch) -> None:
    (launch.folder / "train.py").write_text(SCRIPT)
    done = launch.cluster.run(*launch.command("fail", "--wait", run="train.py fail"), cwd=launch.folder, check=False)
    log = launch.out("fail") / "logs" / "node2-rank-1.log"
    assert done.returncode == 1
    assert re.search(
        rf"rank 1 \(node2, process \d+\) failed with exit code 1; the end of {log}:\n +there is no such column", done.stderr
    )


def test_a_script_of_ones_own_is_queued_again(launch: Launch) -> None:
    (launch.folder / "train.py").write_text(SCRIPT)
    number = launch.submit("own", run=["train.py", "again", "it's $HOME\n"])
    until(lambda: "first turn" in launch.log("own"), "the script begins")
    launch.cluster.run("scancel", "--batch", "--signal=USR1", number)
    assert launch.cluster.wait(number, "COMPLETED")["Restarts"] == "1"
    assert launch.log("own").endswith("second turn it's $HOME\n\nhalohop: done\n")


def test_ctrl_c_cancels_a_job_that_is_waited_for(launch: Launch) -> None:
    (launch.folder / "train.py").write_text(SCRIPT)
    waiting = launch.cluster.start(*launch.command("wait", "--wait", run="train.py stay"), cwd=launch.folder)
    until(lambda: bool(launch.cluster.processes()) and (launch.out("wait") / "logs" / "node1-rank-0.log").exists(), "it runs")
    (inside,) = launch.cluster.login.process_ids() & children(waiting.pid)
    os.kill(inside, signal.SIGINT)
    _, errors = waiting.communicate(timeout=within(30))
    assert waiting.returncode == 130, errors
    assert "is cancelled" in errors
    until(lambda: not launch.cluster.processes(), lambda: f"all processes end: {launch.cluster.processes()}", seconds=20)


def children(pid: int) -> set[int]:
    """This process (`ip netns exec` becomes the command) and its children."""
    return {pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())}


def test_the_commands_of_the_page_work(launch: Launch) -> None:
    """In their order: files are written, `sh` and `console` run on the login host."""
    page = section("deploy/clusters.md", "Slurm")
    blocks = re.findall(r"^```(\S+) ?([^\n]*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    commands, path = 0, {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # as in an activated environment
    for language, name, text in blocks:
        if name:
            (launch.folder / name).write_text(text)
        elif language in ("sh", "console"):
            commands += 1
            launch.cluster.run("sh", "-ec", text, cwd=launch.folder, env=path)
    assert commands == 3
    again = "rm -r runs/first; mkdir -p runs/first/logs; sbatch --wait job.sh"
    launch.cluster.run("sh", "-ec", again, cwd=launch.folder, env=path)
    for name in ("first", "second"):
        (log,) = (launch.folder / "runs" / name / "logs").glob("slurm-*.log")
        assert log.read_text().endswith("halohop: done\n")


def test_what_slurm_refuses(launch: Launch) -> None:
    (launch.folder / "train.py").touch()
    done = launch.cluster.run(
        *launch.command("refused", run="train.py", slurm={"partition": "gpu"}), cwd=launch.folder, check=False
    )
    assert done.returncode == 2
    assert "invalid partition specified: gpu" in done.stderr
    done = launch.cluster.run(*launch.command("nodes", run="train.py", hosts=["node1", "nodex"]), cwd=launch.folder, check=False)
    assert done.returncode == 2
    assert "Invalid node name" in done.stderr


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_kills(launch: Launch, undisturbed: list[float]) -> None:
    """Any process of a job may be killed at any moment: the job fails and names it, or goes on to the same losses.

    Slurm's own daemons are not killed: without its slurmstepd a task's end is not reported, and Slurm waits for its time limit.
    """
    for seed in range(20):
        draw, name = random.Random(seed), f"kill{seed}"
        number = launch.submit(name, train=TRAIN, servers={"count": 2})
        launch.cluster.wait(number, "RUNNING", "COMPLETED")
        threading.Event().wait(draw.uniform(0.0, 20.0))
        running = sorted((pid, line) for pid, line in launch.cluster.processes().items() if not line.startswith("slurmstepd"))
        if running:
            victim, line = draw.choice(running)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        else:
            line = "nothing"
        state = launch.cluster.wait(number, seconds=240)["JobState"]
        print(seed, line[:100], state)
        if state == "COMPLETED":
            assert launch.losses(name) == pytest.approx(undisturbed, rel=1e-6), line
        until(lambda: not launch.cluster.processes(), f"all processes end after {line} was killed")
