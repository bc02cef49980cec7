"""Tables of a job file as records: names with '-' or '_', and errors that name the nearest known name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

import msgspec

from halohop.errors import InputError
from halohop.launch.options.spec import nearest

Record = TypeVar("Record")

_KINDS = {"bool": "true or false", "str": "text", "int": "a whole number", "float": "a number", "null": "nothing"}
_KINDS |= {"array": "a list", "object": "a table"}
"""Types by msgspec's names."""


def keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> dict[str, Any]:
    """A table by the names of Python, with '_' for '-'.

    Args:
        table: as a file holds it.
        known: the names that it may have.
        where: what errors call the table: ``"job.toml: [ssh]"``.

    Raises:
        InputError: an unknown name, or one name twice.

    Example:
        >>> keys({"token-file": "secret"}, ["token_file", "out"], "job.toml")
        {'token_file': 'secret'}
    """
    names = {name: name for name in known}
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = str(key).replace("-", "_")
        if name not in names:
            raise InputError(f"{where}: unknown key {key!r}; {nearest(str(key), names)}")
        if name in found:
            raise InputError(f"{where}: key {key!r} is given twice, with '-' and with '_'")
        if value is None:
            raise InputError(f"{where}: key {key!r} needs a value")
        found[name] = value
    return found


def convert(table: Mapping[str, Any], kind: type[Record], where: str) -> Record:
    """A table as a frozen dataclass, which checks its own values.

    Args:
        table: as a file holds it; names may have '-' for '_'.
        kind: the dataclass. Its fields say the types: lists become tuples, nothing else is converted.
        where: what errors call the table.

    Raises:
        InputError: an unknown name, a missing one, a value of another type, or what the class itself refuses.

    Example:
        >>> from halohop.store.share import Share
        >>> convert({"index": 0, "count": 2}, Share, "job.toml: [share]")
        Share(index=0, count=2)
        >>> convert({"index": 0, "cout": 2}, Share, "job.toml: [share]")
        Traceback (most recent call last):
        halohop.errors.InputError: job.toml: [share]: unknown key 'cout'; did you mean 'count'?
    """
    values = keys(table, [field.name for field in fields(kind)], where)  # type: ignore[arg-type]
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:  # what the class refuses comes so, too
        raise InputError(f"{where}: {_explained(str(error), kind)}") from error


def _explained(problem: str, kind: type) -> str:
    """What msgspec says of a value, in plain words.

    Example:
        >>> from halohop.store.share import Share
        >>> _explained("Expected `int`, got `str` - at `$.index`", Share)
        'index must be a whole number, got text'
    """
    problem, _, name = problem.partition(" - at `$")
    name = name.strip("`.")
    if kinds := re.fullmatch(r"Expected `([^`]+)`, got `(\w+)`", problem):
        wanted = [_KINDS.get(each, each) for each in sorted({*kinds[1].split(" | ")} - {"null"})]
        return f"{name} must be {' or '.join(wanted)}, got {_KINDS.get(kinds[2], kinds[2])}"
    if problem.startswith("Invalid enum value "):
        known = re.findall(r"'(\w+)'", str(get_type_hints(kind).get(name)))
        return f"{name} must be one of {', '.join(known)}, got {problem.removeprefix('Invalid enum value ')}"
    return re.sub(r"^Object missing required field `(\w+)`", r"\1 is missing", problem)
