"""Runs, checkpoints and results at URLs: they are written and read in a folder of this host, --stage, and copied."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from halohop.errors import IncompleteDatasetError, InputError
from halohop.files import UrlFolder, is_url, masked, remove, whole_file, write_file, writing
from halohop.files.private import private_folder, refuse_links
from halohop.inference.results import FILES, INCOMPLETE
from halohop.launch.options.spec import OPTIONS
from halohop.recipes.checkpoint import MODEL
from halohop.recipes.config import Resume
from halohop.recipes.names import CHECKPOINT, METRICS, STATE, TABLES
from halohop.store.afar.staging import Stage

_PIECE = 64 << 20
"""Bytes of a file that are in memory at a time."""


def run_here(out: str, stage: Stage, *, resume: Resume, rank: int) -> tuple[str, str | None]:
    """The folder of a run, and the URL to which it is copied; None where it has none.

    Args:
        out: a folder, or a URL.
        stage: where the folder of a URL is.
        resume: whether the run at the URL goes on: then rank 0 brings it here; "auto": what there is of it.
        rank: of this process.

    Raises:
        InputError: no folder to stage in, or no run at the URL to go on with.
        DatasetError: the URL cannot be read.
    """
    if not is_url(out):
        return out, None
    folder = _folder_of(out, stage, "runs")
    if resume and rank == 0:
        source = UrlFolder(out)
        if resume is True and source.size(STATE) is None:
            raise InputError(f"{source.name} holds no run to go on with: it has no {STATE}; begin one with --out")
        vectors = [name for name in source.files() if name.split("/")[0] == TABLES or _is_vectors(name, CHECKPOINT)]
        _bring(source, folder, (OPTIONS, METRICS, f"{CHECKPOINT}/{MODEL}", *vectors, STATE))
    return str(folder), out


def checkpoint_here(checkpoint: str, stage: Stage) -> str:
    """The folder of a checkpoint, which is fetched if it lies at a URL.

    Raises:
        IncompleteDatasetError: there is no checkpoint at the URL.
        InputError, DatasetError: as of `run_here`.
    """
    if not is_url(checkpoint):
        return checkpoint
    folder, source = _folder_of(checkpoint, stage, "checkpoints"), UrlFolder(checkpoint)
    if source.size(MODEL) is None:
        raise IncompleteDatasetError(f"{source.name} is no checkpoint: it has no {MODEL}; give RUN/checkpoint")
    _bring(source, folder, (*(name for name in source.files() if _is_vectors(name, "")), MODEL))
    return str(folder)


@contextmanager
def results_here(out: str, stage: Stage, *, overwrite: bool, rank: int) -> Iterator[Path]:
    """The folder for the results of inference; where `out` is a URL, rank 0 sends them there when the block ends well.

    Args:
        out: a folder, or a URL.
        stage: where the folder of a URL is; it is removed when the results are at the URL.
        overwrite: whether results that are at the URL may be replaced.
        rank: of this process.

    Raises:
        InputError: no folder to stage in, or results are at the URL.
        WriteError: the URL cannot be written.
    """
    if not is_url(out):
        yield Path(out)
        return
    folder = _folder_of(out, stage, "results")
    if rank != 0:
        yield folder
        return
    target = UrlFolder(out)
    there = target.files()
    if not overwrite and INCOMPLETE not in there and (found := [name for name in FILES if name in there]):
        raise InputError(f"{target.at(found[0])} would be lost; choose another URL, or replace what is there (overwrite=True)")
    refuse_links(folder)
    for name in FILES:  # of a run that was stopped after its last step
        remove(folder / name)
    yield folder
    write_file(folder / INCOMPLETE, b"These files are not complete: the run that sent them was stopped. Start it again.\n")
    made = [name for name in FILES if (folder / name).exists()]
    target.send(folder / INCOMPLETE, INCOMPLETE)
    for name in set(there) & set(FILES) - set(made):
        target.remove(name)
    for name in made:
        target.send(folder / name, name)
    target.remove(INCOMPLETE)
    remove(folder)


def _folder_of(url: str, stage: Stage, kind: str) -> Path:
    if stage.folder is None:
        raise InputError(f"{masked(url)} is written and read through a folder here; say which: stage=FOLDER")
    return private_folder(stage.folder, kind, hashlib.blake2b(url.rstrip("/").encode(), digest_size=16).hexdigest())


def _is_vectors(name: str, folder: str) -> bool:
    """Whether a file holds vectors that nodes have learned, beside the model in this folder."""
    return name.rpartition("/")[0] == folder and name.endswith(".npy")


def _bring(source: UrlFolder, folder: Path, names: Sequence[str]) -> None:
    refuse_links(*(folder / name.split("/")[0] for name in names))
    for name in names:
        size = source.size(name)
        if size is None:  # the run has not come so far
            remove(folder / name)
            continue
        with writing(folder / name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / name) as stream:
            for begin in range(0, size, _PIECE):
                stream.write(source.read_range(name, begin, min(begin + _PIECE, size)))
