"""What lies at URLs while a command works with it: in a folder of this host, --stage."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from halohop.datasets.estimate import source_files
from halohop.errors import InputError
from halohop.files import is_url, masked, remove, write_file, writing
from halohop.files.private import private_folder, refuse_links
from halohop.files.url_folder import UrlFolder
from halohop.launch.runs.reading import files_digest
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.progress import stages
from halohop.store.afar.fetching import wait_for_lock
from halohop.store.afar.staging import Stage, staged
from halohop.store.afar.uploading import check_target, upload
from halohop.world import World


@contextmanager
def parts_here(
    parts: str,
    stage: Stage,
    *,
    console: Console,
    partitions: Sequence[int] | None = None,
    share: str | None = None,
    world: World | None = None,
) -> Iterator[str]:
    """The folder of a data set, which is fetched if it lies at a URL; what is no URL stays as it is.

    Args:
        parts: as on the command line.
        stage: where it is fetched to; it stays there for as long as the block lasts, and longer if there is room.
        console: where a bar shows how far it is.
        partitions, share, world: which partitions are needed here, as of `halohop.store.afar.staging.staged`.

    Raises:
        InputError, DatasetError, WriteError, DeadlineExceededError: as of `staged`.
    """
    if not is_url(parts):
        yield parts
        return
    with stages(console) as progress:
        found = staged(parts, stage, partitions=partitions, share=share, world=world, progress=progress)
    with found:
        yield str(found.folder)


def built_and_sent(
    url: str,
    stage: Stage,
    asked: Mapping[str, Any],
    build: Callable[[Path], None],
    *,
    overwrite: bool,
    console: Console,
    deadline: float = 300.0,
) -> None:
    """Builds a data set in a folder of this host, and sends it to a URL; where that was stopped, the same again goes on.

    Args:
        url: where it goes.
        stage: the folder below which it is built, in ``builds``, and from which it is removed when it is at the URL.
        asked: all that decides what is built, by the names of the options.
        build: builds it in the folder that it is given.
        overwrite: replace the data set that is at the URL.
        console: where a bar shows how far the upload is.
        deadline: seconds without a sign of another process that does the same, or a file that has been sent, before giving up.

    Raises:
        InputError: no folder to build in, or others may write it; or something is at the URL.
        HalohopError: as of `build` and `halohop.upload`.
    """
    if stage.folder is None:
        raise InputError(f"{masked(url)} is written after the partitions were built here; say in which folder: stage=FOLDER")
    source = str(asked["source"])
    key = repr((url, sorted((name, str(value)) for name, value in asked.items()), files_digest(source_files(source))))
    place = private_folder(stage.folder, "builds") / hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    built = place.with_suffix(".built")
    refuse_links(place)
    with writing(place):
        lock = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    try:
        wait_for_lock(lock, place, deadline)
        if not built.exists():
            check_target(UrlFolder(url), overwrite=overwrite)  # before what may take hours
            build(place)
            write_file(built, b"")
        with stages(console) as progress:
            upload(place, url, overwrite=overwrite, progress=progress)
        remove(built)
        remove(place)
        remove(place.with_suffix(".lock"))
    finally:
        os.close(lock)
