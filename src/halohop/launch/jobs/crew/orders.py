"""What each host of a plan is asked for: pure arithmetic."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.host.messages import Copied, Order, Program
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Plan, Process, data_of, plan
from halohop.launch.processes.places import rank_environment, world_of
from halohop.launch.processes.starting import CHILD
from halohop.store.share import spelled
from halohop.transport.addresses import parsed

FETCH = "fetch"
"""Name of the process that fetches data before the others start."""
_PORTS = 1 << 16


def plan_on(job: Job, hosts: Sequence[Host], ports: Mapping[str, Sequence[int]] | None = None, apart: Sequence[str] = ()) -> Plan:
    """Plans a job on hosts, each with its own address, interpreter, data and environment. Servers may be `apart`: see `plan`."""
    sources = {host.name: host.data for host in hosts}
    chosen = {host.name: range(host.server_port, _PORTS) for host in hosts if host.server_port}
    places = [host.address for host in hosts]
    made = plan(job, [host.name for host in hosts], places, apart=apart, sources=sources, ports={**(ports or {}), **chosen})
    known = {host.name: host for host in hosts}
    own = (_of_host(process, known[process.host]) if process.host in known else process for process in made.processes)
    return replace(made, processes=tuple(own))


def with_ports(job: Job, hosts: Sequence[Host], free: Mapping[str, Sequence[int]], apart: Sequence[str] = ()) -> Plan:
    """The plan, with ports that are free on the hosts where the job names none."""
    if not job.master_port:
        *others, last = free[hosts[0].name]
        job, free = replace(job, master_port=last), {**free, hosts[0].name: others}
    return plan_on(job, hosts, free if job.servers is not None and not job.servers.port else None, apart)


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
        copied: a folder that the launcher sends; None: the host fetches what is to be copied.
        same: files that must be the same on all hosts.
        mark: a file of the run folder, and its text.
    """
    mine = [process for process in made.processes if process.host == host.name]
    data = data_of(made, host.name)
    programs = [program for process in mine for program in programs_of(process, made)]
    if data is not None and data.copied and copied is None:
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


def _of_host(process: Process, host: Host) -> Process:
    return replace(process, python=host.python, env={**process.env, **host.own})


def _ports(made: Plan, mine: Sequence[Process]) -> tuple[int, ...]:
    found = [parsed(process.address)[1] for process in mine if process.role == "server"]
    if made.trainers[0] in mine:
        found.append(parsed(made.master)[1])
    return tuple(found)
