"""Errors of the library in the words of the command line: a setting that a message names as `name=value` becomes its option."""

import ast
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

_VALUE = r"\([^()]*\)|\[[^\[\]]*\]|'[^']*'|\"[^\"]*\"|-?[A-Za-z0-9_.]*[A-Za-z0-9_]"


def options_of(parameters: Iterable[Any]) -> dict[str, tuple[str, str]]:
    """The flags of a command's options by the settings' names in Python: the one to set it, and to unset it ("": none)."""
    flags: dict[str, tuple[str, str]] = {}
    for parameter in parameters:
        long = [flag for flag in parameter.opts if flag.startswith("--")]
        if long:
            off = next(iter(parameter.secondary_opts), "")
            flags[parameter.name] = flags[f"{parameter.name}_s"] = (long[0], off)  # deadline_s is in seconds
    return flags


def spelled(message: str, flags: Mapping[str, tuple[str, str]]) -> str:
    """A message of the library as the user of a command can follow it.

    Args:
        message: names settings as ``name=value``, the value as Python writes it.
        flags: from `options_of`; other names stay as they are.

    Example:
        >>> flags = {"overwrite": ("--overwrite", ""), "fanout": ("--fanout", ""), "strict": ("--strict", "--no-strict")}
        >>> spelled("out exists; pass overwrite=True. fanout=(5, -3) is wrong, strict=False, too", flags)
        'out exists; pass --overwrite. --fanout 5,-3 is wrong, --no-strict, too'
        >>> spelled("rounds=0 must be at least 1", flags)
        'rounds=0 must be at least 1'
    """
    if not flags:
        return message
    names = "|".join(sorted(map(re.escape, flags), key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])({names})=({_VALUE})", lambda found: _option(found, flags), message)


def _option(found: re.Match[str], flags: Mapping[str, tuple[str, str]]) -> str:
    on, off = flags[found[1]]
    try:
        value = ast.literal_eval(found[2])
    except (ValueError, SyntaxError):
        value = found[2]
    if value is True:
        return on
    if value is False:
        return off or f"no {on}"
    if value is None:
        return f"no {on}"
    return f"{on} {shlex.quote(','.join(map(str, value)) if isinstance(value, list | tuple) else str(value))}"


def counted(count: int, what: str) -> str:
    """A number of things.

    Example:
        >>> counted(1, "node"), counted(2, "trainer")
        ('1 node', '2 trainers')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"
