"""A job inside of its allocation: on the first host, which starts everything on all of them by srun, and judges how it ends."""

import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from halohop.errors import ClusterError, HalohopError, InputError
from halohop.launch.jobs.crew.crew import Crew
from halohop.launch.jobs.crew.running import check_shared, prepare, run, watched
from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.job_text import parse_job
from halohop.launch.jobs.last_message import say
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.plan import resuming
from halohop.launch.jobs.slurm import queue
from halohop.launch.jobs.slurm.options import Options, options_of
from halohop.launch.jobs.slurm.srun import Srun
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.refusal import exit_code
from halohop.launch.terminal.signals import EXIT_RESUMABLE, Resumable, Signals

_END_S = 20.0
"""Seconds between the end of the ranks' time to save and the end of the job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a job, which may be queued again for another.

    Args:
        number: of the job.
        hosts: that it has this time.
        restarts: how many turns it had before.
    """

    number: str
    hosts: tuple[str, ...]
    restarts: int


def turn_of(env: Mapping[str, str]) -> Turn:
    """The turn that Slurm has begun.

    Raises:
        InputError: this is not inside of Slurm's allocation.
    """
    if "SLURM_JOB_ID" not in env or "SLURM_JOB_NODELIST" not in env:
        raise InputError("SLURM_JOB_ID is not set: this script runs inside of Slurm's allocation; submit it with sbatch")
    hosts = queue.expand(env["SLURM_JOB_NODELIST"])
    return Turn(number=env["SLURM_JOB_ID"], hosts=hosts, restarts=int(env.get("SLURM_RESTART_COUNT", "0")))


def main() -> int:
    """Runs the job at standard input; returns the exit code of the batch script."""
    logs.configure(logging.WARNING)
    with Signals() as signals, signals.working():
        try:
            job, turn = parse_job(sys.stdin.read()), turn_of(os.environ)
            return _take_turn(job, options_of(job), turn)
        except HalohopError as error:
            say(str(error))
            return exit_code(error)


def _take_turn(job: Job, options: Options, turn: Turn) -> int:
    """Returns the exit code; raises where nothing could be started."""
    if turn.restarts > options.restarts:  # Slurm itself queues a job again whose host it takes for lost
        raise ClusterError(
            f"the job has been started again more than {options.restarts} times, which is its limit (restarts={options.restarts})"
        )
    job = resuming(job) if turn.restarts else job
    hosts = [
        Host(name=name, address=name, python=job.python, folder=job.folder, data=job.data, env=job.env) for name in turn.hosts
    ]
    crew = Crew(hosts, Srun())
    watch = watched(job, hosts, crew)
    patience = max(options.signal - _END_S, _END_S)
    signal.signal(signal.SIGUSR1, lambda *_: watch.stop("the time is nearly over", patience))
    try:
        with alone_in(Path(job.out) / "logs"), watch, crew:
            ready = prepare(crew, job, hosts, Console(file=sys.stdout, soft_wrap=True))
            check_shared(ready)
            run(watch, ready)
    except Resumable:
        return _queue_again(turn, options)
    except HalohopError as error:
        say(str(error))
        if crew.lost:
            return _queue_again(turn, options, code=exit_code(error))
        if watch.is_stopping:
            say("before the time limit, trainers were sent SIGTERM; one that ends with exit code 75 is queued again")
        return exit_code(error)
    say("done")
    return 0


def _queue_again(turn: Turn, options: Options, *, code: int = EXIT_RESUMABLE) -> int:
    """Queues the job again, which then resumes; returns the exit code, that is `code` where it cannot."""
    try:
        if (state := queue.state(turn.number)).name != "RUNNING":  # it was cancelled, or its time is over
            say(f"the job is {state.name}")
            return code
        if turn.restarts >= options.restarts:
            say(f"the job has been queued again {options.restarts} times, which is its limit (restarts={options.restarts})")
            return code
        say("the job is queued again, to go on where it stands")
        queue.requeue(turn.number)
    except (ClusterError, InputError) as error:  # an allocation that no batch script began, or a controller that is gone
        say(f"it cannot be queued again: {error}; submit it again, with --train resume=auto")
        return code
    return 0
