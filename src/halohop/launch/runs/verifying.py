"""The files of a data set, looked at before a command uses them, and again where that has failed."""

from collections.abc import Sequence
from pathlib import Path

from halohop.errors import CorruptDatasetError, DatasetError, HalohopError, InputError
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.progress import stages
from halohop.recipes.checks import servers_of
from halohop.store.disk import held_parts, map_part, read_manifest, verify_parts


def verify(parts: str, console: Console) -> None:
    """Reads every file of the partitions in a folder and compares it with its checksum, under a progress bar.

    Raises:
        DatasetError: a file is not what the manifest says; names it.
        InputError: `parts` are servers.
    """
    if servers_of(parts):
        raise InputError(f"{parts} are servers, which verify what they hold: halohop serve PARTS --verify; leave --verify out")
    with stages(console) as progress:
        verify_parts(parts, progress)


def check_still_whole(folders: Sequence[Path], failure: HalohopError) -> None:
    """Looks whether files were changed while they were in use, which ends a process that has mapped them without a word.

    Raises:
        CorruptDatasetError: one is not as the manifest says any more; names it. From `failure`.
    """
    try:
        for folder in folders:
            manifest = read_manifest(folder)
            for part in held_parts(folder, manifest):
                map_part(folder, manifest, part)
    except DatasetError as damage:
        raise CorruptDatasetError(f"{damage}; it was changed while it was in use") from failure
