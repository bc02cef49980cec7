"""The table [ray] of a job file."""

from typing import Any

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.ray.options import RayOptions
from halohop.launch.jobs.tables import convert


def test_a_table_becomes_options() -> None:
    options = convert({"server-cpus": 2.5, "strategy": "SPREAD"}, RayOptions, "job.toml: [ray]")
    assert (options.server_cpus, options.strategy, options.address) == (2.5, "SPREAD", "auto")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"server_cpu": 1}, "unknown key 'server_cpu'; did you mean 'server_cpus'"),
        ({"strategy": "PACK"}, "PACK"),
        ({"trainer_cpus": -1}, "trainer_cpus=-1.0 is negative"),
        ({"max_failures": -2}, "max_failures=-2 is neither a number of times nor -1"),
        ({"deadline": 0}, "deadline=0.0 must be positive"),
        ({"address": "ray://head:10001"}, "is that of a Ray Client; run the command on a node of the cluster"),
    ],
)
def test_what_cannot_work_is_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(table, RayOptions, "job.toml: [ray]")
    assert message in str(caught.value)
