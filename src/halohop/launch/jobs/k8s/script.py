"""The user's script for pods: it is in the image or on the claim, or a ConfigMap brings it."""

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.k8s.options import Options

FOLDER = "/script"
"""Where pods have a script that a ConfigMap brings."""

_MOST = 2**20  # bytes of all values of a ConfigMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script of this machine: its name, and its text."""

    name: str
    text: str


def script_of(job: Job, options: Options) -> Script | None:
    """Reads the script of a job if it is a file of this machine that pods do not have on the claim.

    Raises:
        InputError: it is too large for a ConfigMap, or is not text.
    """
    first = next(iter(job.run), "-")
    file = Path(job.folder, first)
    if first.startswith("-") or (options.claim and PurePosixPath(file).is_relative_to(options.mount)) or not file.is_file():
        return None
    remedy = f"copy it into the image or onto the claim, and run it by its path there ({options.mount}/{file.name})"
    if (size := file.stat().st_size) > _MOST:
        raise InputError(f"{file} has {size} bytes, but a ConfigMap has at most {_MOST}; {remedy}")
    try:
        return Script(name=file.name, text=file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text, which a ConfigMap needs; {remedy}") from error


def with_script(job: Job, script: Script | None) -> Job:
    """Returns the job as pods run it."""
    return job if script is None else replace(job, run=(f"{FOLDER}/{script.name}", *job.run[1:]))
