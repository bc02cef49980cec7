"""Slurm's own commands: a job is submitted, looked at and cancelled."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from halohop.errors import ClusterError, InputError
from halohop.transport import TOKEN_VARIABLE

_SECONDS = 60.0
"""Within which a command must answer."""

_GOING_ON = {
    "PENDING",
    "CONFIGURING",
    "RUNNING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a job stands.

    Args:
        name: as Slurm calls it: "RUNNING".
        reason: why it waits or has ended, as Slurm calls it.
        code: its exit code, 128 + the number of a signal that ended it; 0 as long as it goes on.
        restarts: how often it has been queued again.
    """

    name: str
    reason: str
    code: int
    restarts: int

    @property
    def has_ended(self) -> bool:
        return self.name not in _GOING_ON


def submit(script: str) -> str:
    """Submits a batch script; returns the job's number.

    Raises:
        InputError: sbatch is not installed, or refuses; says what it says.
    """
    output = _ask("sbatch", "--parsable", text=script).strip()
    return output.rpartition("\n")[2].partition(";")[0]  # a cluster's name may stand behind it


def state(number: str) -> State:
    """Where a job stands.

    Raises:
        ClusterError: Slurm does not answer, or does not know the job any more.

    Example:
        >>> parsed("JobId=7 JobState=FAILED Reason=NonZeroExitCode Restarts=1 ExitCode=3:0")
        State(name='FAILED', reason='NonZeroExitCode', code=3, restarts=1)
    """
    try:
        return parsed(_ask("scontrol", "show", "job", "--oneliner", number))
    except InputError as error:
        raise ClusterError(f"what became of job {number} is not known: {error}; see sacct --jobs {number}") from error


def parsed(text: str) -> State:
    """What `scontrol show job --oneliner` says."""
    found = dict(re.findall(r"(JobState|Reason|Restarts|ExitCode)=(\S+)", text))
    code, _, signal = found["ExitCode"].partition(":")
    killed = 128 + int(signal) if signal and int(signal) else 0
    return State(name=found["JobState"], reason=found["Reason"], code=killed or int(code), restarts=int(found["Restarts"]))


def cancel(number: str) -> None:
    """Ends a job with all its processes, or takes it out of the queue.

    Raises:
        InputError: scancel refuses; says what it says.
    """
    _ask("scancel", number)


def requeue(number: str) -> None:
    """Puts a job that runs into the queue again; Slurm ends what it still runs.

    Raises:
        InputError: Slurm refuses, as for an allocation that no batch script began; says what it says.
    """
    _ask("scontrol", "requeue", number)


def expand(nodelist: str) -> tuple[str, ...]:
    """The hosts that Slurm spells like ``node[1-3]``, in its order."""
    return tuple(_ask("scontrol", "show", "hostnames", nodelist).split())


def writing_to(output: str) -> str | None:
    """The number of a job of this user, queued or running, whose batch script writes to such a file (as `log_of` spells it)."""
    lines = _ask("squeue", "--me", "--noheader", f"--Format=JobID:20,StdOut:{len(output) + 1}").splitlines()
    return next((line[:20].strip() for line in lines if line[20:].rstrip() == output), None)


def _ask(*command: str, text: str = "") -> str:
    if shutil.which(command[0]) is None:
        raise InputError(
            f"{command[0]} is not installed here; launch from a host where Slurm's commands are, or take the script with --print "
            "and submit it there"
        )
    given = text.encode(errors="surrogateescape")
    env = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}  # sbatch keeps the others in files
    try:
        done = subprocess.run(command, input=given, env=env, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ClusterError(
            f"{command[0]} has not answered for {_SECONDS:.0f} seconds; is Slurm's controller up? (sinfo)"
        ) from error
    if done.returncode:
        raise InputError(f"{command[0]} refuses: {_last(done.stderr)}")
    return done.stdout.decode(errors="replace")


def _last(said: bytes) -> str:
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    return "; ".join(lines) or "it says nothing"
