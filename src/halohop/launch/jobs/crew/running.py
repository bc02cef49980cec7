"""A job on the hosts of a crew: they are checked, then servers start, then trainers."""

import logging
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from halohop.errors import ClusterError, InputError
from halohop.files.aside import writing
from halohop.launch.jobs.crew.comparing import check_alike, check_all_there
from halohop.launch.jobs.crew.crew import Crew
from halohop.launch.jobs.crew.orders import FETCH, order, plan_on, programs_of, with_ports
from halohop.launch.jobs.crew.remote import Remote
from halohop.launch.jobs.crew.watching import Echo, Place, Watch
from halohop.launch.jobs.crew.way import Host, Way
from halohop.launch.jobs.host.messages import Checked, Copied, Order
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.lock import LOCK
from halohop.launch.jobs.plan import Plan, Process, member_of
from halohop.launch.jobs.plan_file import write_plan
from halohop.launch.jobs.secret import secret_of
from halohop.launch.processes.ends import Member
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.logs import LEVEL, level_of_trainers
from halohop.launch.terminal.wording import counted
from halohop.transport import TOKEN_VARIABLE

CHECK_S = 30.0
"""Seconds that hosts have to look at their folders, after one has said that it cannot run its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A job whose hosts can run it.

    Args:
        plan: with the ports that hosts offered.
        orders: by the hosts' names.
        found: what the hosts have said to their orders.
    """

    plan: Plan
    orders: Mapping[str, Order]
    found: Mapping[str, Checked]


def watched(job: Job, hosts: Sequence[Host], crew: Crew) -> Watch:
    """What writes the logs of a job, and judges how its processes end."""
    return Watch(crew, Path(job.out) / "logs", _echo(plan_on(job, hosts)), linger=job.linger, saves=job.train is not None)


def prepare(
    crew: Crew,
    job: Job,
    hosts: Sequence[Host],
    console: Console,
    *,
    folders: Mapping[str, Copied] | None = None,
    same: Sequence[str] = (),
    apart: Sequence[str] = (),
    with_token: bool = True,
) -> Ready:
    """Looks whether all hosts can run a job, and writes its plan. Nothing starts.

    Args:
        crew: of the hosts.
        job: what is to run.
        hosts: of the job.
        console: for progress.
        folders: what the launcher will send to hosts, by their names; other hosts fetch what is to be copied.
        same: as of `order`.
        apart: hosts of servers that this launcher does not start, by the names in their addresses.
        with_token: whether hosts get a token from this launcher. Else they have one.

    Raises:
        InputError: hosts cannot run it; names all that cannot.
        ClusterError: a host is lost.
    """
    mark = _marked(Path(job.out))
    secret = {LEVEL: str(level_of_trainers()), **({TOKEN_VARIABLE: secret_of(job)} if with_token else {})}
    made = with_ports(job, hosts, {host: hello.ports for host, hello in crew.meet().items()}, apart)
    copied = folders or {}
    orders = {host.name: order(made, host, secret=secret, copied=copied.get(host.name), same=same, mark=mark) for host in hosts}
    console.print(f"{counted(len(hosts), 'host')} answered; checking them", style="dim")
    found = crew.together(lambda remote: checked(remote, orders[remote.host.name]), patience=CHECK_S)
    check_alike(found)
    check_all_there(found, made)
    write_plan(made)
    return Ready(plan=made, orders=orders, found=found)


def run_once(
    job: Job, hosts: Sequence[Host], way: Way, console: Console, *, apart: Sequence[str] = (), with_token: bool = True
) -> None:
    """Runs a job once. The first host must see the run folder of this machine.

    Args:
        job: what is to run.
        hosts: of the job.
        way: connects to the hosts.
        console: for progress.
        apart, with_token: see `prepare`.

    Raises:
        ClusterError: a process failed, or a host is lost; a retry may succeed.
        InputError: a retry would fail, too.
        Resumable: see `Watch.until_ended`.
    """
    crew = Crew(hosts, way)
    try:
        with watched(job, hosts, crew) as watch, crew:
            ready = prepare(crew, job, hosts, console, apart=apart, with_token=with_token)
            check_shared(ready)
            run(watch, ready)
    except InputError as error:
        if crew.lost:
            raise ClusterError(str(error)) from error
        raise


def check_shared(ready: Ready) -> None:
    """
    Raises:
        InputError: the first host, where rank 0 is, does not see the run folder of this machine.
    """
    first, out = ready.plan.hosts[0], ready.plan.job.out
    if not ready.found[first].shared:
        raise InputError(f"{first} does not see {out} of this machine; begin the job there, or share the folder")


def checked(remote: Remote, wanted: Order) -> Checked:
    """What a host has found, which has nothing against its order.

    Raises:
        InputError: it has; says what.
    """
    remote.send(wanted)
    checked = remote.answer(Checked)
    if checked.problems:
        raise InputError("cannot run this job: " + "; ".join(checked.problems))
    return checked


def run(watch: Watch, ready: Ready) -> None:
    """Starts everything in its order, and waits for the trainers; raises as `Watch.until_ended`."""
    made = ready.plan
    fetching = [(host, FETCH) for host, wanted in ready.orders.items() if any(one.name == FETCH for one in wanted.programs)]
    for place in fetching:
        watch.begin(place, Member(stays=True))
    watch.until_ended(fetching)
    servers = [process for process in made.servers if process.host in made.hosts]
    for processes, wait in ((servers, watch.until_ready), (made.trainers, watch.until_ended)):
        for process in processes:
            for place in _places([process], made):
                watch.begin(place, member_of(process, made.job))
        wait(_places(processes, made))


def _places(processes: Sequence[Process], made: Plan) -> list[Place]:
    return [(process.host, program.name) for process in processes for program in programs_of(process, made)]


def _marked(out: Path) -> tuple[str, str]:
    """A file in the run folder and its text, new for each launch: a host that reads it sees the folder.

    Raises:
        WriteError: the folder cannot be written.
    """
    text = secrets.token_hex(8)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        (out / LOCK).write_text(text)
    return str(out / LOCK), text


def _echo(made: Plan) -> Echo:
    """Shows what rank 0 prints, or plain programs of all hosts, with their names; with ``-v`` what all print, with places."""
    much = logging.getLogger("halohop").getEffectiveLevel() <= logging.INFO
    plain = made.job.start == "plain"
    shown = _places(made.trainers, made) if plain else _places(made.trainers[:1], made)[:1]

    def show(place: Place, line: bytes) -> None:
        if much or place in shown:
            prefix = f"[{' '.join(place)}] " if much else f"[{place[0]}] " if plain else ""
            stream = (sys.stderr if much else sys.stdout).buffer
            stream.write(prefix.encode() + line + b"\n")
            stream.flush()

    return show
