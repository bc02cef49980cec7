"""Which arguments and options take URLs; all others that name a file or a folder refuse them, before anything is done."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from halohop.files.urls import is_url, refuse_url

TAKES_URLS = {
    "fetch": {"url"},
    "infer": {"checkpoint", "out", "parts"},
    "launch": {"data"},
    "partition": {"out"},
    "serve": {"parts"},
    "train": {"out", "parts", "resume"},
    "upload": {"url"},
}
"""By command, the parameters where a URL is understood."""

PATHS = {
    *("assignment", "checkpoint", "column", "config", "data", "folder", "html", "into", "out", "parts", "resume", "seeds"),
    *("source", "stage", "tables", "token_file", "url"),
}
"""Parameters, of any command, that name files or folders; perhaps behind another name and "="."""

_REMEDIES = {"parts": "fetch it first: `halohop fetch URL FOLDER`", "source": "copy its files to a folder here"}


def check_urls(command: str, parameters: Iterable[Any], values: Mapping[str, Any]) -> None:
    """Refuses URLs where a command needs a file or a folder that is here.

    Args:
        command: its name.
        parameters: all that it has.
        values: what a user gives, as text or in lists of texts, by parameter.

    Raises:
        InputError: a URL that does not work; names the option and what helps.
    """
    taken = TAKES_URLS.get(command, set())
    for parameter in parameters:
        if parameter.name in taken or parameter.name not in PATHS:
            continue
        value = values.get(parameter.name)
        for text in value if isinstance(value, list | tuple) else [value]:
            place = re.sub(r"^[^/]*=", "", text) if isinstance(text, str) else ""
            if is_url(place):
                name = next(
                    (flag for flag in parameter.opts if flag.startswith("--")), parameter.metavar or parameter.name.upper()
                )
                refuse_url(place, name, _REMEDIES.get(parameter.name, "give a file or a folder here"))
