"""The batch script: what sbatch is asked for, and a job that arrives inside as it was."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.job_text import parse_job
from halohop.launch.jobs.slurm.script import log_of, script
from tests.support.slurm_stubs import Stubs

RECORDER = """#!/bin/bash
printf '%s\\n' "$@" > "$STUBS/argv"
cat > "$STUBS/given"
printenv A > "$STUBS/a" || true
"""
"""Stands for the interpreter: keeps its arguments, its standard input and a variable."""

JOBS: list[dict[str, Any]] = [
    {"run": ("train.py", "{graph}")},
    {"train": {"epochs": 2, "fanout": [10, 5], "encrypt": True}},
    {"train": {}, "servers": Servers(count=2, options={"lease": 9}), "cache": "/scratch/{host}"},
    {"run": ("train.py", "--graph={graph}"), "servers": Servers(count=5, replicas=2), "hosts": ("n2", "n1"), "trainers": 4},
    {"run": ("a.py",), "data": "s3://bucket/parts", "cache": "/scratch", "token_file": "/keys/a b/token", "encrypt": True},
    {"run": ("a.py",), "servers": Servers(shares=("0/3,1/3", "2/3")), "hosts": 40, "stall": 30.0, "options": {"wait": True}},
]


def job(**given: Any) -> Job:
    values = {"engine": "slurm", "name": "sage", "hosts": 2, "data": "/data/parts", "out": "/runs/a b", "folder": "/gnn"}
    return Job(**values | given)


def arrived(stubs: Stubs, text: str) -> Job:
    """The job as what the batch script runs reads it."""
    assert stubs.run(text) == (0, "")
    assert (stubs.folder / "argv").read_text() == "-m\nhalohop.launch.jobs.slurm\n"
    return parse_job((stubs.folder / "given").read_text())


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    return Stubs(tmp_path, "n1", "n2")


@pytest.mark.parametrize("wanted", JOBS, ids=range(len(JOBS)))
def test_scripts_are_what_bash_and_shellcheck_expect(wanted: dict[str, Any], stubs: Stubs) -> None:
    options = {"time": "4:00:00", "cpus_per_task": 4, "before": ["module load python"], "options": ["--exclusive"]}
    text = script(job(**wanted | {"options": options}))
    file = stubs.write("job.sh", text)
    subprocess.run(["bash", "-n", file], check=True, timeout=60)
    if shutil.which("shellcheck"):
        done = subprocess.run(["shellcheck", "--severity=warning", file], capture_output=True, text=True, timeout=60, check=False)
        assert not done.stdout
    made = job(**wanted, python=str(stubs.write("py thon", RECORDER)))
    assert arrived(stubs, script(made)) == made


def test_what_sbatch_is_asked_for() -> None:
    options = {
        "partition": "gpu",
        "account": "lab",
        "time": "4:00:00",
        "cpus_per_task": 8,
        "gpus_per_node": "a100:4",
        "mem": "64G",
        "signal": 300,
        "options": ["--constraint=ib"],
    }
    text = script(job(hosts=("n1", "n2"), trainers=4, train={}, options=options))
    asked = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert asked == [
        "#SBATCH --job-name=sage",
        "#SBATCH --nodes=2",
        "#SBATCH --nodelist=n1,n2",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --gpus-per-node=a100:4",
        "#SBATCH --mem=64G",
        "#SBATCH --partition=gpu",
        "#SBATCH --account=lab",
        "#SBATCH --time=4:00:00",
        "#SBATCH --chdir=/gnn",
        '#SBATCH --output="/runs/a b/logs/slurm-%j.log"',
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:USR1@300",
        "#SBATCH --requeue",
        "#SBATCH --constraint=ib",
    ]
    asked = script(job(train={}, options={"signal": 0, "restarts": 0})).splitlines()
    assert "#SBATCH --no-requeue" in asked
    assert not any("--signal" in line for line in asked if line.startswith("#SBATCH"))
    assert log_of(job(train={}, out="/runs/50%")) == "/runs/50%%/logs/slurm-%j.log"


texts = st.text(max_size=12)
awkward = st.sampled_from(
    ["", "a b", "it's", '"', "$HOME", "`x`", "a\nJOB\nb", "\r\n", "\\", "\\n", "!!", "-n", "\x01", "\udce9"]
)


@settings(max_examples=8)
@given(st.lists(texts | awkward, min_size=1, max_size=20), texts | awkward)
@example(["a\nb", "it's", '"$HOME"', "\\", "$(exit 3)", "é", "${hosts[0]}", "\t\x7f", "\0"], "b\nJOB\nc'")
def test_arguments_and_environment_arrive_as_they_are(arguments: list[str], value: str) -> None:
    with tempfile.TemporaryDirectory(prefix="stubs") as folder:
        stubs = Stubs(Path(folder), "n1", "n2")
        made = job(run=("train.py", *arguments), env={"VALUE": value}, python=str(stubs.write("python", RECORDER)))
        assert arrived(stubs, script(made)) == made


def test_lines_that_run_before(stubs: Stubs) -> None:
    given = {"python": str(stubs.write("python", RECORDER)), "run": ("train.py",)}
    arrived(stubs, script(job(**given, options={"before": ['export A="$unset"b']})))
    assert (stubs.folder / "a").read_text() == "b\n"
    code, _ = stubs.run(script(job(**given, options={"before": ["module-that-is-missing"]})))
    assert code == 127


def test_values_that_sbatch_cannot_read() -> None:
    with pytest.raises(InputError, match=r"--output=.* holds a line break"):
        script(job(run=("a.py",), out="/runs/a\nb"))
    with pytest.raises(InputError, match=r"--chdir=.* holds a line break"):
        script(job(run=("a.py",), folder="/a\tb"))
