"""Text as words of bash, and as values of #SBATCH lines."""

import re
import shlex
from collections.abc import Mapping

from halohop.errors import InputError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)


def quoted(text: str) -> str:
    """A text as one word of bash that stands for it, whatever is in it.

    Raises:
        InputError: it holds a zero byte, which no command can have.

    Example:
        >>> print(quoted("it's $5"), quoted(""), quoted("two\\nlines"))
        'it'"'"'s $5' '' $'two\\nlines'
    """
    if "\0" in text:
        raise InputError(f"{text!r} holds a zero byte, which neither an argument nor a variable can have")
    if not _CONTROL.search(text):
        return shlex.quote(text)
    plain = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return f"$'{_CONTROL.sub(_octal, plain)}'"


def _octal(found: re.Match[str]) -> str:
    return f"\\{ord(found[0]):03o}"


def word(text: str, names: Mapping[str, str]) -> str:
    """A text as one word of bash, in which some texts stand for what the script will know.

    Args:
        text: such as an argument of a command.
        names: texts, and what bash shall put in their places.

    Example:
        >>> print(word("a b/host-0:5510", {"host-0": '"${hosts[0]}"'}))
        'a b/'"${hosts[0]}":5510
    """
    known = sorted((name for name in names if name), key=len, reverse=True)
    if not text or not known:
        return quoted(text)
    pieces = re.split(f"({'|'.join(map(re.escape, known))})", text)
    return "".join(names[piece] if place % 2 else quoted(piece) for place, piece in enumerate(pieces) if piece)


def directive(name: str, value: object) -> str:
    """A line that sbatch reads.

    Raises:
        InputError: a value that sbatch cannot read.

    Example:
        >>> print(directive("chdir", "/my data"))
        #SBATCH --chdir="/my data"
    """
    text = str(value)
    if _CONTROL.search(text):
        raise InputError(f"--{name}={text!r} holds a line break or another control character, which sbatch does not read")
    if not _PLAIN.fullmatch(text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return f"#SBATCH --{name}={text}"
