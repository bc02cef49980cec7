"""Looking up by name what a user, or another host, has named."""

from typing import Any, TypeVar

from halohop.errors import SchemaError

Value = TypeVar("Value")


def named(known: dict[Any, Value], key: object, what: str) -> Value:
    """What has a name.

    Raises:
        SchemaError: nothing has it.
    """
    try:
        return known[key]
    except KeyError:
        raise SchemaError(f"unknown {what} {key!r}; known: {list(known)}") from None
