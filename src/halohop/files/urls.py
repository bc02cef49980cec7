"""What a URL is, for everything that takes a path: ``s3://bucket/parts``, and never a folder that is called ``s3:``."""

import os
import re
from pathlib import Path

from halohop.errors import InputError

LONGEST = 255
"""Bytes of the name of a file or folder."""

_URL = re.compile(r"(?!tcp://)[A-Za-z][A-Za-z0-9+.:-]+://")
_AS_PATH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # pathlib makes one slash of two
_SECRET = re.compile(r"(?<=://)([^/@\s:]*):[^@\s]*@|(?<=\?)[^\s'\"]+")


def is_url(path: str | Path) -> bool:
    """Whether a user means a place that is reached through a file system's name, not a folder or a file here.

    Example:
        >>> is_url("s3://bucket/parts"), is_url("parts"), is_url("synthetic:tiny"), is_url("tcp://10.0.0.7:5510")
        (True, False, False, False)
        >>> is_url(Path("s3://bucket/parts")), is_url(Path("s3://bucket/parts").absolute()), is_url(Path("runs/s3"))
        (True, True, False)
    """
    if isinstance(path, str):
        return _URL.match(path) is not None
    return _AS_PATH.match(f"{_from_here(path)}/") is not None


def as_url(path: str | Path) -> str:
    """The URL that a user means, also where it was made a path.

    Example:
        >>> as_url(Path("s3://bucket/parts"))
        's3://bucket/parts'
    """
    if isinstance(path, str):
        return path
    return re.sub(r":/(?=.)", ":///" if _from_here(path).parts[0] == "file:" else "://", str(_from_here(path)), count=1)


def masked(text: str) -> str:
    """A URL, or a text with URLs in it, without passwords and without what follows a question mark, where signatures stand.

    Example:
        >>> masked("cannot read sftp://ann:secret@host/parts"), masked("https://host/parts?sig=abc")
        ('cannot read sftp://ann:***@host/parts', 'https://host/parts?***')
    """
    return _SECRET.sub(lambda found: f"{found[1]}:***@" if found[0].endswith("@") else "***", text)


def refuse_url(path: str | Path, name: str, remedy: str) -> None:
    """Refuses a URL, and a name that no file can have, where only a folder or a file works.

    Args:
        path: what a user gives.
        name: how the user calls it, for the error.
        remedy: what helps.

    Raises:
        InputError: it is a URL, has a NUL in it, or a part of more than 255 bytes.

    Example:
        >>> refuse_url("s3://bucket/run", "out", "give a folder")
        Traceback (most recent call last):
        halohop.errors.InputError: out: s3://bucket/run is a URL, which does not work here; give a folder
    """
    if is_url(path):
        raise InputError(f"{name}: {masked(as_url(path))} is a URL, which does not work here; {remedy}")
    if "\0" in str(path) or any(len(os.fsencode(part)) > LONGEST for part in Path(path).parts):
        raise InputError(
            f"{name}: {str(path)[:100]!r} cannot be the name of a file; use at most {LONGEST} bytes, none of them NUL"
        )


def _from_here(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_absolute() and path.is_relative_to(Path.cwd()) else path
