"""A job as text for a launcher that runs on the cluster: what is refused. What is read back: slurm/test_script.py."""

import json

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.job_text import parse_job


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"job": {}}'])
def test_what_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="there is no job to run here; submit what halohop launch --print writes"):
        parse_job(text)


def test_a_job_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(
        InputError,
        match=r"halohop 0\.0\.1 submitted this job, but .* install the same version on all hosts, or in the image",
    ):
        parse_job(json.dumps({"halohop": "0.0.1", "job": {}}))
