"""Types of the fields of a run's config, and checks of single values: each names the value and what it may be."""

import re
from dataclasses import fields
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta

from halohop.errors import InputError
from halohop.files import is_url, masked, refuse_url

Count = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Positive = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0, title="seconds")]
Bytes = Annotated[int, Meta(ge=0, title="bytes")]
SizeText = Annotated[str, Meta(title="size")]
CacheSize = Annotated[int, Meta(ge=1, title="bytes")] | str

_ADDRESS = re.compile(r"(tcp://)?([^\s/:]+|\[[^\s/]*\]|[0-9a-fA-F]*:[0-9a-fA-F:.]*):[0-9]+")
"""Of a name or an IPv4 address, an IPv6 address in brackets, and one without, which connecting refuses in words."""


def check_paths(**paths: str) -> None:
    for name, path in paths.items():
        if not path:
            raise InputError(f"{name} is empty; give a folder")
        refuse_url(path, name, "give a folder here; what lies elsewhere is fetched first: halohop.fetch(url, folder)")


def check_copy(url: str | None) -> None:
    if url is not None and not is_url(url):
        raise InputError(f"copy_to={url!r} is no URL; write s3://BUCKET/RUN, or leave it out")
    if url is not None and masked(url) != url:  # the config is written into the run's files
        raise InputError(f"copy_to={masked(url)!r} holds a secret; leave it to the environment, or to the library's own files")


def check_fields(config: Any) -> None:
    """Compares values with the types of their fields: a `Literal` lists choices, a `msgspec.Meta` has a range of numbers.

    Raises:
        InputError: names the field, its value, and what it may be.
    """
    for name, hint in ((each.name, each.type) for each in fields(config)):
        value, members = getattr(config, name), (hint, *get_args(hint))
        if value is None and NoneType in members:
            continue
        for member in members:
            if get_origin(member) is Literal and value not in get_args(member) and type(value) not in members:
                raise InputError(f"{name}={value!r} is none of {', '.join(get_args(member))}")
            for limit in getattr(member, "__metadata__", ()) if not isinstance(value, str) else ():
                if limit.ge is not None and not value >= limit.ge:
                    raise InputError(f"{name}={value} must be at least {limit.ge}")
                if limit.gt is not None and not value > limit.gt:
                    raise InputError(f"{name}={value} must be over {limit.gt}")


def check_fanout(name: str, fanout: tuple[int, ...]) -> None:
    if not fanout or any(number < -1 for number in fanout):
        raise InputError(f"{name}={fanout} must be one number per hop, at least one, each -1 (all) or more")


def servers_of(parts: str) -> tuple[str, ...]:
    """The addresses of servers that `parts` names; none where it is a folder (``./a:1`` always is one) or a source.

    Example:
        >>> servers_of("10.0.0.7:5510,10.0.0.8:5510"), servers_of("runs/parts"), servers_of("[::1]:5510")
        (('10.0.0.7:5510', '10.0.0.8:5510'), (), ('[::1]:5510',))
    """
    named = tuple(part.strip() for part in parts.split(","))
    return named if any(map(_ADDRESS.fullmatch, named)) else ()
