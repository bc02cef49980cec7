"""A command that a user wrote for a shell, as the words of a Python program: no shell runs it.

It is split into words by the rules of quoting, and `$HOME`, `~`, `&&` or `>` are refused. So nothing in a value is executed,
and the script can be compared on all hosts. A pipe needs a script.
"""

import platform
import re
import shlex
from dataclasses import dataclass
from pathlib import PurePosixPath

from halohop.errors import InputError

_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""")
_OF_A_SHELL = re.compile(r"[;&|<>()\n]|(?:^|(?<=\s))~\S*")
_EXPANDED = re.compile(r"`|\$[\w{(]\w*")
_STARTERS = ("torch.distributed.run", "torch.distributed.launch")
_FORM = "write it like 'python3 train.py --lr 0.01', or 'python3 -m package.train'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A user's command.

    Args:
        words: what follows the interpreter.
        python: where it lies; "": that of the job.
    """

    words: tuple[str, ...]
    python: str = ""


def parsed(command: tuple[str, ...]) -> Program:
    """The program that a command starts.

    Args:
        command: one string.

    Raises:
        InputError: none or several, no Python or another one than this, or what only a shell would do.

    Example:
        >>> parsed(("python3 -u train.py --name 'a b'",)).words, parsed(("/opt/env/bin/python -m train",)).python
        (('train.py', '--name', 'a b'), '/opt/env/bin/python')
    """
    if len(command) != 1:
        raise InputError(
            "the command stands at the end, in quotes, as one string, such as 'python3 train.py --lr 0.01'; "
            + (f"there are {len(command)}: {shlex.join(command)}" if command else "there is none")
        )
    text = command[0].strip()
    _check_needs_no_shell(text)
    try:
        words = shlex.split(_QUOTED.sub(_unescaped, text))
    except ValueError as error:
        raise InputError(f"the command {text!r} cannot be read: {error}") from None
    first, *rest = words or [""]
    path = PurePosixPath(first)
    if path.suffix == ".py":
        return Program(words=tuple(words))
    _check_python(text, path.name)
    while rest and rest[0] == "-u":  # output is never kept back
        del rest[0]
    if not rest or (rest[0].startswith("-") and (rest[0] != "-m" or len(rest) == 1)):
        what = f"{rest[0]} of Python does not work here" if rest else "it names no script"
        raise InputError(f"the command {text!r}: {what}; {_FORM}")
    if rest[0] == "-m" and rest[1] in _STARTERS:
        raise InputError(f"the command {text!r}: the trainers are started by the launcher; leave {rest[1]} and its options out")
    return Program(words=tuple(rest), python=first if len(path.parts) > 1 else "")


def _unescaped(piece: re.Match[str]) -> str:
    """A quoted piece as `shlex` reads it, which keeps two backslashes in double quotes that a shell removes."""
    return re.sub(r"\\([$`])", r"\1", piece[0]) if piece[0].startswith('"') else piece[0]


def _check_python(text: str, name: str) -> None:
    """
    Raises:
        InputError: the first word of a command is no Python, or one of another version than hosts may have.
    """
    found, ours = _PYTHON.fullmatch(name), platform.python_version()
    if found is None:
        raise InputError(f"the command {text!r} starts no Python; {_FORM}, and give environment by extra_envs")
    if found[1] and not f"{ours}.".startswith(f"{found[1]}."):
        raise InputError(
            f"the command {text!r} asks for {name}, but this is Python {ours}, which all hosts must have; run this with it"
        )


def _check_needs_no_shell(text: str) -> None:
    """
    Raises:
        InputError: it has what a shell would not pass on as it is; names the first.
    """
    bare = _QUOTED.sub(" ", text)
    quoted = "".join(piece[0] for piece in _QUOTED.finditer(text) if piece[0].startswith('"'))
    found = _OF_A_SHELL.search(bare) or _EXPANDED.search(bare) or _EXPANDED.search(re.sub(r"\\.", "", quoted))
    if found:
        raise InputError(
            f"the command {text!r} has {found[0]!r}, but no shell runs it; write out what it stands for, or put it in "
            "single quotes, or name a script that does it"
        )
