"""Checks of single values of a run's config: each names the value and what it may be."""

import re
from typing import Any, get_args

from halohop.errors import InputError
from halohop.files import is_url, masked, refuse_url

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


def check_choices(config: object, **choices: Any) -> None:
    for name, known in choices.items():
        if getattr(config, name) not in get_args(known):
            raise InputError(f"{name}={getattr(config, name)!r} is none of {', '.join(get_args(known))}")


def check_fanout(name: str, fanout: tuple[int, ...]) -> None:
    if not fanout or any(number < -1 for number in fanout):
        raise InputError(f"{name}={fanout} must be one number per hop, at least one, each -1 (all) or more")


def check_at_least(least: int, **numbers: float) -> None:
    for name, number in numbers.items():
        if not number >= least:
            raise InputError(f"{name}={number} must be at least {least}")


def check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise InputError(f"{name}={number} must be over 0")


def servers_of(parts: str) -> tuple[str, ...]:
    """The addresses of servers that `parts` names; none where it is a folder (``./a:1`` always is one) or a source.

    Example:
        >>> servers_of("10.0.0.7:5510,10.0.0.8:5510"), servers_of("runs/parts"), servers_of("[::1]:5510")
        (('10.0.0.7:5510', '10.0.0.8:5510'), (), ('[::1]:5510',))
    """
    named = tuple(part.strip() for part in parts.split(","))
    return named if any(map(_ADDRESS.fullmatch, named)) else ()
