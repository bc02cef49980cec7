"""Folders that hosts are to have, sent over ssh without a job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from halohop.launch.jobs.host.messages import Checked, Copied, Order
from halohop.launch.jobs.ssh.crew import Crew
from halohop.launch.jobs.ssh.engine import CHECK_S, checked
from halohop.launch.jobs.ssh.hosts import Host, Settings
from halohop.launch.jobs.ssh.remote import Remote
from halohop.launch.jobs.ssh.sending import send
from halohop.launch.terminal.console import Console
from halohop.memory import format_size

_ANYWHERE = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A folder for a host.

    Args:
        copied: what is to be there.
        source: the folder here.
        what: its contents, for people.
    """

    copied: Copied
    source: Path
    what: str


def copy(settings: Settings, hosts: Sequence[Host], parcels: Mapping[str, Sequence[Parcel]], console: Console) -> None:
    """Sends each host what it lacks of its folders.

    Args:
        settings: of ssh.
        hosts: which.
        parcels: by the hosts' names.
        console: is told what was sent.

    Raises:
        InputError: a host is not reached, or has no room; names all such.
        ClusterError: one is lost.
    """
    with Crew(hosts, settings) as crew:
        crew.meet()

        def work(remote: Remote) -> list[int]:
            mine = parcels[remote.host.name]
            return [send(remote, number, one.copied, one.source) for number, one in enumerate(mine)]

        def look(remote: Remote) -> Checked:
            mine = tuple(one.copied for one in parcels[remote.host.name])
            return checked(remote, Order(programs=(), folder=_ANYWHERE, copied=mine))

        crew.together(look, patience=CHECK_S)
        for host, sizes in crew.together(work).items():
            for one, size in zip(parcels[host], sizes, strict=True):
                what = format_size(size) if size else "nothing to copy"
                console.print(f"{host}: {one.what} in {one.copied.folder}: {what}", soft_wrap=True)
