"""A job inside of its allocation, of one host that is this machine: its ranks, and all ways in which it may end."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from halohop import partition
from halohop.datasets import synthetic
from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.job import job_of
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.slurm.script import script
from halohop.launch.jobs.slurm.srun import Srun
from halohop.world import World
from tests.support.deadlines import within
from tests.support.slurm_stubs import Stubs

TEXT: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": True}

RECORDER = """
import json, os, pathlib, sys
pathlib.Path(f"rank-{os.environ['RANK']}.json").write_text(json.dumps([sys.argv[1:], dict(os.environ)]))
"""
SAVING = """
import os, pathlib, signal, subprocess, sys, threading
worker = subprocess.Popen(["sleep", "300"])  # as of a DataLoader: a rank that loses it cannot save
if sys.argv[1] != "deaf":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75 if worker.poll() is None else 1))
if sys.argv[1] == "again":
    sys.exit(75 if os.environ["RANK"] == "0" else 0)
print("ready", flush=True)
threading.Event().wait(300)
"""
FAILING = """
import os, signal, sys, threading
if os.environ["RANK"] != "1":
    threading.Event().wait(300)
print("last words", flush=True)
os.kill(os.getpid(), signal.SIGKILL) if sys.argv[1] == "killed" else sys.exit(3)
"""


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    (tmp_path / "stubs").mkdir()
    made = Stubs(tmp_path / "stubs", "localhost")
    made.states("RUNNING")
    return made


@pytest.fixture
def text(tmp_path: Path) -> Callable[..., str]:
    """The batch script of a job that runs this program on two ranks."""

    def write(program: str, *words: str, **given: Any) -> str:
        (tmp_path / "t.py").write_text(program)
        table = {
            "engine": "slurm",
            "out": str(tmp_path / "run"),
            "folder": str(tmp_path),
            "trainers": 2,
            "python": sys.executable,
        }
        return script(job_of({**table, "run": ["t.py", *words], **given}, "job.toml"))

    return write


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "parts"
    partition(synthetic("tiny"), path, num_parts=2)
    return path


def rank(folder: Path, number: int) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment that a rank had."""
    argv, env = json.loads((folder / f"rank-{number}.json").read_text())
    return argv, env


