"""The folder of a run: what lies in it, and whether another run may begin there."""

from pathlib import Path

from halohop.errors import InputError
from halohop.files import remove, writing
from halohop.recipes.config import TrainConfig
from halohop.recipes.events import METRICS
from halohop.recipes.resume import STATE

CHECKPOINT = "checkpoint"

_OF_A_RUN = (METRICS, STATE, CHECKPOINT)


def check_run(config: TrainConfig) -> None:
    """Refuses to lose a run, finished or not, without having been asked to.

    Raises:
        InputError: a run is there, and ``config.overwrite`` and ``config.resume`` are false.
    """
    out = Path(config.out)
    there = [name for name in _OF_A_RUN if (out / name).exists()]
    if there and not config.overwrite and not config.resume:
        raise InputError(
            f"{out} holds a run, whose {there[0]} would be lost; choose another folder, go on with it (resume=True, --resume), "
            "or begin anew there (overwrite=True, --overwrite)"
        )


def clear_run(config: TrainConfig) -> None:
    """Removes what another run left, so that nothing of it is taken for this one's; its log goes when the new one begins."""
    for name in (STATE, CHECKPOINT):
        path = Path(config.out) / name
        with writing(path):
            remove(path)
