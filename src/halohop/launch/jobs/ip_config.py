"""`ip_config.txt`, DGL's list of the hosts of a job: a line for each, with its address and perhaps a port."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

from halohop.errors import InputError
from halohop.files.reading import read_regular
from halohop.transport.addresses import is_loopback_host

_NAME = re.compile(r"[A-Za-z0-9_]([\w.-]*[A-Za-z0-9_])?")
_NUMBERS = re.compile(r"[0-9.]+")
_NOWHERE = ("0.0.0.0", "::", "localhost")
_FORM = "write a line like 10.0.0.7, or 10.0.0.7 30050 with the port of its server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One host.

    Args:
        host: its address or name, an IPv6 address without brackets.
        port: where its server answers; 0: at a free port.
    """

    host: str
    port: int = 0


def read_ip_config(path: Path) -> tuple[Entry, ...]:
    """The hosts of a file, in the order of its lines; empty lines and what follows a ``#`` count for nothing.

    Raises:
        InputError: no such file, no host in it, or a line that cannot work; names the line.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "ip_config.txt")
        ...     _ = file.write_text("10.0.0.7  # the first\\n\\nfd00::8 30050\\n")
        ...     read_ip_config(file)
        (Entry(host='10.0.0.7', port=0), Entry(host='fd00::8', port=30050))
    """
    try:
        lines = read_regular(path).decode().splitlines()
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; name the one that lists the hosts (ip_config)") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text; {_FORM}") from None
    found: dict[str, tuple[int, Entry]] = {}
    for number, line in enumerate(lines, start=1):
        words = line.lstrip("\ufeff").partition("#")[0].split()
        if not words:
            continue
        try:
            entry = _entry(words)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
        if entry.host in found:
            raise InputError(
                f"{path}, line {number}: {entry.host} is on line {found[entry.host][0]}, too; name each host once, and "
                "ask for more trainers on each (num_trainers)"
            )
        found[entry.host] = (number, entry)
    if not found:
        raise InputError(f"{path} names no host; {_FORM}")
    for host, (number, _) in found.items():
        if len(found) > 1 and (host in _NOWHERE or is_loopback_host(host)):
            raise InputError(f"{path}, line {number}: {host} is reached by no other host; write the address that the others use")
    return tuple(entry for _, entry in found.values())


def _entry(words: list[str]) -> Entry:
    """
    Raises:
        InputError: they are no host, or no port; without the place.
    """
    host, *rest = words
    if len(rest) > 1:
        raise InputError(f"{' '.join(words)!r} has {len(words)} words; {_FORM}")
    if rest and not (rest[0].isascii() and rest[0].isdecimal() and 0 < int(rest[0]) < 1 << 16):
        raise InputError(f"{rest[0]!r} is no port, which are from 1 to {(1 << 16) - 1}; {_FORM}")
    return Entry(host=_host(host), port=int(rest[0]) if rest else 0)


def _host(text: str) -> str:
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if ":" in bare or _NUMBERS.fullmatch(text):
        try:
            return str(ipaddress.ip_address(bare))
        except ValueError:
            raise InputError(f"{text!r} is no address; {_FORM}") from None
    if not _NAME.fullmatch(text):
        raise InputError(f"{text!r} is no address or name of a host; {_FORM}; users are given by ssh_username")
    return text
