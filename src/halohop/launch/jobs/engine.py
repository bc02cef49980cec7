"""What starts the processes of a job. Each engine has a room of its own, imported only when it is used."""

import importlib
from typing import Protocol

from halohop.errors import InputError
from halohop.launch.jobs.job import ENGINES, Job
from halohop.launch.jobs.plan import Plan
from halohop.launch.terminal.console import Console


class Engine(Protocol):
    """Turns one plan into what its cluster understands."""

    def plan(self, job: Job) -> Plan:
        """Returns the processes of a job; starts nothing, and connects to no host.

        Raises:
            InputError: the engine cannot run the job.
        """
        ...

    def show(self, job: Job) -> str:
        """What ``--print`` writes: a script, manifests, or the plan as text. Holds no secret."""
        ...

    def run(self, job: Job, console: Console) -> None:
        """Runs a job to its end; whatever ends this process ends the job, too.

        Raises:
            ClusterError: a process failed; names its host, rank and exit code, and shows the end of its log.
            InputError: something is not there that the job needs; says which host, and what to do.
        """
        ...


def engine_of(name: str) -> Engine:
    """The engine of a name: what ``engine()`` in ``launch/jobs/NAME/engine.py`` makes.

    Raises:
        InputError: there is none, or a tool or an extra that it needs is missing; names it.
    """
    if name not in ENGINES:
        raise InputError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}")
    made: Engine = importlib.import_module(f"halohop.launch.jobs.{name}.engine").engine()
    return made
