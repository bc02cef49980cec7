"""The folder of a run: what is stored in it, and whether a run may start or resume there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from halohop.errors import InputError
from halohop.files import UrlFolder, decode_json, read_regular, refuse_links, remove, writing
from halohop.recipes.config import TrainConfig, to_dict
from halohop.recipes.names import CHECKPOINT, METRICS, STATE, TABLES

MAY_CHANGE = frozenset(
    (
        *("parts", "sampling", "token_file", "encrypt", "workers", "backlog_bytes", "device", "deadline_s"),
        *("cache", "memory", "hot_memory", "mode", "feature_cache", "compile"),
        *("out", "copy_to", "overwrite", "resume", "log_every", "save_every", "epochs", "patience", "metrics"),
    )
)
"""What another run may choose for itself: none of it changes a batch, or what is learned from it."""

_OF_A_RUN = (METRICS, STATE, CHECKPOINT, TABLES)


def check_run(config: TrainConfig, ranks: int | None = None) -> bool:
    """Returns whether the run in the folder is resumed. Refuses to lose a run, finished or not, without being asked to.

    With ``config.resume="auto"`` a run is this one if its log starts with the same settings, apart from `MAY_CHANGE`, and the
    same number of trainers. The graph is compared when the state is read. This run

    - starts if the folder has nothing of a run;
    - resumes if the folder has a state of this run, finished or not;
    - starts again if this run was interrupted before its first state;
    - starts in place of any other run if ``config.overwrite`` is true.

    Args:
        config: of the run.
        ranks: number of trainers; None: not known yet.

    Raises:
        InputError: the folder has another run, or one without a state; or something of it is a symbolic link.
    """
    refuse_links(*(Path(config.out, name) for name in _OF_A_RUN))
    out, there = config.out, [name for name in _OF_A_RUN if Path(config.out, name).exists()]
    if config.resume == "auto" and there:
        return _resumes(config, ranks, there)
    if config.resume is True or config.overwrite:
        return config.resume is True
    if not there and config.copy_to is not None:
        target = UrlFolder(config.copy_to)
        out, there = target.name, [name for name in target.files() if name.split("/")[0] in _OF_A_RUN]
    if there:
        raise InputError(
            f"{out} holds a run, whose {there[0]} would be lost; choose another folder, go on with it (resume=True), or "
            "start again there (overwrite=True)"
        )
    return False


def find_change(config: TrainConfig, then: Mapping[str, Any]) -> str | None:
    """The first setting that makes this another run than the one with the settings `then`; None: it is the same run."""
    return next(
        (
            name
            for name, value in to_dict(config).items()
            if name not in MAY_CHANGE and _plain(then.get(name, value)) != _plain(value)
        ),
        None,
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


def _resumes(config: TrainConfig, ranks: int | None, there: list[str]) -> bool:
    """Whether ``resume="auto"`` resumes in a folder that has these files of a run."""
    out, remedy = Path(config.out), "choose another folder, or start again there (overwrite=True)"
    log = read_regular(out / METRICS) if METRICS in there else b""
    *lines, _ = log.split(b"\n")  # the last one may be incomplete
    first: dict[str, Any] = decode_json(lines[0], out / METRICS, dict[str, Any]) if lines else {}
    starts = first.get("event") == "start"
    other = _another(config, ranks, first) if starts else None
    if other is not None and not config.overwrite:
        raise InputError(f"{other}, so it is another run; use its settings, {remedy}")
    if other is None and STATE in there:
        return True
    has_model = (out / CHECKPOINT).is_dir() and any((out / CHECKPOINT).iterdir())
    before_first_state = METRICS in there and not has_model and len(lines) == starts
    if config.overwrite or before_first_state:
        return False
    raise InputError(f"{out} holds a run without {STATE} to resume from, whose {there[0]} would be lost; {remedy}")


def _another(config: TrainConfig, ranks: int | None, start: Mapping[str, Any]) -> str | None:
    """What shows that the run with this event "start" is another one; None: nothing."""
    then = start["config"]
    if (name := find_change(config, then)) is not None:
        return f"{name}={_plain(to_dict(config)[name])!r}, but the run in {config.out} has {name}={then[name]!r}"
    if ranks not in (None, start["ranks"]):
        return f"the run in {config.out} has {start['ranks']} trainers, and here are {ranks}"
    return None


def _plain(value: Any) -> Any:
    """Lists and tuples of the same are the same."""
    return list(value) if isinstance(value, tuple) else value
