"""What the command line spells as text: fanouts, names, sizes, and whole configs; and the callbacks that refuse what is none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import typer

from halohop.errors import InputError
from halohop.launch.options import spec
from halohop.memory import parse_size
from halohop.recipes.config import Config as AnyConfig
from halohop.recipes.config import InferConfig, TrainConfig


def defaults(kind: type[TrainConfig] | type[InferConfig]) -> dict[str, Any]:
    """What a config takes where nothing is said, by name; sequences as the command line spells them.

    Example:
        >>> defaults(TrainConfig)["fanout"]
        '15,10'
    """
    values = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return {name: ",".join(map(str, value)) if isinstance(value, tuple) else value for name, value in values.items()}


def numbers(text: str | None) -> tuple[int, ...] | None:
    """The fanout that an option spells.

    Example:
        >>> numbers("15,10,5")
        (15, 10, 5)
    """
    return None if text is None else tuple(int(number) for number in text.split(","))


def names(text: str | None) -> tuple[str, ...] | None:
    """The relation that an option spells.

    Example:
        >>> names("user,rates,film")
        ('user', 'rates', 'film')
    """
    return None if text is None else tuple(text.split(","))


def num_bytes(text: str | None) -> int | None:
    """The size that an option spells.

    Example:
        >>> num_bytes("512MiB")
        536870912
    """
    return None if text is None else parse_size(text)


def pairs(texts: Sequence[str], option: str) -> dict[str, str | bool]:
    """What options like ``NAME=VALUE`` spell.

    Raises:
        InputError: one is spelled otherwise, or a name comes twice.

    Example:
        >>> pairs(["epochs=3", "fanout=10,5"], "--train")
        {'epochs': '3', 'fanout': '10,5'}
    """
    found: dict[str, str | bool] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise InputError(f"{option} {text!r} is not like NAME=VALUE")
        if name in found:
            raise InputError(f"{option} {name} is given twice")
        found[name] = {"true": True, "false": False}.get(value, value) if option == "--train" else value
    return found


def config_of(kind: type[AnyConfig], given: Mapping[str, Any], **others: Any) -> AnyConfig:
    """The config that a command's parameters spell, by their names; `others` go first."""
    readers: dict[str, Callable[[str | None], Any]] = {"fanout": numbers, "eval_fanout": numbers, "relation": names}
    readers |= dict.fromkeys(("backlog_bytes", "memory", "hot_memory"), num_bytes) | {"cache": cache_bytes}
    values: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in given:
            value = given[field.name]
            spelled = str(value) if isinstance(value, Path) else value
            values[field.name] = readers[field.name](spelled) if field.name in readers else spelled
    return kind(**values | others)


def check_numbers(text: str | None) -> str | None:
    """Callback of an option that spells a fanout: refuses what is none."""
    try:
        numbers(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not like 15,10,5: one whole number per hop, -1 for all neighbours") from None
    return text


def cache_bytes(text: str | None) -> int | str | None:
    """The size of a cache that an option spells: "auto", "none", or a size.

    Example:
        >>> cache_bytes("auto"), cache_bytes("none"), cache_bytes("1KiB")
        ('auto', None, 1024)
    """
    if text in (None, "none"):
        return None
    return text if text == "auto" else num_bytes(text)


def check_cache(text: str | None) -> str | None:
    """Callback of an option that spells the size of a cache: refuses what is none."""
    try:
        cache_bytes(text)
    except InputError as error:
        raise typer.BadParameter(f"{error}; or auto, or none") from None
    return text


def check_size(text: str | None) -> str | None:
    try:
        num_bytes(text)
    except InputError as error:
        raise typer.BadParameter(str(error)) from None
    return text


def read_config_option(context: typer.Context, path: Path | None) -> Path | None:
    try:
        return spec.from_file(context, path)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error


def read_run_option(context: typer.Context, folder: str | None) -> str | None:
    try:
        return spec.from_run(context, folder)
    except InputError as error:
        raise typer.BadParameter(str(error)) from error
