"""What the table of names says, as warnings and errors."""

import warnings
from functools import cache
from typing import Any, NoReturn

from halohop.errors import InputError
from halohop.glt.names import ACCEPTED, REFUSED


@cache
def note(option: str) -> None:
    """Warns, once a process, that an argument changes nothing, and says what happens instead.

    Args:
        option: one of `names.ACCEPTED`.
    """
    warnings.warn(f"{option} changes nothing here: {ACCEPTED[option]}", stacklevel=3)


def refused(name: str) -> NoReturn:
    """
    Args:
        name: one of `names.REFUSED`.

    Raises:
        InputError: says what takes its place.
    """
    raise InputError(f"{name} of GLT is not offered: {REFUSED[name]}")


def missing(package: str, name: str) -> Any:
    """What a package returns for a name that it lacks: one that GLT has can be imported, and is refused when it is used.

    Raises:
        AttributeError: GLT has no such name, either.
    """
    full = f"{package}.{name}"
    if full not in REFUSED:
        raise AttributeError(f"module 'halohop.glt.{package}' has no attribute {name!r}")
    return type(name, (), {"__init__": lambda self, *_, **__: refused(full), "__doc__": REFUSED[full]})


class NotByHandle:
    """What GLT sends to other processes by handles of its own, and torch sends as it is."""

    def share_ipc(self) -> NoReturn:
        refused("data.share_ipc")

    @classmethod
    def from_ipc_handle(cls, ipc_handle: Any) -> NoReturn:
        refused("data.from_ipc_handle")
