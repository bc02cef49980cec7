"""The only way of text to a terminal: names and messages of strangers cannot control it."""

import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import rich.console
from rich.segment import Segment
from rich.text import Text


class Console(rich.console.Console):
    """A console that escapes what is not printable, and reads no markup in text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:  # before a table measures it
        return super().render_str(printable(text), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def echo(line: object) -> None:
    """Prints one line of a command's result to standard output."""
    Console(soft_wrap=True).print(one_line(str(line)))


def show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a traceback to standard error: a replacement of `sys.excepthook`."""
    Console(stderr=True, soft_wrap=True).print("".join(traceback.format_exception(kind, error, trace)), end="")


def printable(text: str) -> str:
    r"""Text with each character that is not printable as Python escapes it; line ends and tabs stay.

    Example:
        >>> printable("a\x1b[2J\u202eb\n")
        'a\\x1b[2J\\u202eb\n'
    """
    return "".join(mark if mark.isprintable() or mark in "\n\t" else ascii(mark)[1:-1] for mark in text)


def one_line(text: str) -> str:
    """`printable`, with line ends escaped, too."""
    return printable(text).replace("\n", "\\n")


def message(text: str) -> str:
    """`printable`, with later lines indented, so that none of them looks like another message."""
    return printable(text).replace("\n", "\n  ")
