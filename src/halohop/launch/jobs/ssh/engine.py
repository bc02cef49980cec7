"""The engine `ssh`: hosts that the user reaches with OpenSSH. Nothing stays on them but copies of data that were asked for."""

from collections.abc import Mapping
from pathlib import Path

from halohop.files.urls import is_url
from halohop.launch.jobs.crew.crew import Crew
from halohop.launch.jobs.crew.orders import plan_on
from halohop.launch.jobs.crew.remote import Remote
from halohop.launch.jobs.crew.running import prepare, run, watched
from halohop.launch.jobs.host.messages import Copied
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Data, Plan, check_parts, data_of
from halohop.launch.jobs.plan_file import plan_text
from halohop.launch.jobs.ssh.bringing import bring
from halohop.launch.jobs.ssh.hosts import hosts_of
from halohop.launch.jobs.ssh.way import Ssh
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.wording import counted
from halohop.memory import format_size


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
        folders = _folders(plan_on(job, hosts))
        crew = Crew(hosts, Ssh(settings=settings))
        with watched(job, hosts, crew) as watch, crew:
            ready = prepare(crew, job, hosts, console, folders=folders, same=settings.same)
            _send(crew, job, folders, console)
            run(watch, ready)
            first = ready.plan.trainers[0].host
            if not ready.found[first].shared:
                _bring(crew, first, job.out, console)


def engine() -> SshEngine:
    """The engine."""
    return SshEngine()


def is_sent(data: Data | None) -> bool:
    """Whether the launcher sends the data to a host, which fetches data of a URL itself."""
    return data is not None and data.copied and not is_url(data.source)


def _folders(made: Plan) -> dict[str, Copied]:
    """What is to be copied to each host; reads the manifest where that is anything."""
    needed = {host: data for host in made.hosts if (data := data_of(made, host)) is not None and is_sent(data)}
    if not needed:
        return {}
    from halohop.launch.jobs.ssh.sending import copied, manifest_of  # imports torch

    manifest = manifest_of(made.job.data)
    check_parts(made, manifest.num_parts)
    return {host: copied(data, manifest) for host, data in needed.items()}


def _send(crew: Crew, job: Job, folders: Mapping[str, Copied], console: Console) -> None:
    if not folders:
        return
    from halohop.launch.jobs.ssh.sending import send

    def work(remote: Remote) -> int:
        folder = folders.get(remote.host.name)
        return send(remote, 0, folder, Path(job.data)) if folder else 0

    sent = crew.together(work)
    for host, folder in folders.items():
        what = format_size(sent[host]) if sent[host] else "nothing"
        console.print(f"{host}: {what} copied to {folder.folder}", style="dim", soft_wrap=True)


def _bring(crew: Crew, first: str, out: str, console: Console) -> None:
    """Results come from the first host, which has the run folder, to the same folder here."""
    results = crew.together(lambda remote: bring(remote, out, Path(out)) if remote.host.name == first else [])
    console.print(f"{counted(len(results[first]), 'file')} of {first}:{out} came to {out}", style="dim", soft_wrap=True)