def test_ranks_find_the_environment_of_torchrun_and_one_secret(stubs: Stubs, text: Callable[..., str], tmp_path: Path) -> None:
    code, output = stubs.run(
        text(RECORDER, "it's $HOME", "", "{out}", encrypt=True, env={"A": "b c"}), {"HALOHOP_TOKEN": "user's"}
    )
    assert (code, output.splitlines()[-1]) == (0, "halohop: done")
    ports = set()
    for number in range(2):
        argv, env = rank(tmp_path, number)
        assert argv == ["it's $HOME", "", str(tmp_path / "run")]
        world = World(rank=number, size=2, host=0, num_hosts=1, local_rank=number, local_size=2)
        assert World.from_env(env) == World.detect(env) == world
        assert (env["MASTER_ADDR"], env["HALOHOP_ENCRYPT"], env["A"], env["SLURM_JOB_ID"]) == ("localhost", "1", "b c", "7")
        assert len(env["HALOHOP_TOKEN"]) == 64
        ports.add(env["MASTER_PORT"])
    (port,) = ports
    assert 20000 <= int(port) < 32768
    token = rank(tmp_path, 0)[1]["HALOHOP_TOKEN"]
    assert token == rank(tmp_path, 1)[1]["HALOHOP_TOKEN"]
    written = [file.read_text() for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert not any(token in each for each in (*written, output, (stubs.folder / "job.sh").read_text()))


def test_a_token_that_others_can_read_is_refused(stubs: Stubs, text: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret of at least some length\n")
    (tmp_path / "secret").chmod(0o604)
    code, output = stubs.run(text(RECORDER, token_file=str(tmp_path / "secret")))
    assert code == 2
    assert "others can read" in output
    (tmp_path / "secret").chmod(0o600)
    assert stubs.run(text(RECORDER, token_file=str(tmp_path / "secret")))[0] == 0
    assert rank(tmp_path, 1)[1]["HALOHOP_TOKEN"] == "a secret of at least some length"


def test_servers_get_their_partitions_first_and_end_with_the_trainers(
    stubs: Stubs, text: Callable[..., str], tmp_path: Path, parts: Path
) -> None:
    cache = str(tmp_path / "disk of {host}")
    code, output = stubs.run(text(RECORDER, "{graph}", data=str(parts), cache=cache, servers={"count": 2}))
    assert (code, output.splitlines()[-1]) == (0, "halohop: done"), output
    (copied,) = (tmp_path / "disk of localhost").iterdir()
    assert {path.name for path in copied.glob("part-*")} == {"part-0000", "part-0001"}
    (graph,), _ = rank(tmp_path, 0)
    assert re.fullmatch(r"localhost:[23]\d{4},localhost:[23]\d{4}", graph)
    for number in range(2):
        assert "serving partitions" in (tmp_path / "run" / "logs" / f"localhost-server-{number}.log").read_text()
    assert (tmp_path / "run" / "logs" / "localhost-fetch.log").exists()


@pytest.mark.parametrize(("how", "story"), [("fail", "failed with exit code 3"), ("killed", "was killed by SIGKILL")])
def test_the_first_failure_is_named_with_the_end_of_its_log(
    stubs: Stubs, text: Callable[..., str], tmp_path: Path, how: str, story: str
) -> None:
    code, output = stubs.run(text(FAILING, how))
    log = tmp_path / "run" / "logs" / "localhost-rank-1.log"
    assert code == 1
    assert re.search(rf"halohop: rank 1 \(localhost, process \d+\) {story}; the end of {log}:\n    last words\n", output), output
    assert "scontrol requeue 7" not in stubs.log()


def signalled(stubs: Stubs, text: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """What becomes of a job that gets Slurm's signal before its time limit, when rank 0 has begun."""
    process = stubs.start(text, env)
    assert process.stdout is not None
    before = []
    for line in process.stdout:
        before.append(line)
        if line == "ready\n":
            break
    os.kill(process.pid, signal.SIGUSR1)
    output, _ = process.communicate(timeout=within(40))
    return process.returncode, "".join(before) + output


def test_before_the_time_limit_trainers_save_and_the_job_is_queued_again(stubs: Stubs, text: Callable[..., str]) -> None:
    saving = text(SAVING, "save", slurm={"restarts": 2})
    code, output = signalled(stubs, saving)
    assert code == 0, output
    assert "the time is nearly over; all ranks save where they stand\n" in output
    assert output.endswith("halohop: the job is queued again, to go on where it stands\n")
    assert stubs.log()[-1] == "scontrol requeue 7"
    code, output = signalled(stubs, saving, {"SLURM_RESTART_COUNT": "2"})
    assert code == 75
    assert output.endswith("has been queued again 2 times, which is its limit (restarts=2)\n")
    code, output = stubs.run(saving, {"SLURM_RESTART_COUNT": "3"})  # Slurm itself, where hosts are lost
    assert code == 1
    assert "started again more than 2 times" in output
    assert stubs.log().count("scontrol requeue 7") == 1


def test_trainers_that_do_not_save_fail(stubs: Stubs, text: Callable[..., str]) -> None:
    code, output = signalled(stubs, text(SAVING, "deaf"))
    assert code == 1, output
    assert "was killed by SIGTERM" in output
    assert output.endswith("one that ends with exit code 75 is queued again\n")
    assert "scontrol requeue 7" not in stubs.log()


def test_a_rank_may_ask_for_another_turn_by_itself(stubs: Stubs, text: Callable[..., str]) -> None:
    code, output = stubs.run(text(SAVING, "again"))
    assert code == 0, output
    assert stubs.log()[-1] == "scontrol requeue 7"


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETING"])
def test_a_job_that_is_cancelled_is_not_queued_again(stubs: Stubs, text: Callable[..., str], state: str) -> None:
    stubs.states(state)
    code, output = stubs.run(text(SAVING, "again"))
    assert (code, output.splitlines()[-1]) == (75, f"halohop: the job is {state}")
    assert "scontrol requeue 7" not in stubs.log()


@pytest.mark.parametrize(
    ("number", "program", "said"),
    [(signal.SIGKILL, "deaf", "what starts processes there ended"), (signal.SIGTERM, "save", "host localhost was asked to end")],
)
def test_a_host_that_is_lost_or_must_end_queues_the_job_again(
    stubs: Stubs, text: Callable[..., str], number: int, program: str, said: str
) -> None:
    process = stubs.start(text(SAVING, program))
    assert process.stdout is not None
    assert "ready\n" in iter(process.stdout.readline, "")
    os.kill(int((stubs.folder / "srun-localhost").read_text()), number)
    output, _ = process.communicate(timeout=within(40))
    assert process.returncode == 0, output
    assert said in output
    assert stubs.log()[-1] == "scontrol requeue 7"


def test_a_host_without_the_data_is_named_before_anything_starts(stubs: Stubs, text: Callable[..., str], tmp_path: Path) -> None:
    code, output = stubs.run(text(RECORDER, "{graph}", data=str(tmp_path / "nothing")))
    assert code == 2
    assert (
        f"host localhost cannot run this job: {tmp_path}/nothing has no manifest.json: this host does not see the data" in output
    )
    assert not (tmp_path / "run" / "plan.json").exists()


def test_the_runner_has_all_that_the_job_has_of_a_host() -> None:
    host = Host(name="n1", address="n1", python="/py thon", folder="/", data="", env={"PYTHONPATH": "/mine"})
    words = Srun().command(host)
    assert words[words.index("srun") :][:2] == ["srun", "--nodelist=n1"]
    assert {"--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none", "--export=ALL"} <= {*words}
    assert words[-5:] == ["env", "PYTHONPATH=/mine", "/py thon", "-m", "halohop.launch.jobs.host"]
    unset = subprocess.run([*words[: words.index("srun")], "env"], env={"SLURM_CPUS_PER_TASK": "1", "A": "b"}, **TEXT)
    assert unset.stdout == "A=b\n"


def test_a_second_job_in_the_run_folder_is_refused(stubs: Stubs, text: Callable[..., str], tmp_path: Path) -> None:
    with alone_in(tmp_path / "run" / "logs"):
        code, output = stubs.run(text(RECORDER))
    assert (code, output.startswith(f"halohop: another launch is running in {tmp_path}/run/logs")) == (2, True), output


def test_outside_of_slurm_the_script_says_where_it_belongs(stubs: Stubs, text: Callable[..., str]) -> None:
    code, output = stubs.run(text(RECORDER).replace("exec", "unset SLURM_JOB_ID; exec", 1))
    assert (code, output) == (
        2,
        "halohop: SLURM_JOB_ID is not set: this script runs inside of Slurm's allocation; submit it with sbatch\n",
    )
