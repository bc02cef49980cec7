"""Loads, writes and compares what is kept of a part, in ``files/PART.json`` or, if its cases are bytes, ``files/PART/CASE``.

A part is a module of ``parts`` with ``make() -> dict``: case -> a value of JSON or bytes, or a function that returns one.
"""

import difflib
import importlib
import itertools
import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"
PARTS = sorted(path.stem for path in (Path(__file__).parent / "parts").glob("[a-z]*.py"))
SHOWN = 20
"""Differences that a failing test shows."""


def now(part: str, *, keep_failures: bool = False) -> dict[str, Any]:
    """What the code does now. ``keep_failures`` keeps the error of a case that cannot run: for code of another time."""
    found = {}
    for case, value in importlib.import_module(f"tests.golden.parts.{part}").make().items():
        try:
            found[case] = value() if callable(value) else value
        except Exception as error:
            if not keep_failures:
                error.add_note(f"case: {case}")
                raise
            found[case] = f"cannot run: {type(error).__name__}: {error}"
    return found


def load(part: str, folder: Path = FILES) -> dict[str, Any]:
    if (file := folder / f"{part}.json").exists():
        return json.loads(file.read_text())
    root = folder / part
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def write(part: str, cases: Mapping[str, Any], folder: Path = FILES) -> None:
    """Replaces what is kept of a part: one line a case, sorted."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{part}.json").unlink(missing_ok=True)
    shutil.rmtree(folder / part, ignore_errors=True)
    if any(isinstance(value, bytes) for value in cases.values()):
        for case, value in cases.items():
            (folder / part / case).parent.mkdir(parents=True, exist_ok=True)
            (folder / part / case).write_bytes(value if isinstance(value, bytes) else str(value).encode())
        return
    lines = [f"{json.dumps(case)}: {json.dumps(cases[case], sort_keys=True)}" for case in sorted(cases)]
    (folder / f"{part}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def check(part: str, cases: Mapping[str, Any], *, among: Collection[str] | None = None) -> None:
    """Raises AssertionError if the cases are not those kept; ``among`` names the kept cases to compare, else all."""
    then = {case: value for case, value in load(part).items() if among is None or case in among}
    if found := list(differences(then, cases)):
        more = [f"... and {len(found) - SHOWN} more differences"] * (len(found) > SHOWN)
        remedy = [
            f"To see more: python -m tests.golden {part}, then git diff tests/golden.",
            f"A change that users should see: python -m tests.golden {part}, in a commit of its own that touches no source and "
            "says in its body what users see.",
        ]
        raise AssertionError("\n".join([f"{part}: {len(found)} differences", *found[:SHOWN], *more, *remedy]))


def differences(then: Any, new: Any, where: str = "") -> Iterator[str]:
    """A line, or a block for text of several lines, for each value that differs."""
    if isinstance(then, Mapping) and isinstance(new, Mapping):
        for key in sorted({*then, *new}, key=str):
            inner = f"{where} > {key}" if where else str(key)
            if key not in then or key not in new:
                yield f"{inner}: " + (f"new, now {_short(new[key])}" if key in new else f"gone, kept {_short(then[key])}")
            else:
                yield from differences(then[key], new[key], inner)
    elif isinstance(then, list | tuple) and isinstance(new, list | tuple):
        yield from differences(dict(enumerate(then)), dict(enumerate(new)), where)
    elif then != new:
        before, after = _text(then), _text(new)
        if "\n" in f"{before}{after}":
            lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "kept", "now", n=1, lineterm=""))
            yield "\n".join([f"{where}:", *lines[: 2 * SHOWN]])
        else:
            pairs = zip(repr(then), repr(new), strict=False)
            same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
            yield f"{where}: kept {_short(then, same)}, now {_short(new, same)}"


def _text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _short(value: Any, same: int = 0) -> str:
    """A value as text. Of long text, the part that differs is shown; `same` characters do not."""
    if len(text := repr(value)) <= 200:
        return text
    begin = max(same - 60, 0)
    return f"{'...' if begin else ''}{text[begin : begin + 200]}{'...' if len(text) > begin + 200 else ''}"
