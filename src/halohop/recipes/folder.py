"""The folder of a run: what lies in it, and whether another run may begin there."""

from pathlib import Path

from halohop.errors import InputError
from halohop.files import UrlFolder, refuse_links, remove, writing
from halohop.recipes.config import TrainConfig
from halohop.recipes.names import CHECKPOINT, METRICS, STATE, TABLES

_OF_A_RUN = (METRICS, STATE, CHECKPOINT, TABLES)


def check_run(config: TrainConfig) -> None:
    """Refuses to lose a run, finished or not, without having been asked to.

    Raises:
        InputError: a run is there, and ``config.overwrite`` and ``config.resume`` are false; or something of it is a symbolic
            link.
    """
    refuse_links(*(Path(config.out, name) for name in _OF_A_RUN))
    if config.overwrite or config.resume:
        return
    out = config.out
    there = [name for name in _OF_A_RUN if Path(out, name).exists()]
    if not there and config.copy_to is not None:
        target = UrlFolder(config.copy_to)
        out, there = target.name, [name for name in target.files() if name.split("/")[0] in _OF_A_RUN]
    if there:
        raise InputError(
            f"{out} holds a run, whose {there[0]} would be lost; choose another folder, go on with it (resume=True), or "
            "start again there (overwrite=True)"
        )


def clear_run(config: TrainConfig) -> None:
    """Removes what another run left, so that nothing of it is taken for this one's; its log goes when the new one begins."""
    for name in (STATE, CHECKPOINT, TABLES):
        path = Path(config.out) / name
        with writing(path):
            remove(path)
    if config.copy_to is not None:
        target = UrlFolder(config.copy_to)
        for name in target.files():
            if name.split("/")[0] in _OF_A_RUN:
                target.remove(name)
