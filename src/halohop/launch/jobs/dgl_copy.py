"""What DGL's `copy_files` brings to the hosts of an `ip_config.txt`: each its partitions, and all of them the scripts."""

import posixpath
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from halohop.errors import InputError
from halohop.files.reading import open_regular, read_regular
from halohop.launch.jobs.dgl_file import check_count, data_folder, is_json, num_parts
from halohop.launch.jobs.host.messages import Copied
from halohop.launch.jobs.ip_config import Entry, read_ip_config
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.plan import Data
from halohop.launch.jobs.ssh.copying import Parcel
from halohop.launch.jobs.ssh.sending import copied, manifest_of
from halohop.store.checksums import ChunkSums, FileRecord, hexadecimal
from halohop.store.names import MANIFEST
from halohop.store.share import Share

_READ = 1 << 20
_NO_NAMES = ("", ".", "..")
_LEFT_OUT = ("__pycache__", ".git")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """What the command line says, by DGL's names.

    Args:
        ip_config: the file that lists the hosts.
        workspace: folder on all hosts.
        rel_data_path: folder below it for the partitions.
        part_config: the configuration beside the partitions, or their folder, on this machine.
        script_folder: on this machine; it comes into the workspace under its own name. Of ``.``, and of the
            workspace itself, what it holds.

    Raises:
        InputError: a folder that is not there, or that lies elsewhere than it must.
    """

    ip_config: str
    workspace: str
    rel_data_path: str
    part_config: str
    script_folder: str

    def __post_init__(self) -> None:
        path = PurePosixPath(self.rel_data_path)
        if path.is_absolute() or ".." in path.parts:
            raise InputError(f"rel_data_path={self.rel_data_path!r} must be a folder below the workspace, such as data")
        if not Path(self.script_folder).is_dir():
            raise InputError(f"script_folder={self.script_folder!r} is no folder here; name the one with the scripts")


def parcels(options: CopyOptions) -> dict[Entry, tuple[Parcel, ...]]:
    """What each host must have: reads the scripts, and the partitions' manifest.

    Raises:
        InputError: files that cannot be read, a line of `ip_config` that cannot work, or too few partitions.
        DatasetError: the partitions are not all here.
    """
    config = Path(options.part_config).absolute()
    entries, count = read_ip_config(Path(options.ip_config)), num_parts(config)
    parts = Path(data_folder(config))
    if not (parts / MANIFEST).exists():
        raise InputError(
            f"{parts} has no {MANIFEST}: it was not written by halohop; write the partitions by halohop.dgl's "
            f"partition_graph, or convert them: `halohop partition dgl:{config} FOLDER`"
        )
    manifest = manifest_of(str(parts))
    if manifest.num_parts != count:
        raise InputError(
            f"{config} says {count} partitions, but the data set beside it has {manifest.num_parts}; write both again"
        )
    check_count(entries, count)
    workspace = Path.cwd() / Path(options.workspace).expanduser()
    scripts = _scripts(options, workspace, parts)
    small = {config.name: read_regular(config)} if is_json(config) else {}
    found: dict[Entry, tuple[Parcel, ...]] = {}
    for number, entry in enumerate(entries):
        share = Share(index=number, count=len(entries))
        data = Data(source=str(parts), folder=str(workspace / options.rel_data_path), shares=(share,), copied=True)
        own = copied(data, manifest, small=small)
        found[entry] = (Parcel(copied=own, source=parts, what=f"partitions {share}"), scripts)
    return found


def hosts_job(hosts: Iterable[Entry], *, python: str | None, user: str | None, port: int | None) -> Job:
    """A job of which nothing runs, for what ssh says of its hosts.

    Args:
        hosts: which.
        python: interpreter on them; None: as here.
        user, port: of their ssh servers; None: as the user's configuration of ssh says.
    """
    own = {name: value for name, value in (("user", user), ("port", port)) if value is not None}
    names = tuple(entry.host for entry in hosts)
    options = {"hosts": dict.fromkeys(names, own)}
    return Job(engine="ssh", hosts=names, train={}, data="/", out="/", python=python or sys.executable, options=options)


def _scripts(options: CopyOptions, workspace: Path, parts: Path) -> Parcel:
    folder = Path(options.script_folder).resolve()
    alone = folder == workspace.resolve() or posixpath.basename(options.script_folder.rstrip("/")) in _NO_NAMES
    base = folder if alone else folder.parent
    files = {str(file.relative_to(base)): _record(file) for file in _files(folder, parts.resolve())}
    ip_config = Path(options.ip_config)
    small = {ip_config.name: read_regular(ip_config)}
    executable = tuple(file for file in files if (base / file).stat().st_mode & 0o100)
    there = Copied(folder=str(workspace), files=files, small=small, executable=executable)
    return Parcel(copied=there, source=base, what=folder.name)


def _files(folder: Path, parts: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _LEFT_OUT or path == parts:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _files(path, parts)
        elif path.is_file():
            yield path


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
