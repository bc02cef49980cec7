"""Prints which tests show what was changed since this branch left main: `make quick` runs them.

A module src/halohop/A/b.py is shown by tests/A/test_b.py and tests/A/test_b_*.py or, where there is neither, by all of tests/A.
A module of tests/support is shown by the tests that import it.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALWAYS = ("tests/test_layering.py", "tests/test_house.py")
WIDE = {"pyproject.toml", "constraints.txt", "Makefile", "tests/conftest.py", "src/halohop/__init__.py"}
"""Files that concern every test: none in particular."""


def changed(root: Path = ROOT) -> list[str]:
    """Files, relative to the root, that differ from the commit where this branch left main, whether committed or not."""
    base = next((base for name in ("origin/main", "main") if (base := _git(root, "merge-base", "HEAD", name))), ["HEAD"])
    differing = _git(root, "diff", "--name-only", "--no-renames", *base)
    return sorted({*differing, *_git(root, "ls-files", "--others", "--exclude-standard")})


def select(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """The test files and folders to run for these files, and those that are run always."""
    chosen = {test for file in files if file not in WIDE for test in _shown_by(Path(file), root)}
    folders = {test for test in chosen if (root / test).is_dir()}
    return sorted({*(test for test in chosen if not folders & {str(parent) for parent in Path(test).parents}), *ALWAYS})


def _shown_by(file: Path, root: Path) -> list[str]:
    match file.parts:
        case ("tests", *_) if file.name.startswith("test_"):
            found = [file]
        case ("tests", name):
            found = [Path("tests", f"test_{name}")]
        case ("tests", "support", *names):
            module = ".".join(names).removesuffix(".py")
            found = [test for test in (root / "tests").rglob("test_*.py") if _imports_support(test, module)]
            found = [test.relative_to(root) for test in found]
        case ("tests", *_):  # a conftest or another helper of the tests beside it
            found = [file.parent]
        case ("src", "halohop", *folders, name):
            beside = Path("tests", *folders)
            stem = name.removesuffix(".py").removeprefix("cpu_").removeprefix("gpu_")
            own = [*(root / beside).glob(f"test_{stem}.py"), *(root / beside).glob(f"test_{stem}_*.py")]
            found = [test.relative_to(root) for test in own] or ([beside] if folders else [])
        case ("docs" | "examples", *_) | ("README.md",):
            found = [Path("tests/test_documents.py"), Path("tests/test_examples.py")]
        case _:
            found = []
    return [str(test) for test in found if (root / test).exists()]


def _imports_support(test: Path, module: str) -> bool:
    return f"from tests.support.{module} import" in test.read_text()


def _git(root: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    if not _git(ROOT, "rev-parse", "--git-dir"):
        sys.exit(f"{ROOT} is no git checkout, so nothing says what was changed; run `make test`")
    print(*select(changed()))
