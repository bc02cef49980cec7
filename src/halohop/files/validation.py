"""Values of files such as TOML, JSON and YAML as typed values, with errors in plain words instead of msgspec's."""

import re
from contextlib import suppress
from typing import Any, TypeVar, get_type_hints

import msgspec

from halohop.errors import InputError

Value = TypeVar("Value")

_WORDS = {"bool": "true or false", "str": "text", "int": "a whole number", "float": "a number", "null": "nothing"}
_WORDS |= {"array": "a list", "object": "a table"}
"""Types by msgspec's names."""


def validate(raw: Any, kind: type[Value] | Any, where: str) -> Value:
    """Converts what a file holds to a type. Lists become tuples, and nothing else is converted.

    Args:
        raw: as the file holds it.
        kind: the type, such as a dataclass, which may check its own values.
        where: what errors call the value: ``"job.toml: [ssh]"``.

    Raises:
        InputError: a value is missing or of another type, or the class refuses it.

    Example:
        >>> validate(["a", "b"], tuple[str, ...], "job.toml: hosts")
        ('a', 'b')
    """
    try:
        value: Value = msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:  # also what the class refuses
        raise InputError(f"{where}: {_explain(str(error), kind, raw)}") from error
    return value


def _explain(problem: str, kind: Any, raw: Any) -> str:
    """Translates a message of msgspec about a raw value.

    Example:
        >>> from halohop.store.share import Share
        >>> _explain("Expected `int`, got `str` - at `$.index`", Share, {"index": "1"})
        'index must be a whole number, got text'
    """
    problem, _, place = problem.partition(" - at `")
    name = re.sub(r"^(key` in `)?\$\.?|\[\.\.\.\]|`$", "", place)
    if place.startswith("key"):
        name = f"each key of {name}" if name else "each key"
    if kinds := re.fullmatch(r"Expected `([^`]+)`, got `(\w+)`", problem):
        wanted = [_WORDS.get(each, each) for each in sorted({*kinds[1].split(" | ")} - {"null"})]
        return f"{name} must be {' or '.join(wanted)}, got {_WORDS.get(kinds[2], kinds[2])}".strip()
    if limit := re.fullmatch(r"Expected `\w+` (>=?) (\S+)", problem):
        value = ""
        with suppress(KeyError, TypeError):  # the value of an inner record
            value = f", got {raw[name]!r}"
        return f"{name} must be {'at least' if limit[1] == '>=' else 'over'} {limit[2].removesuffix('.0')}{value}"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", problem):
        return f"unknown key {unknown[1]!r}"
    if problem.startswith("Invalid enum value "):
        known = re.findall(r"'(\w+)'", str(get_type_hints(kind).get(name)))
        return f"{name} must be one of {', '.join(known)}, got {problem.removeprefix('Invalid enum value ')}"
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", problem):
        return f"{name}.{missing[1]} is missing; add it".removeprefix(".")
    return problem
