"""The batch script of a job: what Slurm is asked for, and the job itself, which `inside` runs on the first host."""

import re
import shlex
from pathlib import PurePosixPath

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.job_text import job_text
from halohop.launch.jobs.slurm.options import Options, options_of
from halohop.launch.terminal.wording import counted

_SCRIPT = """\
#!/bin/bash
# {name}: {hosts} with {trainers} each
{directives}

set -e
trap '' USR1
{before}
exec {python} -m halohop.launch.jobs.slurm <<'JOB'
{job}
JOB
"""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def log_of(job: Job) -> str:
    """Where the output of the batch script comes; sbatch puts the job's number for ``%j``."""
    return str(PurePosixPath(job.out.replace("%", "%%")) / "logs" / "slurm-%j.log")


def script(job: Job) -> str:
    """The batch script of a job. It holds no secret.

    Args:
        job: its hosts are taken as Slurm gives them, or as named.

    Raises:
        InputError: a value that sbatch cannot read, or as of `options_of`.
    """
    options = options_of(job)
    return _SCRIPT.format(
        name=job.name,
        hosts=counted(job.num_hosts, "host"),
        trainers=counted(job.trainers, "trainer"),
        directives=_directives(job, options),
        before="".join(f"{line}\n" for line in options.before),
        python=shlex.quote(job.python),
        job=job_text(job, indent=1),
    )


def _directives(job: Job, options: Options) -> str:
    """The lines that sbatch reads."""
    asked = {
        "job-name": job.name,
        "nodes": job.num_hosts,
        "nodelist": None if isinstance(job.hosts, int) else ",".join(job.hosts),
        "ntasks-per-node": job.trainers,
        "cpus-per-task": options.cpus_per_task,
        "gpus-per-node": options.gpus_per_node,
        "mem": options.mem,
        "partition": options.partition,
        "account": options.account,
        "time": options.time,
        "chdir": job.folder,
        "output": log_of(job),
        "open-mode": "append",
        "signal": f"B:USR1@{options.signal}" if options.signal else None,
    }
    lines = [_directive(name, value) for name, value in asked.items() if value is not None]
    lines.append("#SBATCH --requeue" if options.restarts else "#SBATCH --no-requeue")
    return "\n".join([*lines, *(f"#SBATCH {option}" for option in options.options)])


def _directive(name: str, value: object) -> str:
    """A line that sbatch reads.

    Raises:
        InputError: a value that sbatch cannot read.

    Example:
        >>> print(_directive("chdir", "/my data"))
        #SBATCH --chdir="/my data"
    """
    text = str(value)
    if _CONTROL.search(text):
        raise InputError(f"--{name}={text!r} holds a line break or another control character, which sbatch does not read")
    if not _PLAIN.fullmatch(text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"#SBATCH --{name}={text}"
