"""The table [slurm] of a job file."""

import re
from dataclasses import dataclass

from halohop.errors import InputError
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.tables import convert

_OF_GPUS = re.compile(r"-G|--(gpus|gpus-per-(task|socket)|ntasks-per-gpu|tres-per-task)\b(?!-)")
_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<numbers>\d+(?::\d+){0,2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What Slurm is asked for. What is not given is left to the cluster.

    Args:
        partition, account: as of sbatch.
        time: limit of the job, as sbatch spells it: minutes, "4:00:00", "2-00:00".
        cpus_per_task: cores of each trainer.
        gpus_per_node: on each host: a number, or kind and number, "a100:4".
        mem: memory of each host, "64G".
        signal: so many seconds before the time limit the trainers get SIGTERM.
        restarts: how often the job may be queued again, after the time limit or a lost host.
        options: further options of sbatch, such as "--exclusive".
        before: lines of bash that run first on the first host, such as "module load python".
        wait: whether `halohop launch` stays until the job has ended; else it ends once the job is queued.

    Raises:
        InputError: a value that cannot work.
    """

    partition: str | None = None
    account: str | None = None
    time: str | int | None = None
    cpus_per_task: int | None = None
    gpus_per_node: int | str | None = None
    mem: str | None = None
    signal: int = 120
    restarts: int = 10
    options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    wait: bool = False

    def __post_init__(self) -> None:
        if self.cpus_per_task is not None and self.cpus_per_task < 1:
            raise InputError(f"cpus_per_task={self.cpus_per_task} must be at least 1")
        for name, number in (("signal", self.signal), ("restarts", self.restarts)):
            if number < 0:
                raise InputError(f"{name}={number} must be at least 0")
        for option in self.options:
            if not option.startswith("-") or "\n" in option:
                raise InputError(f"option {option!r} is none of sbatch; write it as on its command line: '--exclusive'")
            if _OF_GPUS.match(option):
                raise InputError(f"option {option!r} gives GPUs to tasks, but trainers share those of a host; use gpus_per_node")
        if self.time is not None and 0 < seconds(self.time) <= self.signal:  # 0: without a limit
            raise InputError(
                f"time={self.time} is over before trainers, which are signalled {self.signal} seconds before its end, have "
                "begun; give more time, or a smaller signal"
            )


def options_of(job: Job) -> Options:
    """What a job asks Slurm for.

    Raises:
        InputError: as of `Options`, or unknown names.
    """
    return convert(job.options, Options, "[slurm]")


def seconds(time: str | int) -> int:
    """The seconds of a time limit, as sbatch reads it.

    Raises:
        InputError: it is none.

    Example:
        >>> [seconds(time) for time in (90, "90", "1:30", "4:00:00", "2-12", "1-00:30")]
        [5400, 5400, 90, 14400, 216000, 88200]
    """
    found = _TIME.fullmatch(str(time))
    if found is None:
        raise InputError(f"time={time!r} is no time limit of sbatch; write minutes, '4:00:00' or '2-00:00'")
    numbers = [int(number) for number in found["numbers"].split(":")]
    if found["days"] is not None:
        hours, minutes, rest = (*numbers, 0, 0)[:3]
        return int(found["days"]) * 86400 + hours * 3600 + minutes * 60 + rest
    hours, minutes, rest = {1: (0, *numbers, 0), 2: (0, *numbers), 3: tuple(numbers)}[len(numbers)]
    return hours * 3600 + minutes * 60 + rest
