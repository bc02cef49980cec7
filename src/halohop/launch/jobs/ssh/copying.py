"""Partitions and other files that the hosts of a job are to have, sent over ssh. Nothing of the job starts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from halohop.errors import InputError
from halohop.files.reading import open_regular
from halohop.launch.jobs.crew.crew import Crew
from halohop.launch.jobs.crew.orders import plan_on
from halohop.launch.jobs.crew.remote import Remote
from halohop.launch.jobs.crew.running import CHECK_S, checked
from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.host.messages import Checked, Copied, Order
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import check_parts, data_of
from halohop.launch.jobs.ssh.engine import is_sent
from halohop.launch.jobs.ssh.hosts import hosts_of
from halohop.launch.jobs.ssh.sending import copied, manifest_of, send
from halohop.launch.jobs.ssh.way import Ssh
from halohop.launch.terminal.console import Console
from halohop.memory import format_size
from halohop.store.checksums import ChunkSums, FileRecord, hexadecimal
from halohop.store.share import spelled

_ANYWHERE = "/"
_READ = 1 << 20
_NO_NAMES = ("", ".", "..")
_LEFT_OUT = ("__pycache__", ".git")


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


def copy(job: Job, source: str | None, console: Console) -> None:
    """Sends each host of a job what it lacks of its partitions, and of the files that the job says.

    Args:
        job: by the engine ssh.
        source: folder of the partitions here, for a job whose hosts read them at its ``data``; None: the job says where they
            come from and go to.
        console: is told what was sent.

    Raises:
        InputError: nothing is to be copied, or a host is not reached or has no room; names all such.
        DatasetError: the partitions are not all here.
        ClusterError: a host is lost.
    """
    if job.engine != "ssh":
        raise InputError(f"engine={job.engine!r} copies what it needs when it starts; use the engine ssh, or leave the copy out")
    settings, hosts = hosts_of(job)
    parcels = parcels_of(job, source, hosts, settings.send)
    with Crew(hosts, Ssh(settings=settings)) as crew:
        crew.meet()

        def look(remote: Remote) -> Checked:
            mine = tuple(one.copied for one in parcels[remote.host.name])
            return checked(remote, Order(programs=(), folder=_ANYWHERE, copied=mine))

        def work(remote: Remote) -> list[int]:
            mine = parcels[remote.host.name]
            return [send(remote, number, one.copied, one.source) for number, one in enumerate(mine)]

        crew.together(look, patience=CHECK_S)
        for host, sizes in crew.together(work).items():
            for one, size in zip(parcels[host], sizes, strict=True):
                what = format_size(size) if size else "nothing to copy"
                console.print(f"{host}: {one.what} in {one.copied.folder}: {what}", soft_wrap=True)


def parcels_of(
    job: Job, source: str | None, hosts: Sequence[Host], extra: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Parcel, ...]]:
    """What each host must have, by its name: reads the manifest of the partitions, and all other files.

    Args:
        job: whose hosts they are.
        source: as of `copy`.
        hosts: which.
        extra: paths here, by folders below that of each host.

    Raises:
        InputError: there is nothing to copy, or too few partitions for the hosts.
        DatasetError: the partitions are not all here.
    """
    moved = job if source is None else replace(job, data=str(Path(source).absolute()), cache=_ANYWHERE)
    made = plan_on(moved, hosts)
    needed = {host.name: data for host in hosts if (data := data_of(made, host.name)) is not None and is_sent(data)}
    if not needed and not extra:
        raise InputError("there is nothing to copy; set cache to a folder of the hosts, or --source to one with partitions")
    manifest = manifest_of(moved.data) if needed else None
    if manifest is not None:
        check_parts(made, manifest.num_parts)
    beside = [(there, *_read(path, Path(moved.data))) for there, paths in extra.items() for path in paths]
    found: dict[str, tuple[Parcel, ...]] = {}
    for host in hosts:
        own = []
        if manifest is not None and (data := needed.get(host.name)):
            data = data if source is None else replace(data, folder=host.data)
            own = [Parcel(copied=copied(data, manifest), source=Path(data.source), what=f"partitions {spelled(data.shares)}")]
        more = [
            Parcel(copied=replace(there, folder=str(PurePosixPath(host.folder) / folder)), source=base, what=what)
            for folder, there, base, what in beside
        ]
        found[host.name] = (*own, *more)
    return found


def _read(given: str, parts: Path) -> tuple[Copied, Path, str]:
    """A file or a folder of this machine: what a host must have of it, in which folder it is here, and its name.

    Raises:
        InputError: there is no such file or folder.
        DatasetError: a file cannot be read.
    """
    path = Path(given)
    if not path.exists():
        raise InputError(f"there is no file or folder {path}; name another one ([ssh.send])")
    alone = path.is_dir() and given.rstrip("/").rpartition("/")[2] in _NO_NAMES
    path = path.resolve() if alone else path.absolute()
    base = path if alone else path.parent
    files = {str(file.relative_to(base)): file for file in _files(path, parts.resolve())}
    there = Copied(
        folder=_ANYWHERE,
        files={name: _record(file) for name, file in files.items()},
        small={},
        executable=tuple(name for name, file in files.items() if file.stat().st_mode & 0o100),
    )
    return there, base, path.name


def _files(path: Path, parts: Path) -> Iterator[Path]:
    """All files below a folder without the partitions, which have a parcel of their own; or a file itself."""
    if path.is_file():
        yield path
    elif path.is_dir() and path.resolve() != parts:
        for inner in sorted(path.iterdir()):
            if inner.name not in _LEFT_OUT and not (inner.is_dir() and inner.is_symlink()):
                yield from _files(inner, parts)


def _record(file: Path) -> FileRecord:
    """
    Raises:
        DatasetError: it cannot be read.
    """
    sums, size = ChunkSums(), 0
    with open_regular(file) as stream:
        while data := stream.read(_READ):
            sums.add(data)
            size += len(data)
    return FileRecord(dtype="", shape=(), bytes=size, checksums=tuple(map(hexadecimal, sums.checksums)))
