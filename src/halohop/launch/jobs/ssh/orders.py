"""What each host of a plan is asked for: pure arithmetic."""

from collections.abc import Mapping, Sequence

from halohop.files.urls import is_url
from halohop.launch.jobs.host.messages import Copied, Order, Program
from halohop.launch.jobs.plan import Data, Plan, Process, data_of
from halohop.launch.jobs.ssh.hosts import Host
from halohop.launch.processes.places import rank_environment, world_of
from halohop.launch.processes.starting import CHILD
from halohop.store.share import spelled
from halohop.transport.addresses import parsed

FETCH = "fetch"
"""Name of the process that fetches data from a URL before the others start."""


def order(
    made: Plan,
    host: Host,
    *,
    secret: Mapping[str, str],
    copied: Copied | None = None,
    same: Sequence[str] = (),
    mark: tuple[str, str],
) -> Order:
    """The order for one host.

    Args:
        made: the plan.
        host: which.
        secret: environment that is shown nowhere.
        copied: a folder that the launcher sends.
        same: files that must be the same on all hosts.
        mark: a file of the run folder, and its text.
    """
    mine = [process for process in made.processes if process.host == host.name]
    data = data_of(made, host.name)
    programs = [program for process in mine for program in programs_of(process, made)]
    if data is not None and is_fetched(data):
        argv = ("-m", "halohop", "fetch", data.source, data.folder, *(("--share", spelled(data.shares)) if data.shares else ()))
        programs.append(Program(name=FETCH, argv=argv, env=host.env, serves=True))
    return Order(
        programs=tuple(programs),
        folder=host.folder,
        env=secret,
        scripts=made.job.run[:1] if made.job.run and not made.job.run[0].startswith("-") else (),
        same=tuple(same),
        reads=() if data is None or data.copied else (data.folder,),
        ports=_ports(made, mine),
        copied=() if copied is None else (copied,),
        master=parsed(made.master)[0],
        stall=made.job.step_limit,
        mark=mark,
    )


def programs_of(process: Process, made: Plan) -> list[Program]:
    """What a host starts for a process of the plan: a server, a plain program, or each of its ranks."""
    if process.role == "server" or made.job.start == "plain":
        return [Program(name=process.name, argv=process.argv, env=process.env, serves=process.role == "server")]
    host, port = parsed(made.master)
    meeting = {"MASTER_ADDR": host, "MASTER_PORT": str(port)}
    first = made.trainers.index(process) * process.ranks
    return [
        Program(
            name=f"rank-{rank}",
            argv=(*CHILD, *process.argv),
            env={**process.env, **meeting, **rank_environment(world_of(rank, len(made.trainers), process.ranks))},
            sharers=process.ranks,
        )
        for rank in range(first, first + process.ranks)
    ]


def is_fetched(data: Data) -> bool:
    """Whether the host itself brings the data, from where the launcher need not reach them."""
    return data.copied and is_url(data.source)


def is_sent(data: Data | None) -> bool:
    """Whether the launcher sends the data to the host."""
    return data is not None and data.copied and not is_url(data.source)


def _ports(made: Plan, mine: Sequence[Process]) -> tuple[int, ...]:
    found = [parsed(process.address)[1] for process in mine if process.role == "server"]
    if made.trainers[0] in mine:
        found.append(parsed(made.master)[1])
    return tuple(found)
