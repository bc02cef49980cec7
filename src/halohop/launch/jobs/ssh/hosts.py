"""The table [ssh] of a job file, and what follows from it and the user's own configuration of ssh for each host."""

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from halohop.errors import InputError
from halohop.launch.jobs.crew.way import Host
from halohop.launch.jobs.job import Job, refuse_token
from halohop.launch.jobs.tables import convert
from halohop.transport.addresses import is_loopback_host

_ASK_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What is different on one host; "" and 0: as for the others, or as the user's configuration of ssh says.

    Args:
        user, port: of the ssh server.
        address: under which the other hosts reach it; "": the HostName of the user's configuration.
        python, folder: as of `Job`.
        data: where it sees the partitions, if not where the others do.
        env: beside that of the job.
        server_port: where its first server answers, if not where those of the others do.
    """

    user: str = ""
    port: int = 0
    address: str = ""
    python: str = ""
    folder: str = ""
    data: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    server_port: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.server_port < 1 << 16:
            raise InputError(f"server_port={self.server_port} is no port; give one from 1 to {(1 << 16) - 1}")
        refuse_token(self.env)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The table [ssh] of a job file.

    Args:
        command: the client, and options for it: ``"ssh -F cluster.config"``.
        options: further options for it.
        connect_timeout: seconds until a host must have answered.
        hosts: what is different on some of them, by their names as in ``hosts``.
        same: files that must be the same on all hosts, beside the script and the data set; from each host's folder.
        send: files and folders of this machine that `halohop launch copy` brings into folders below each host's folder. They
            keep their names; of a path that ends in ``.`` come the contents.
    """

    command: str = "ssh"
    options: tuple[str, ...] = ()
    connect_timeout: int = 8
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    same: tuple[str, ...] = ()
    send: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.connect_timeout < 1:
            raise InputError(f"connect_timeout={self.connect_timeout} must be at least 1 second")
        if not self.words:
            raise InputError("command is empty; give the ssh client, such as command = 'ssh'")

    @property
    def words(self) -> tuple[str, ...]:
        """The client and its options."""
        return (*shlex.split(self.command), *self.options)


def hosts_of(job: Job) -> tuple[Settings, tuple[Host, ...]]:
    """The hosts of a job; asks ssh how it would reach them, and connects to none.

    Raises:
        InputError: no ssh here, a number in place of names, options of no host, a host twice, or one that others cannot reach.
    """
    settings = convert(job.options, Settings, "[ssh]")
    if isinstance(job.hosts, int):
        raise InputError(f"hosts={job.hosts} is a number, but engine='ssh' needs names, such as ann@graph1,graph2:2222")
    if shutil.which(settings.words[0]) is None:
        raise InputError(
            f"{settings.words[0]!r} is not installed on this machine, and engine='ssh' connects with it; install OpenSSH's "
            "client (apt-get install openssh-client), or name it: [ssh] command = '/path/to/ssh'"
        )
    own = {name: convert(table, HostOptions, f"[ssh.hosts.{name}]") for name, table in settings.hosts.items()}
    spelled = [_parsed(text) for text in job.hosts]
    if unknown := set(own) - {name for text, (_, name, _) in zip(job.hosts, spelled, strict=True) for name in (text, name)}:
        raise InputError(f"[ssh.hosts.{min(unknown)}] is no host of this job; its hosts are {', '.join(job.hosts)}")
    found: list[Host] = []
    for text, (user, name, port) in zip(job.hosts, spelled, strict=True):
        options = own.get(text) or own.get(name) or HostOptions()
        target = _target(options.user or user, name, options.port or port)
        address = options.address or _effective(settings, target, name)
        if len(job.hosts) > 1 and (is_loopback_host(address) or address == "localhost"):
            raise InputError(
                f"host {name} is reached at {address} from here, where the other hosts cannot reach it; "
                f"give the address that they use: [ssh.hosts.{name}] address = '10.0.0.7'"
            )
        for other in found:
            if other.name == name or other.address == address:
                raise InputError(
                    f"hosts {other.name} and {name} are one ({address}); name each host once, and say trainers = 2 for more "
                    "processes on it"
                )
        if options.data and job.cache is not None:
            raise InputError(f"host {name} has its own data={options.data!r}, but cache={job.cache!r} brings them; leave one out")
        found.append(
            Host(
                name=name,
                target=target,
                address=address,
                python=options.python or job.python,
                folder=options.folder or job.folder,
                data=options.data or job.data,
                python_key=f"[ssh.hosts.{name}] python, or python_bins",
                env={**job.env, **options.env},
                own=options.env,
                server_port=options.server_port,
            )
        )
    return settings, tuple(found)


def _parsed(text: str) -> tuple[str, str, int]:
    """User, name and port of a host as a job names it; "" and 0 where it does not say.

    Example:
        >>> _parsed("ann@graph1:2222"), _parsed("graph2"), _parsed("[fd00::7]:22"), _parsed("fd00::7")
        (('ann', 'graph1', 2222), ('', 'graph2', 0), ('', 'fd00::7', 22), ('', 'fd00::7', 0))
    """
    user, _, place = text.rpartition("@")
    name, colon, port = place.rpartition(":")
    if not colon or place.endswith("]") or (":" in name and not name.startswith("[")):  # no port, or part of an IPv6 address
        name, port = place, ""
    elif not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise InputError(f"host {text!r}: {port!r} is no port; write it like ann@graph1:2222")
    name = name.strip("[]")
    if not name or name.startswith("-"):
        raise InputError(f"{text!r} is no host; write it like graph1, ann@graph1 or ann@graph1:2222")
    return user, name, int(port or 0)


def _target(user: str, name: str, port: int) -> tuple[str, ...]:
    return (*(("-p", str(port)) if port else ()), *(("-l", user) if user else ()), "--", name)


def _effective(settings: Settings, target: Sequence[str], name: str) -> str:
    """The HostName that ssh would connect to."""
    command = [*settings.words, "-G", *target]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"host {name}: `{shlex.join(command)}` has not ended within {_ASK_S:g} s; see whether a command of your ssh "
            "configuration (Match exec) waits"
        ) from error
    lines = [line.partition(" ") for line in asked.stdout.splitlines()]
    found = next((value for key, _, value in lines if key == "hostname"), None)
    if asked.returncode or found is None:
        said = (asked.stderr or asked.stdout).strip() or f"it ended with exit code {asked.returncode}"
        raise InputError(f"host {name}: {settings.words[0]} cannot read its configuration: {said}")
    return found
