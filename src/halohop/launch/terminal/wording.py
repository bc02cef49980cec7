"""Errors of the library in the words of the command line: settings become options, and Python's lists become plain ones."""

import ast
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

_LITERAL = r"\([^()]*\)|\[[^\[\]]*\]|'[^']*'|\"[^\"]*\"|None|True|False|-?[\d.][\w.+-]*\w|-?\d"
_VALUE = rf"{_LITERAL}|-?[A-Za-z0-9_.]*[A-Za-z0-9_]"
_START, _END = r"(?<![\w.?&=/:'\"-])", r"(?![\w&/])"  # not in a URL, a path, quoted text or an option
_IN_PYTHON = re.compile(
    r"\[Errno -?\d+\] | \(halohop\.\w+\((?:[^()]|\([^()]*\))*\)\)"
    rf"|{_START}(?:[a-z_]+=(?:{_VALUE})?|(?<=\()[a-z_]+), (?:on the command line )?(?=--[a-z])"
)
_SETTING = re.compile(rf"{_START}([a-z]\w*)=({_LITERAL}){_END}")
_SEQUENCE = re.compile(r"(?<![\w\]=`'\"])(?<!= )(?:\[(?:[^\[\]]|\[[^\[\]]*\])*\]|\('[^'()]*'(?:, '[^'()]*')+\))")
_TWICE = re.compile(r"(--[\w-]+(?: [\w,.]+)?)(?:(?:,| or) \1)+(?![\w-])")
_OTHER_NAMES = {
    "num_parts": ("parts", "nodes"),
    "num_neighbors": ("fanout",),
    "ratio": ("replica_ratio",),
    "memory": ("replica_memory",),
}
"""Settings of the library, and the parameters of commands that set them."""


def options_of(parameters: Iterable[Any]) -> dict[str, tuple[str, str]]:
    """The flags of a command's options by the settings' names in Python: the one to set it, and to unset it ("": none)."""
    flags: dict[str, tuple[str, str]] = {}
    for parameter in parameters:
        long = [flag for flag in parameter.opts if flag.startswith("--")]
        if long:
            off = next(iter(parameter.secondary_opts), "")
            flags[parameter.name] = flags[f"{parameter.name}_s"] = (long[0], off)  # deadline_s is in seconds
    return {name: flags[known] for name, names in _OTHER_NAMES.items() for known in names if known in flags} | flags


def spelled(message: str, flags: Mapping[str, tuple[str, str]]) -> str:
    """A message of the library as the user of a command can follow it; URLs, paths, quoted text and tracebacks do not change.

    Args:
        message: names settings as ``name=value``, the value as Python writes it.
        flags: from `options_of`.

    Example:
        >>> flags = {"overwrite": ("--overwrite", ""), "fanout": ("--fanout", ""), "strict": ("--strict", "--no-strict")}
        >>> spelled("out exists; pass overwrite=True. fanout=(5, -3) is wrong, strict=False, too", flags)
        'out exists; pass --overwrite. --fanout 5,-3 is wrong, --no-strict, too'
        >>> spelled("edge_dir='up' is not in ['in', 'out'], see s3://bucket?strict=1", flags)
        'edge dir up is not in in, out, see s3://bucket?strict=1'
    """
    text, mark, trace = message.partition("Traceback (most recent")
    text = _IN_PYTHON.sub("", text)
    if names := "|".join(sorted(map(re.escape, flags), key=len, reverse=True)):
        text = re.sub(rf"{_START}({names})=({_VALUE}){_END}", lambda found: _option(found, flags), text)
        text = re.sub(rf"{_START}\b({names})\b(?![(/]|\.\w| ?=)", lambda found: _name(found, flags), text)
    text = _SETTING.sub(lambda found: f"{found[1].replace('_', ' ') if flags else found[1]} {_plain(found[2])}", text)
    text = _SEQUENCE.sub(lambda found: _plain(found[0]), text)
    return _TWICE.sub(r"\1", text) + mark + trace


def _option(found: re.Match[str], flags: Mapping[str, tuple[str, str]]) -> str:
    on, off = flags[found[1]]
    if found[2] == "True":
        return on
    if found[2] in ("False", "None"):
        return off if off and found[2] == "False" else f"no {on}"
    return f"{on} {shlex.quote(_plain(found[2], ','))}"


def _name(found: re.Match[str], flags: Mapping[str, tuple[str, str]]) -> str:
    """An option for its setting's name; words of English stay, unless it is clear that they are names."""
    around = found.string[max(found.start() - 6, 0) : found.start()], found.string[found.end() : found.end() + 11]
    is_name = (
        "_" in found[0] or (around[0][-1:], around[1][:1]) == ("(", ")") or (around[0] == "leave " and around[1][:4] == " out")
    )
    return flags[found[0]][0] if is_name or (not around[0] and around[1] == " is missing") else found[0]


def _plain(text: str, comma: str = ", ") -> str:
    """A literal of Python without quotes and brackets: lists with `comma`, tuples, such as relations, as options take them."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    if isinstance(value, list | tuple):
        items = [",".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in value]
        return (comma if isinstance(value, list) else ",").join(items) or "none"
    return value if isinstance(value, str) else text


def counted(count: int, what: str) -> str:
    """A number of things.

    Example:
        >>> counted(1, "node"), counted(2, "trainer")
        ('1 node', '2 trainers')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """A duration as people say it.

    Example:
        >>> [format_seconds(seconds) for seconds in (0.2, 4.56, 42, 400, 9000, 200000)]
        ['200 ms', '4.6 s', '42 s', '7 min', '2.5 h', '2.3 days']
    """
    if 0 < seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 36 * 3600 else f"{seconds / 86400:.1f} days"
