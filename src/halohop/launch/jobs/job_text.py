"""A job as text, for a launcher that runs on the cluster."""

import json
from typing import Any

import msgspec

from halohop import __version__
from halohop.errors import InputError
from halohop.files.validation import validate
from halohop.launch.jobs.job import Job


def job_text(job: Job, *, indent: int | None = None) -> str:
    """Encodes a job as JSON, with the version of halohop. It holds no secret."""
    return json.dumps({"halohop": __version__, "job": msgspec.to_builtins(job)}, indent=indent)


def parse_job(text: str) -> Job:
    """Reads what `job_text` wrote.

    Raises:
        InputError: another version of halohop wrote it, or it is damaged.

    Example:
        >>> job = Job(data="/parts", out="/run", run=("train.py",))
        >>> parse_job(job_text(job)) == job
        True
    """
    try:
        found: dict[str, Any] = json.loads(text)
        version = found["halohop"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("there is no job to run here; submit what halohop launch --print writes") from error
    if version != __version__:
        raise InputError(
            f"halohop {version} submitted this job, but {__version__} is installed where it runs; install the same version "
            "on all hosts, or in the image, and submit the job again"
        )
    return validate(found["job"], Job, "the job that was submitted")
