"""What the table of names says, as warnings and errors."""

import warnings
from functools import cache
from typing import Any, NoReturn

from halohop.dgl.names import ACCEPTED, REFUSED
from halohop.errors import InputError


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
    raise InputError(f"{name} of DGL is not offered: {REFUSED[name]}")


def missing(package: str, name: str) -> Any:
    """What a package returns for a name that it lacks: one that DGL has can be imported, and is refused when it is used.

    Args:
        package: below `halohop.dgl`; "" is that itself.

    Raises:
        AttributeError: DGL has no such name, either.
    """
    full = f"{package}.{name}".lstrip(".")
    if full not in REFUSED:
        where = f"halohop.dgl.{package}".rstrip(".")
        raise AttributeError(f"module {where!r} has no attribute {name!r}")
    return Refused(name, (), {"__init__": lambda self, *_, **__: refused(full), "__doc__": REFUSED[full], "full": full})


class Refused(type):
    """The type of names that are refused when they are used: called, or asked for names of their own."""

    full: str

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refused(cls.full)


class Lacking:
    """Gives classes the methods that DGL's have and these have not: each is refused when it is called.

    Attributes:
        of_dgl: the class as `names.REFUSED` calls it.
    """

    of_dgl = ""

    def __getattr__(self, name: str) -> Any:
        full = f"{type(self).of_dgl}.{name}"
        if full in REFUSED:
            return lambda *_, **__: refused(full)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
