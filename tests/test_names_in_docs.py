"""What pages name is there: files in backticks, and on some pages functions, classes and arguments."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *map(Path, ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/benchmarks/attacks.md")),
    *(page.relative_to(ROOT) for page in sorted((ROOT / "docs").rglob("*.md")) if "benchmarks" not in page.parts),
]
NAMING = {"CONTRIBUTING.md"}
"""Pages whose every name is one of the code's."""
FOREIGN = {"CLASS", "E", "NAME", "HALOHOP_SOAK_MINUTES", "_lid", "False", "assert", "from", "global", "import", "raise"}
"""Placeholders, Python's own words, and what is read in another way."""
NAME = re.compile(r'(?:\b(?:def|class)\s+|[."])(\w+)|(\w+)\s*[:=]')
"""What is defined, an attribute, or a string of one word; and what is annotated, assigned or given by keyword."""
PATH = re.compile(r"[\w./*-]+\.(py|md)|(?:pyproject|constraints)[\w-]*\.(toml|txt)")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")


@cache
def paths() -> list[str]:
    """All files of the project."""
    places = ("*", *(f"{folder}/**/*" for folder in ("docs", "src", "tests", "examples", "benchmarks")))
    return [path.relative_to(ROOT).as_posix() for place in places for path in ROOT.glob(place)]


@cache
def ends() -> set[str]:
    """All files of the project, without any number of the folders above them."""
    return {path.split("/", above)[-1] for path in paths() for above in range(path.count("/") + 1)}


@cache
def names() -> set[str]:
    """All names that occur in the source and in tests, and those of modules and folders."""
    code = [ROOT / path for path in paths() if path.startswith(("src/", "tests/")) and path.endswith(".py")]
    found = {name for path in code if path != Path(__file__) for pair in NAME.findall(path.read_text()) for name in pair}
    return found | {part for path in paths() for part in path.removesuffix(".py").split("/")}


def unknown_in(text: str, *, naming: bool) -> Iterator[str]:
    """The spans in backticks that name what is not there; without `naming` only those that are paths or tests."""
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)):
        if test := TEST.fullmatch(span):
            if test[1] not in paths() or f"def {test[2]}(" not in (ROOT / test[1]).read_text():
                yield span
        elif PATH.fullmatch(span):
            if span not in ends() and not any(Path(path).match(span) for path in paths() if "*" in span):
                yield span
        elif naming and not span.startswith((".venv/", "make ", "ops/cpu_<")):
            yield from (f"{word} in {span}" for word in re.findall(r"[A-Za-z_]\w*", span) if word not in names() | FOREIGN)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_a_page_names_is_there(page: Path) -> None:
    text = (ROOT / page).read_text().partition("## Pages that moved")[0]  # which names pages that are not there
    assert list(unknown_in(text, naming=str(page) in NAMING)) == []


@pytest.mark.parametrize(
    "gone",
    [
        *("pyg/nothing.py", "ops/gone_*.py", "no_such_folder/", "Graph.no_such_method", "no_such_function"),
        *("tests/test_gone.py::test_it", "tests/test_names_in_docs.py::test_gone"),
    ],
)
def test_what_is_not_there_is_found(gone: str) -> None:
    text = "`halohop` has `{}`, and `ops/rows.py` has `gather_rows`"
    assert list(unknown_in(text.format(gone), naming=True)) != []
    for there in ("RowQuery", "tests/test_names_in_docs.py::test_what_is_not_there_is_found"):
        assert list(unknown_in(text.format(there), naming=True)) == []
