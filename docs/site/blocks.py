"""The code of a page: its blocks, and what they print when they run in the page's order.

A block of a page begins with its language. ``python`` and ``sh`` run, the one in one namespace, the other with ``sh -e``; any
other with a file name behind it, such as ``csv users.csv``, is written to that file; ``console`` needs several hosts or a clone,
and is only shown.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: what stands behind the fence, the text in it, and the number of lines before that."""

    tag: str
    text: str
    lines_before: int

    @property
    def language(self) -> str:
        return self.tag.split(" ")[0]

    @property
    def file(self) -> str | None:
        """The file that the block is written to, if it names one."""
        name = self.tag.partition(" ")[2]
        return name if name and self.language not in ("python", "sh") else None

    def compiled(self, page: str) -> CodeType:
        """The Python of the block; tracebacks show the lines of the page."""
        return compile("\n" * self.lines_before + self.text, page, "exec")


def blocks(text: str, at: Mapping[str, str] | None = None) -> list[Block]:
    """The blocks of a page, in its order; words that `at` has are replaced by its values."""
    for written, real in (at or {}).items():
        text = text.replace(written, real)
    found = [Block(tag=each[1], text=each[2], lines_before=text.count("\n", 0, each.start(2))) for each in FENCE.finditer(text)]
    assert len(re.findall(r"^```", text, re.MULTILINE)) == 2 * len(found), "a block that does not end"
    return found


def outputs(
    page: Path, folder: Path, *, python: str = sys.executable, environment: Mapping[str, str] | None = None, before: str = ""
) -> list[str]:
    """Runs the blocks of a page in `folder`, and returns what each of them printed; "" for those that do not run.

    Args:
        page: a Markdown file.
        folder: the working directory.
        python: the interpreter; `halohop` of its environment is found first.
        environment: variables of the process; by default those of this one.
        before: Python that runs before the first block. Names that it gives to `at` are replaced by its values.

    Raises:
        subprocess.CalledProcessError: a block failed; its output holds what the page printed.
    """
    given = dict(os.environ if environment is None else environment)
    given |= {"PATH": f"{Path(python).parent}:{given['PATH']}", "COLUMNS": "88", "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryDirectory(prefix="halohop-page-") as place:
        found = Path(place) / "printed.json"
        subprocess.run(
            [python, Path(__file__).absolute(), page.absolute(), found, before],
            **{"cwd": folder, "env": given, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT},
            **{"text": True, "check": True, "timeout": 1500},
        )
        return list(json.loads(found.read_text()))


def main(page: str, found: str, before: str) -> None:
    """Runs the blocks of a page here; writes what they print to the file `found`."""
    names: dict[str, Any] = {"__name__": "__main__", "at": {}}
    exec(before, names)
    printed = []
    for block in blocks(Path(page).read_text(), names["at"]):
        with _printed() as output:
            if block.file:
                Path(block.file).write_text(block.text)
            elif block.language == "python":
                exec(block.compiled(page), names)
            elif block.language == "sh":
                subprocess.run(["sh", "-ec", block.text], check=True)
        printed.append("\n".join(line.rstrip() for line in "".join(output).splitlines()))
    Path(found).write_text(json.dumps(printed))


@contextlib.contextmanager
def _printed() -> Iterator[list[str]]:
    """Collects what this process and its children print; a failure shows it where it would have stood."""
    output: list[str] = []
    with tempfile.TemporaryFile() as file, contextlib.ExitStack() as stack:
        for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
            stream.flush()
            kept = os.dup(number)
            os.dup2(file.fileno(), number)
            stack.callback(_restored, stream, kept, number)
        try:
            yield output
        finally:
            stack.close()
            file.seek(0)
            output.append(file.read().decode())
            if sys.exc_info()[0]:
                sys.stdout.write(output[0])


def _restored(stream: Any, kept: int, number: int) -> None:
    stream.flush()
    os.dup2(kept, number)
    os.close(kept)


if __name__ == "__main__":
    main(*sys.argv[1:])
