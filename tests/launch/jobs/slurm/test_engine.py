"""A job is submitted, followed and cancelled, by commands that answer as Slurm's do; and what is refused before."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from halohop import partition
from halohop.datasets import synthetic
from halohop.errors import ClusterError, InputError
from halohop.launch.cli import app
from halohop.launch.jobs.engine import engine_of
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.slurm.following import follow
from halohop.launch.jobs.slurm.queue import State, parsed
from halohop.launch.terminal.refusal import JobFailedError
from tests.support.slurm_stubs import Stubs


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stubs:
    """Slurm's commands, as the first of the path."""
    (tmp_path / "bin").mkdir()
    stubs = Stubs(tmp_path / "bin", "n1", "n2")
    for name, value in stubs.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    stubs.states("PENDING")
    return stubs


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def job(tmp_path: Path, **given: Any) -> Job:
    (tmp_path / "train.py").touch()
    values = {"engine": "slurm", "hosts": 2, "data": "/data/parts", "out": str(tmp_path / "run 1"), "folder": str(tmp_path)}
    return Job(**({"run": ("train.py",)} if "train" not in given else {}) | values | given)


def test_a_job_is_submitted_and_says_where_it_is(
    stubs: Stubs, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALOHOP_TOKEN", "of another run, which Slurm would keep in its files")
    wanted = job(tmp_path, options={"partition": "gpu"})
    engine_of("slurm").run(wanted, console)
    assert "sbatch --parsable" in stubs.log()
    assert (stubs.folder / "submitted").read_text() == engine_of("slurm").show(wanted)
    assert "--partition=gpu" in engine_of("slurm").show(wanted)
    log = tmp_path / "run 1" / "logs" / "slurm-7.log"
    for text in ("job 7 of Slurm is PENDING", str(log), "tail -F", "scancel 7", "HOST-PROCESS.log"):
        assert text in said(console)
    assert log.parent.is_dir()  # sbatch does not make it
    exported = (stubs.folder / "exported").read_text()
    assert "STUBS=" in exported
    assert "HALOHOP_TOKEN" not in exported


def test_a_job_is_followed_to_its_end(stubs: Stubs, tmp_path: Path, console: Console) -> None:
    log = tmp_path / "slurm-7.log"
    log.write_text("epoch 1 [bold]\nepoch 2\nhalohop: done\nno line")
    stubs.states("PENDING", "RUNNING", "COMPLETING", "COMPLETED")
    follow("7", log, console, every=0)
    assert said(
        console
    ) == "job 7 is RUNNING\nepoch 1 [bold]\nepoch 2\nhalohop: done\njob 7 is COMPLETING\njob 7 is COMPLETED\n" or (
        "epoch 1 [bold]\nepoch 2\nhalohop: done\n" in said(console)
    )
    assert said(console).count("epoch 2") == 1
    assert not [line for line in stubs.log() if line.startswith("scancel")]


def test_a_failed_job_is_told_with_its_exit_code_and_the_end_of_the_log(stubs: Stubs, tmp_path: Path, console: Console) -> None:
    log = tmp_path / "slurm-7.log"
    log.write_text(
        "halohop: the job is queued again\nepoch\nhalohop: rank-1 on n1 failed with exit code 3; the end of x:\n    why\n"
    )
    stubs.states("RUNNING", "FAILED 3:0")
    with pytest.raises(JobFailedError, match=r"^rank-1 on n1 failed with exit code 3;") as caught:
        follow("7", log, console, every=0)
    assert caught.value.exit_code == 3
    assert str(caught.value).endswith("    why")
    assert "queued again" not in str(caught.value)
    stubs.states("CANCELLED 0:15")
    with pytest.raises(JobFailedError) as caught:
        follow("7", tmp_path / "never written", console, every=0)
    assert caught.value.exit_code == 128 + 15


def test_whatever_ends_the_waiting_cancels_the_job(
    stubs: Stubs, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs.states("RUNNING")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("halohop.launch.jobs.slurm.following._show", interrupt)
    with pytest.raises(KeyboardInterrupt):
        follow("7", tmp_path / "log", console, every=0)
    assert stubs.log() == ["scancel 7"]


def test_a_job_goes_on_if_slurm_does_not_answer(
    stubs: Stubs, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs.states("RUNNING")
    monkeypatch.setattr("halohop.launch.jobs.slurm.following._SILENT_S", 0.0)

    def lose(log: Path, shown: int, console: Console) -> int:
        (stubs.folder / "states").write_text("")  # from now on scontrol fails
        return shown

    monkeypatch.setattr("halohop.launch.jobs.slurm.following._show", lose)
    with pytest.raises(ClusterError, match=r"Slurm has not answered for .*; job 7 goes on; squeue --jobs 7$"):
        follow("7", tmp_path / "log", console, every=0)
    assert stubs.log() == []


def test_a_job_that_cannot_be_cancelled_is_said_to_go_on(
    stubs: Stubs, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubs.states("RUNNING")
    stubs.write("scancel", "#!/bin/bash\necho 'Unable to contact slurm controller' >&2; exit 1\n")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("halohop.launch.jobs.slurm.following._show", interrupt)
    with pytest.raises(KeyboardInterrupt):
        follow("7", tmp_path / "log", console, every=0)
    assert "job 7 goes on: scancel refuses: Unable to contact slurm controller; cancel it with scancel 7" in said(console)


def test_what_scontrol_says() -> None:
    text = "JobId=7 JobName=a UserId=x JobState=RUNNING Reason=None Dependency=(null) Requeue=1 Restarts=2 ExitCode=0:0"
    assert parsed(text) == State(name="RUNNING", reason="None", code=0, restarts=2)
    assert not parsed(text).has_ended
    assert parsed(text.replace("RUNNING", "NODE_FAIL")).has_ended
    assert parsed(text.replace("0:0", "0:9")).code == 137


def test_what_sbatch_says_where_it_refuses(stubs: Stubs, tmp_path: Path, console: Console) -> None:
    (stubs.folder / "refusal").write_text("sbatch: error: invalid partition specified: gpu\nsbatch: error: submission failed\n")
    with pytest.raises(InputError, match="sbatch refuses: sbatch: error: invalid partition specified: gpu; sbatch: error"):
        engine_of("slurm").run(job(tmp_path), console)


def test_slurm_that_is_not_there_or_does_not_know_the_job(
    stubs: Stubs, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stubs.folder / "states").write_text("")
    with pytest.raises(ClusterError, match=r"what became of job 7 is not known.*sacct"):
        follow("7", tmp_path / "log", console, every=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"squeue is not installed here.*--print"):
        engine_of("slurm").run(job(tmp_path), console)


def test_jobs_that_are_refused_before_they_are_submitted(
    stubs: Stubs, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of("slurm")
    with pytest.raises(InputError, match=r"there is no script missing.py in"):
        engine.run(job(tmp_path, run=("missing.py",)), console)
    with pytest.raises(InputError, match=r"\[slurm\]: unknown key 'partitio'; did you mean 'partition'"):
        engine.run(job(tmp_path, options={"partitio": "gpu"}), console)
    partition(synthetic("tiny"), tmp_path / "parts", num_parts=2)
    data = str(tmp_path / "parts")
    with pytest.raises(InputError, match="share 2/3 has no partition"):
        engine.run(job(tmp_path, data=data, hosts=3, cache="/scratch"), console)
    (tmp_path / "secret").write_text("a secret that is long enough for anybody")
    (tmp_path / "secret").chmod(0o644)
    with pytest.raises(InputError, match="others can read the token"):
        engine.run(job(tmp_path, token_file=str(tmp_path / "secret")), console)
    with monkeypatch.context() as inside:
        inside.setenv("SLURM_JOB_ID", "5")
        with pytest.raises(InputError, match=r"inside of Slurm's job 5.*--print"):
            engine.run(job(tmp_path), console)
    (tmp_path / "run 1").mkdir()
    (tmp_path / "run 1" / "resume.pt").touch()
    with pytest.raises(InputError, match=r"holds a run, whose resume.pt would be lost"):
        engine.run(job(tmp_path, data=data, train={"epochs": 2}), console)
    (stubs.folder / "queue").write_text(f"{'12':20}{tmp_path}/run 1/logs/slurm-%j.log   \n")
    with pytest.raises(InputError, match=r"job 12 of Slurm writes to .*run 1 already.*scancel 12"):
        engine.run(job(tmp_path), console)
    assert not (stubs.folder / "submitted").exists()


def test_the_command_waits_and_ends_with_the_exit_code_of_the_job(stubs: Stubs, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    stubs.states("RUNNING", "FAILED 3:0")
    words = ["launch", "--engine", "slurm", "--data", "/data/parts", "--out", str(tmp_path / "run"), "--folder", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, "--wait", "--", "train.py"])
    assert done.exit_code == 3, done.output
    assert "error: job 7 ended as FAILED, with exit code 3" in done.output
    done = CliRunner().invoke(app, [*words, "--", "train.py"])
    assert done.exit_code == 0
    assert "scancel 7" in done.output
    done = CliRunner().invoke(app, [*words, "--engine", "local", "--wait", "--", "train.py"])
    assert done.exit_code == 2
    assert "--wait is for the engine slurm" in done.output
