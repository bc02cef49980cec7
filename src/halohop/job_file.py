"""Job files that the commands of DGL and GLT write for `halohop launch`."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from halohop.errors import HalohopError, InputError
from halohop.files import write_file, writing


def parser_of(description: str) -> ArgumentParser:
    """A parser of a command, which has the option of the run folder already."""
    parser = ArgumentParser(description=description, epilog="Other options are those of halohop launch.", allow_abbrev=False)
    parser.add_argument("--out", default=f"runs/{datetime.now():%Y%m%d-%H%M%S}", help="Folder of the run.")
    return parser


def launch(parser: ArgumentParser, job: Callable[[Namespace], dict[str, Any]], words: list[str], *more: str) -> NoReturn:
    """Writes `job.toml` into the run folder, and becomes `halohop launch` with it.

    Args:
        parser: of `parser_of`.
        job: returns the job that options mean, by the keys of a job file. Its errors are those of the command.
        words: of the command line. What the parser does not know goes to `halohop launch`.
        more: further words for `halohop launch`.
    """
    given, others = parser.parse_known_args(words)
    file = Path(given.out, "job.toml")
    try:
        table = job(given)
        if "HALOHOP_TOKEN" in table.get("env", {}):
            raise InputError("HALOHOP_TOKEN would be in a file that others may read; write the token to a file (--token-file)")
        text = toml({**table, "out": given.out})
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, text.encode())
    except (HalohopError, FileNotFoundError, UnicodeDecodeError) as error:
        parser.error(str(error))
    os.execv(sys.executable, [sys.executable, "-m", "halohop", "launch", *more, *others, "--config", str(file)])


def toml(table: Mapping[str, Any]) -> str:
    """A table as TOML, a line for each key.

    Example:
        >>> print(toml({"hosts": ["a", "b"], "ssh": {"hosts": {"a": {"port": 22}}}}), end="")
        "hosts" = ["a", "b"]
        "ssh" = {"hosts" = {"a" = {"port" = 22}}}
    """
    return "".join(f"{json.dumps(name)} = {_value(value)}\n" for name, value in table.items())


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
