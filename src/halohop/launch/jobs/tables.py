"""Tables of a job file as records, with errors that name the nearest known name, and as words of a command line."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from halohop.errors import InputError
from halohop.files.validation import validate
from halohop.launch.options.spec import nearest

Record = TypeVar("Record")


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
    return validate(values, kind, where)


def words(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Options of a command as its command line has them.

    Example:
        >>> words({"batch_size": 512, "fanout": [10, 5], "encrypt": True, "no_cache": False})
        ('--batch-size', '512', '--fanout', '10,5', '--encrypt')
    """
    found: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(flag)
        elif value is not False:
            found += [flag, ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)]
    return tuple(found)
