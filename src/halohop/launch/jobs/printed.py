"""A plan as text: what ``--dry-run`` prints. It holds no secret, because a plan has none."""

import shlex
from collections.abc import Iterator, Mapping

from halohop.launch.jobs.plan import Data, Plan, Process
from halohop.store.share import spelled


def printed(made: Plan, pythons: Mapping[str, str] | None = None) -> str:
    """The processes of a plan by host, each with its command line, its environment and the data that it reads.

    Args:
        made: the plan.
        pythons: interpreters of hosts, where they are not the job's.
    """
    job = made.job
    each = f"x {job.trainers} trainers" if job.start == "torchrun" else "x 1 plain program"
    head = [
        f"engine {job.engine}, {len(made.hosts)} hosts {each}, {len(made.servers)} servers",
        f"ranks meet at {made.master}; logs and results in {job.out}",
        *(["port 0 stands for a free one, which the host chooses"] if any(map(_is_free, _addresses(made))) else []),
    ]
    own = pythons or {}
    return "\n".join([*head, *(line for host in _hosts(made) for line in _of_host(made, host, own.get(host, job.python)))]) + "\n"


def _addresses(made: Plan) -> list[str]:
    return [made.master, *(server.address for server in made.servers)]


def _is_free(address: str) -> bool:
    return address.endswith(":0")


def _hosts(made: Plan) -> list[str]:
    return list(dict.fromkeys([*made.hosts, *(process.host for process in made.processes)]))


def _of_host(made: Plan, host: str, python: str) -> Iterator[str]:
    yield f"\n{host}:"
    for process in made.processes:
        if process.host == host:
            yield from _of_process(process, python)


def _of_process(process: Process, python: str) -> Iterator[str]:
    ranks = f" x {process.ranks}" if process.ranks else ""
    yield f"  {process.name}{ranks}: {shlex.join([python, *process.argv])}"
    if process.env:
        yield "    with " + shlex.join(f"{name}={value}" for name, value in sorted(process.env.items()))
    if process.data is not None:
        yield f"    reads {_data(process.data)}"
    if process.needs:
        yield f"    after {', '.join(process.needs)}"


def _data(data: Data) -> str:
    held = f"share {spelled(data.shares)}" if data.shares else "all partitions"
    return f"{held} of {data.source}" + (f", brought to {data.folder}" if data.copied else "")
