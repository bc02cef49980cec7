"""Reads fanouts, names and sizes from the text of options; callbacks refuse invalid text."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from halohop.errors import InputError
from halohop.launch.options import spec
from halohop.memory import parse_size


def numbers(text: str) -> tuple[int, ...]:
    """The fanout that an option spells.

    Raises:
        InputError: a part is not a whole number.

    Example:
        >>> numbers("15,10,5")
        (15, 10, 5)
    """
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is not like 15,10,5: one whole number per hop, -1 for all neighbours") from None


def names(text: str) -> tuple[str, ...]:
    """The names that an option spells.

    Example:
        >>> names("user,rates,film"), names("")
        (('user', 'rates', 'film'), ())
    """
    return tuple(text.split(",")) if text else ()


def size_text(text: str) -> str:
    """The size that an option spells, as it is.

    Raises:
        InputError: not a size.
    """
    parse_size(text)
    return text


def cache_bytes(text: str) -> int | str | None:
    """The size of a cache that an option spells: "auto", "none", or a size.

    Raises:
        InputError: the text is not "auto", "none" or a size.

    Example:
        >>> cache_bytes("auto"), cache_bytes("none"), cache_bytes("1KiB")
        ('auto', None, 1024)
    """
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    try:
        return parse_size(text)
    except InputError as error:
        raise InputError(f"{error}; or auto, or none") from None


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """Reads several ``NAME=VALUE``.

    Raises:
        InputError: one is spelled otherwise, or a name comes twice.

    Example:
        >>> pairs(["epochs=3", "fanout=10,5"])
        {'epochs': '3', 'fanout': '10,5'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign:
            raise InputError(f"{text!r} is not like NAME=VALUE")
        if name in found:
            raise InputError(f"{name} is given twice")
        found[name] = value
    return found


def flags(texts: Sequence[str]) -> dict[str, str | bool]:
    """Reads several ``NAME=VALUE``; the values ``true`` and ``false`` are those of flags.

    Raises:
        InputError: as `pairs`.

    Example:
        >>> flags(["epochs=3", "encrypt=true"])
        {'epochs': '3', 'encrypt': True}
    """
    return {name: {"true": True, "false": False}.get(value, value) for name, value in pairs(texts).items()}


def check_with(read: Callable[[Any], object]) -> Callable[[Any], Any]:
    """A callback of an option, which refuses text, or a list of texts, that `read` cannot read."""

    def check(text: Any) -> Any:
        if text is not None:
            with _usage():
                read(text)
        return text

    return check


def read_config_option(context: typer.Context, path: Path | None) -> Path | None:
    with _usage():
        return spec.from_file(context, path)


def read_run_option(context: typer.Context, folder: str | None) -> str | None:
    with _usage():
        return spec.from_run(context, folder)


@contextmanager
def _usage() -> Iterator[None]:
    """Errors about the text of an option are shown with the option's name and the command's usage."""
    try:
        yield
    except InputError as error:
        raise typer.BadParameter(str(error)) from error
