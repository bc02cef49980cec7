"""The house rules that a machine can check: records, errors, doctests, the public surface, and the files around the code."""

import ast
import doctest
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import halohop
from tests.golden.parts.signatures import public_names

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "src" / "halohop").rglob("*.py"))
SUPPORT = sorted(path for path in (ROOT / "tests" / "support").glob("*.py") if not path.name.startswith("test_"))
RECORD = {"frozen", "slots", "kw_only"}
TOO_VAGUE = {"Exception", "BaseException", "ValueError", "RuntimeError", "OSError", "IOError", "TimeoutError", "ConnectionError"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[parts[0] == "src" :]).removesuffix(".__init__")


def careless(tree: ast.Module, wanted: set[str] = RECORD) -> Iterator[str]:
    """Dataclasses that lack what is `wanted`, exceptions that are not from halohop.errors, and failures that are swallowed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from _careless_dataclass(node, wanted)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            raised = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            if raised in TOO_VAGUE:
                yield f"line {node.lineno}: raise {raised}; halohop.errors has a better one"
        elif isinstance(node, ast.ExceptHandler) and all(isinstance(step, ast.Pass) for step in node.body):
            caught = ast.unparse(node.type) if node.type else "everything"
            if caught in ("everything", "Exception", "BaseException"):
                yield f"line {node.lineno}: {caught} is caught and forgotten"


def _careless_dataclass(node: ast.ClassDef, wanted: set[str]) -> Iterator[str]:
    """A dataclass that can change, grow attributes, or be filled by position."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if ast.unparse(call.func if call else decorator).split(".")[-1] != "dataclass":
            continue
        given = {k.arg for k in call.keywords if isinstance(k.value, ast.Constant) and k.value.value is True} if call else set()
        if missing := wanted - given:
            yield f"{node.name} (line {node.lineno}) lacks {', '.join(sorted(missing))}"


def test_records_and_errors() -> None:
    found = {}
    for path in MODULES + SUPPORT:
        name = module_name(path)
        positional = name.startswith("halohop.glt")  # where GLT's records are filled by position
        found[name] = [*careless(ast.parse(path.read_text()), RECORD - {"kw_only"} if positional else RECORD)]
    assert {name: offences for name, offences in found.items() if offences} == {}


@pytest.mark.parametrize(
    ("source", "offence"),
    [
        ("@dataclass\nclass A: pass", "lacks frozen, kw_only, slots"),
        ("@dataclasses.dataclass(frozen=True, slots=True)\nclass A: pass", "lacks kw_only"),
        ("@dataclass(frozen=True, slots=False, kw_only=True)\nclass A: pass", "lacks slots"),
        ("raise ValueError('x')", "better one"),
        ("raise RuntimeError", "better one"),
        ("try: f()\nexcept Exception: pass", "forgotten"),
        ("try: f()\nexcept: pass", "forgotten"),
        ("@dataclass(frozen=True, slots=True, kw_only=True)\nclass A: pass", None),
        ("raise InputError('x')", None),
        ("try: f()\nexcept FileNotFoundError: pass", None),
    ],
)
def test_checkers_can_fail(source: str, offence: str | None) -> None:
    found = [*careless(ast.parse(source))]
    assert (not found) if offence is None else offence in found[0]


@pytest.mark.parametrize("folder", sorted({module_name(path.parent) for path in MODULES + SUPPORT}))
def test_doctests(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every module can be imported, and the examples in its docstrings are true."""
    monkeypatch.chdir(tmp_path)
    output: list[str] = []
    for path in (path for path in MODULES + SUPPORT if module_name(path.parent) == folder):
        try:
            module = importlib.import_module(module_name(path))
        except ModuleNotFoundError as error:
            if error.name == "triton":  # it comes with torch for CUDA
                continue
            raise
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        for example in doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__):
            runner.run(example, out=output.append)
    assert output == [], "".join(output)


def test_names_that_have_moved_are_found_where_they_were() -> None:
    moved = {name: module for module, names in halohop._MOVED.items() for name in names}
    assert len(moved) == 26
    assert [name for name, module in moved.items() if getattr(halohop, name) is not getattr(getattr(halohop, module), name)] == []
    assert moved.keys() & {*halohop.__all__, *dir(halohop)} == set()
    with pytest.raises(AttributeError, match="no attribute 'Tokens'"):
        halohop.Tokens  # noqa: B018


@pytest.mark.full
def test_public_modules_are_loaded_when_they_are_named() -> None:
    """In a fresh process, in which no test has imported them; and Python's own `open` stays what it is."""
    listed = public_names()
    modules = sorted(
        {name.partition(".")[0] for name in listed if "." in name} - {"launch"} | {"dgl", "glt", "recipes", "testing"}
    )
    code = "import builtins, halohop\nfrom halohop import *\nassert open is builtins.open\n" + "\n".join(
        f"halohop.{name}" for name in modules
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert set(modules) <= set(dir(halohop))


def test_no_path_of_anyones_machine() -> None:
    """Absolute paths into somebody's own folders mean nothing to others."""
    own_folder = re.compile(rf"(?<![\w.$}}-])/(?:{'|'.join(('work', 'home', 'root', 'Users'))})/")
    assert own_folder.search("in /ho" + "me/ann/x")
    assert not own_folder.search("https://example.org/wo" + "rk/x ../wo" + "rk/x")
    folders = [ROOT / name for name in ("src", "tests", "docs", "examples", "benchmarks", ".ci", ".github")]
    files = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # a file in worktrees
    files += [path for folder in folders for path in folder.rglob("*.*")]
    files += [ROOT / ".ci" / "run"]
    offences = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
        for number, line in enumerate(path.read_text(errors="ignore").splitlines(), start=1)
        if own_folder.search(line)
    ]
    assert offences == []


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "docs/decisions/README.md"])
def test_house_has(name: str) -> None:
    assert (ROOT / name).read_text().strip()


def test_licence_and_changelog_are_what_they_say() -> None:
    assert "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text()
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def test_one_command_for_contributors_and_ci() -> None:
    ci = ROOT / ".ci" / "run"
    assert os.access(ci, os.X_OK)
    assert "set -euo pipefail" in ci.read_text()
    assert ci.read_text().splitlines()[-1] == "make test"
    makefile = (ROOT / "Makefile").read_text()
    for goal in ("test", "demo"):
        assert re.search(rf"^{goal}:", makefile, re.MULTILINE)
        assert f"make {goal}" in (ROOT / "README.md").read_text()
    for step in ("ruff check", "ruff format --check", "mypy", "pytest"):
        assert f"$(BIN)/{step}" in makefile
