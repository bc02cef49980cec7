"""The engine `ssh`: hosts that the user reaches with OpenSSH. Nothing stays on them but copies of data that were asked for."""

import logging
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from halohop.errors import InputError
from halohop.files.aside import writing
from halohop.launch.jobs.host.messages import Checked, Copied, Hello, Order
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.lock import LOCK
from halohop.launch.jobs.plan import Plan, Process, check_parts, data_of, member_of, plan
from halohop.launch.jobs.plan_file import plan_text, write_plan
from halohop.launch.jobs.secret import secret_of
from halohop.launch.jobs.ssh.bringing import bring
from halohop.launch.jobs.ssh.comparing import check_alike, check_all_there
from halohop.launch.jobs.ssh.crew import Crew
from halohop.launch.jobs.ssh.hosts import Host, hosts_of
from halohop.launch.jobs.ssh.orders import FETCH, is_sent, order, programs_of
from halohop.launch.jobs.ssh.remote import Remote
from halohop.launch.jobs.ssh.watching import Echo, Place, Watch
from halohop.launch.processes.ends import Member
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.logs import LEVEL, level_of_trainers
from halohop.launch.terminal.wording import counted
from halohop.memory import format_size
from halohop.transport import TOKEN_VARIABLE

_LOGS = "logs"
_PORTS = 1 << 16
CHECK_S = 30.0
"""Seconds that hosts have to look at their folders, after one has said that it cannot run its order."""


class SshEngine:
    """Runs a job over ssh: checks all hosts, brings data, starts servers, then trainers."""

    def plan(self, job: Job) -> Plan:
        """Returns the plan, with the hosts' addresses as ssh knows them. Port 0 stands for a free one, which the host chooses."""
        return plan_on(job, hosts_of(job)[1])

    def show(self, job: Job) -> str:
        return plan_text(self.plan(job))

    def run(self, job: Job, console: Console) -> None:
        """Runs a job to its end; see `Engine`."""
        settings, hosts = hosts_of(job)
        made = plan_on(job, hosts)
        folders = _folders(made)
        secret, out = {TOKEN_VARIABLE: secret_of(job), LEVEL: str(level_of_trainers())}, Path(job.out)
        mark = _marked(out)
        crew = Crew(hosts, settings)
        with Watch(crew, out / _LOGS, _echo(made), linger=job.linger) as watch, crew:
            made = _with_ports(job, hosts, crew.meet())
            orders = {
                host.name: order(made, host, secret=secret, copied=folders.get(host.name), same=settings.same, mark=mark)
                for host in hosts
            }
            console.print(f"{counted(len(hosts), 'host')} answered; checking them", style="dim")
            found = crew.together(lambda remote: checked(remote, orders[remote.host.name]), patience=CHECK_S)
            check_alike(found)
            check_all_there(found, made)
            write_plan(made)
            _send(crew, job, folders, console)
            _run(watch, orders, made)
            first = made.trainers[0].host
            if not found[first].shared:
                results = crew.together(lambda remote: bring(remote, job.out, out) if remote.host.name == first else [])
                brought = results[first]
                console.print(
                    f"{counted(len(brought), 'file')} of {first}:{job.out} came to {out}",
                    style="dim",
                    soft_wrap=True,
                )


def engine() -> SshEngine:
    """The engine."""
    return SshEngine()


def plan_on(job: Job, hosts: Sequence[Host], ports: Mapping[str, Sequence[int]] | None = None) -> Plan:
    """Plans a job on hosts, each with its own address, interpreter, data and environment."""
    sources = {host.name: host.data for host in hosts}
    chosen = {host.name: range(host.server_port, _PORTS) for host in hosts if host.server_port}
    places = [host.address for host in hosts]
    made = plan(job, [host.name for host in hosts], places, sources=sources, ports={**(ports or {}), **chosen})
    known = {host.name: host for host in hosts}
    return replace(made, processes=tuple(_of_host(process, known[process.host]) for process in made.processes))


def _of_host(process: Process, host: Host) -> Process:
    return replace(process, python=host.python, env={**process.env, **host.own})


def _with_ports(job: Job, hosts: Sequence[Host], hellos: Mapping[str, Hello]) -> Plan:
    """The plan, with ports that are free on the hosts where the job names none."""
    free = {host: list(hello.ports) for host, hello in hellos.items()}
    if not job.master_port:
        job = replace(job, master_port=free[hosts[0].name].pop())
    return plan_on(job, hosts, free if job.servers is not None and not job.servers.port else None)


def _folders(made: Plan) -> dict[str, Copied]:
    """What is to be copied to each host; reads the manifest where that is anything."""
    needed = {host: data for host in made.hosts if (data := data_of(made, host)) is not None and is_sent(data)}
    if not needed:
        return {}
    from halohop.launch.jobs.ssh.sending import copied, manifest_of  # imports torch

    manifest = manifest_of(made.job.data)
    check_parts(made, manifest.num_parts)
    return {host: copied(data, manifest) for host, data in needed.items()}


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


def _send(crew: Crew, job: Job, folders: Mapping[str, Copied], console: Console) -> None:
    if not folders:
        return
    from halohop.launch.jobs.ssh.sending import send

    def work(remote: Remote) -> int:
        folder = folders.get(remote.host.name)
        return send(remote, 0, folder, Path(job.data)) if folder else 0

    sent = crew.together(work)
    for host, size in sent.items():
        what = format_size(size) if size else "nothing"
        console.print(f"{host}: {what} copied to {folders[host].folder}", style="dim", soft_wrap=True)


def _run(watch: Watch, orders: Mapping[str, Order], made: Plan) -> None:
    """Starts everything in its order, and waits for the trainers."""
    fetching = [(host, FETCH) for host, wanted in orders.items() if any(program.name == FETCH for program in wanted.programs)]
    _start(watch, fetching, Member(stays=True))
    watch.until_ended(fetching)
    for processes, wait in ((made.servers, watch.until_ready), (made.trainers, watch.until_ended)):
        for process in processes:
            _start(watch, _places([process], made), member_of(process, made.job))
        wait(_places(processes, made))


def _start(watch: Watch, places: Sequence[Place], member: Member) -> None:
    for place in places:
        watch.begin(place, member)


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
