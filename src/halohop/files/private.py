"""Folders that other users may share: what they could put there so that this process writes or deletes elsewhere is refused."""

import os
import shlex
import stat
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path

from halohop.errors import InputError
from halohop.files.aside import writing


def refuse_links(*paths: Path, but: str = "") -> None:
    """Refuses symbolic links in what is to be written or deleted.

    Args:
        paths: files and folders, each with everything below it; they need not exist.
        but: a pattern of names; links of these names below a path are left alone.

    Raises:
        InputError: one of them is a link.

    Example:
        >>> Path("elsewhere").mkdir()
        >>> Path("run").symlink_to("elsewhere")
        >>> refuse_links(Path("run"))
        Traceback (most recent call last):
        halohop.errors.InputError: run is a symbolic link to elsewhere, where nothing is written or deleted; remove it: rm run
    """
    for path in paths:
        refuse_link(path)
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                if not fnmatchcase(name, but):
                    refuse_link(Path(folder, name))


def refuse_links_to(folder: Path, name: str | Path) -> None:
    """Refuses symbolic links on the way from a folder to a name in it; raises as `refuse_links`."""
    for path in [*accumulate(Path(name).parts, Path.joinpath, initial=folder)][1:]:
        refuse_link(path)


def private_folder(top: Path, *below: str) -> Path:
    """A folder in one that users could share, made where it is missing.

    Args:
        top: the folder that the user named.
        below: the names of the folders that lead to it from there.

    Raises:
        InputError: it, or a folder on the way from `top`, is another user's, may be written by others, or is a link.
        WriteError: it cannot be made.
    """
    for path in accumulate(below, Path.joinpath, initial=top.resolve()):
        refuse_link(path)
        with writing(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = path.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise InputError(
                f"{path} belongs to user {found.st_uid} and has mode {stat.S_IMODE(found.st_mode):o}: others may write there; "
                f"run chmod go-w {shlex.quote(str(path))} if it is yours, or give a new folder as the stage: "
                f"{shlex.quote(str(top / 'NAME'))}, or elsewhere"
            )
    return path


def refuse_link(path: Path) -> None:
    """Refuses a symbolic link, and does not look below a folder; raises as `refuse_links`."""
    if path.is_symlink():
        raise InputError(
            f"{path} is a symbolic link to {path.readlink()}, where nothing is written or deleted; "
            f"remove it: rm {shlex.quote(str(path))}"
        )
