import json
from pathlib import Path

import msgspec
import pytest

from halohop.errors import InputError
from halohop.launch.jobs.engine import engine_of
from halohop.launch.jobs.job import job_of
from halohop.launch.jobs.plan import FORMAT, Plan
from halohop.launch.jobs.plan_file import PLAN, plan_text, write_plan

TABLES = {
    "local": {
        "hosts": 2,
        "trainers": 2,
        "servers": {"count": 3, "replicas": 2, "options": {"cache": "1GB"}},
        "env": {"X": "a b"},
    },
    "slurm": {"hosts": 2, "cache": "/scratch/{host}", "slurm": {"time": "1:00"}},
    "ray": {"hosts": 2, "ray": {"trainer_cpus": 2}},
    "k8s": {
        "hosts": 2,
        "data": "/mnt/parts",
        "out": "/mnt/run",
        "k8s": {"image": "i", "secret": "s", "claim": "c", "mount": "/mnt"},
    },
}


def made_by(engine: str, **table: object) -> Plan:
    given = {"engine": engine, "data": "parts", "out": "run", "run": "train.py {graph}", **TABLES[engine], **table}
    return engine_of(engine).plan(job_of(given, "job.toml"))


@pytest.mark.parametrize("engine", TABLES)
def test_a_plan_is_read_back_as_it_was(engine: str) -> None:
    made = made_by(engine)
    text = plan_text(made)
    assert msgspec.json.decode(text, type=Plan) == made
    assert json.loads(text)["format"] == FORMAT


def test_a_plan_replaces_an_earlier_one(tmp_path: Path) -> None:
    for trainers in (1, 2):
        made = made_by("local", out=str(tmp_path / "run"), trainers=trainers)
        write_plan(made)
        assert (tmp_path / "run" / PLAN).read_text() == plan_text(made)
    assert [file.name for file in (tmp_path / "run").iterdir()] == [PLAN]


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("of somebody")
    (tmp_path / PLAN).symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match="is a symbolic link"):
        write_plan(made_by("local", out=str(tmp_path)))
    assert (tmp_path / "other").read_text() == "of somebody"
