"""The table [slurm] of a job file."""

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.slurm.options import Options
from halohop.launch.jobs.tables import convert


def test_a_table_by_the_names_of_sbatch() -> None:
    table = {"gpus-per-node": 4, "cpus_per_task": 8, "time": 90, "options": ["--exclusive"], "before": ["module load python"]}
    options = convert(table, Options, "job.toml: [slurm]")
    assert (options.gpus_per_node, options.cpus_per_task, options.time) == (4, 8, 90)
    assert options.options == ("--exclusive",)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"partitions": "gpu"}, r"unknown key 'partitions'; did you mean 'partition'"),
        ({"time": "tomorrow"}, "time='tomorrow' is no time limit of sbatch"),
        ({"time": "2:00"}, "time=2:00 is over before trainers, which are signalled 120 seconds before its end"),
        ({"cpus_per_task": 0}, "cpus_per_task=0 must be at least 1"),
        ({"restarts": -1}, "restarts=-1 must be at least 0"),
        ({"options": ["exclusive"]}, "option 'exclusive' is none of sbatch"),
        ({"options": ["--exclusive\n--wrap=x"]}, "is none of sbatch"),
        ({"options": ["--gpus-per-task=1"]}, "gives GPUs to tasks, but trainers share those of a host; use gpus_per_node"),
        ({"options": ["-G8"]}, "use gpus_per_node"),
        ({"options": ["--gpus=8"]}, "use gpus_per_node"),
        ({"wait": "yes"}, "wait"),
    ],
)
def test_tables_that_cannot_work(table: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        convert(table, Options, "job.toml: [slurm]")


def test_other_options_of_gpus_are_sbatchs() -> None:
    given = ("--gpus-per-node=a100:4", "--gres=gpu:4", "--gpu-freq=high")
    assert Options(options=given).options == given


def test_a_job_without_a_limit() -> None:
    assert Options(time=0).time == 0
    assert Options(time="2:00", signal=60).signal == 60
