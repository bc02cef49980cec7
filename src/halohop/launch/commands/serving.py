"""`halohop serve` in a terminal: prints its address, answers until a signal stops it."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import halohop
from halohop.errors import InputError
from halohop.launch.commands.serve import ServeOptions
from halohop.launch.terminal.console import Console
from halohop.net.finders import named_servers
from halohop.net.service import Keeping
from halohop.store.disk import read_manifest
from halohop.store.share import in_shares, shares
from halohop.transport import TOKEN_VARIABLE, load_token
from halohop.typing import NODE, TableKey


def serve(parts: Path, options: ServeOptions, *, seeds: Path | None, tables: Path | None, verify: bool, console: Console) -> None:
    """Serves until Ctrl-C, a request to terminate, or until as many clients as are expected have come and are gone.

    With a grace in seconds, a request to terminate (SIGTERM) is not a failure: connected clients are answered first.

    Raises:
        InputError, DatasetError, TransportError: as of `halohop.serve`.
    """
    token = load_token(options.token_file, encrypt=options.encrypt)
    with ExitStack() as stack:
        server = stack.enter_context(
            halohop.serve(
                parts,
                partitions=served_parts(parts, options.partitions, options.share),
                columns=given_columns(options.column or ()),
                listen=options.listen,
                advertise=options.advertise,
                peers=named_servers(options.peers or ""),
                token=token,
                keeping=Keeping(lease_seconds=options.lease),
                seeds=seeds,
                tables=tables,
                limits=halohop.hosts.Limits(handler_threads=options.threads),
                clients=options.clients,
                cache=options.cache,
                memory=options.memory,
                hot_memory=options.hot_memory or 0,
                verify=verify,
            )
        )
        console.print(f"serving partitions {', '.join(map(str, server.parts))} of {parts} at {server.address}")
        if options.metrics is not None:
            endpoint = stack.enter_context(halohop.metrics(server, listen=options.metrics))
            console.print(f"metrics at http://{endpoint.address}/metrics")
        if token is None:
            writes = f", and write and remove files in {tables}" if tables else ""
            who = f"all users of this host can read the graph and change its tables{writes}"
            console.print(f"no token is set, so {who}. Set {TOKEN_VARIABLE} or --token-file.", style="yellow")
        try:
            with _terminable(options.grace):
                server.wait()
            console.print(f"all {options.clients} clients have left or are lost")
        except _TerminatedError:
            gone = server.drain(options.grace)
            left = "all clients have left" if gone else f"after {options.grace:g} s, clients are still there"
            console.print(f"terminated: {left}")


class _TerminatedError(Exception):
    """A signal asks the server to end, and leaves it time."""


@contextmanager
def _terminable(grace: float) -> Iterator[None]:
    """With a grace, SIGTERM raises an error here, and the command's own answer to signals does not count the seconds."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is enough to say it once
        raise _TerminatedError

    if not grace:
        yield
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGTERM, terminate)
    yield


def given_columns(texts: Sequence[str]) -> dict[TableKey, dict[str, str]] | None:
    """The columns that options spell.

    Raises:
        InputError: one is spelled otherwise, or twice.

    Example:
        >>> given_columns(["y=labels.npy", "a__to__b:w=weights.npy"])
        {'node': {'y': 'labels.npy'}, ('a', 'to', 'b'): {'w': 'weights.npy'}}
    """
    found: dict[TableKey, dict[str, str]] = {}
    for text in texts:
        target, _, file = text.partition("=")
        table, _, name = target.rpartition(":")
        names = table.split("__")
        if not name or not file or len(names) not in (1, 3):
            raise InputError(f"column {text!r} is not like y=labels.npy, paper:y=labels.npy or a__to__b:weight=weights.npy")
        key: TableKey = (names[0], names[1], names[2]) if len(names) == 3 else table or NODE
        if name in found.setdefault(key, {}):
            raise InputError(f"column {name!r} of {key!r} is given twice; leave one out")
        found[key][name] = file
    return found or None


def served_parts(folder: Path, partitions: str | None, share: str | None) -> tuple[int, ...] | None:
    """The partitions that options choose; None: all that are found.

    Raises:
        InputError: both options are given, one cannot be read, or a share has no partition.
        DatasetError: the folder is no partitioned data set.
    """
    if share is None:
        return part_numbers(partitions)
    if partitions is not None:
        raise InputError(f"--share {share} and --partitions {partitions} both say what to serve; leave one out")
    return in_shares(shares(share), read_manifest(folder).num_parts)


def part_numbers(text: str | None) -> tuple[int, ...] | None:
    """The partitions that an option spells.

    Raises:
        InputError: no such list.

    Example:
        >>> part_numbers("0,2"), part_numbers(None)
        ((0, 2), None)
    """
    try:
        return None if text is None else tuple(int(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"partitions {text!r} are not like 0,2: numbers of partitions") from None
