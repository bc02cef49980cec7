"""Which tests `make quick` runs."""

import runpy
import subprocess
from pathlib import Path

import pytest

script = runpy.run_path(str(Path(__file__).with_name("changed.py")))
ROOT, ALWAYS, changed, select = (script[name] for name in ("ROOT", "ALWAYS", "changed", "select"))


@pytest.mark.parametrize(
    ("files", "tests"),
    [
        ([], []),
        (["src/halohop/ops/cpu_sample.py", "src/halohop/ops/sample.py"], ["tests/ops/test_sample.py"]),
        (["src/halohop/cluster/router.py"], ["tests/cluster"]),
        (["src/halohop/cluster/router.py", "src/halohop/cluster/graph.py"], ["tests/cluster"]),
        (["src/halohop/errors.py"], ["tests/test_errors.py"]),
        (["src/halohop/inference/stages.py"], ["tests/inference/test_stages.py"]),
        (["tests/store/test_disk.py", "tests/store/test_that_was_deleted.py"], ["tests/store/test_disk.py"]),
        (["tests/system/conftest.py"], ["tests/system"]),
        (
            ["tests/support/contracts/transport.py"],
            ["tests/transport/test_tcp.py", "tests/transport/test_tls.py"],
        ),
        (["tests/changed.py", "tests/conftest.py"], ["tests/test_changed.py"]),
        (
            ["README.md", "docs/sampling.md", "CHANGELOG.md", "pyproject.toml"],
            ["tests/test_documents.py", "tests/test_examples.py"],
        ),
    ],
)
def test_tests_of_a_change(files: list[str], tests: list[str]) -> None:
    assert select(files) == sorted([*tests, *ALWAYS])


def test_every_module_has_tests() -> None:
    """A folder without tests beside it would be passed over in silence."""
    modules = [str(path.relative_to(ROOT)) for path in (ROOT / "src/halohop").glob("*/*.py")]
    assert [module for module in modules if select([module]) == sorted(ALWAYS)] == []


def test_a_change_is_what_differs_from_where_the_branch_began(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def write(name: str, text: str) -> None:
        (tmp_path / name).write_text(text)

    git("init")
    for name in ("kept", "committed", "edited", "elsewhere"):
        write(name, "before")
    git("add", ".")
    git("commit", "-m", "one")
    git("checkout", "-b", "topic")
    write("committed", "after")
    git("commit", "-am", "two")
    git("checkout", "main")
    write("elsewhere", "after")
    git("commit", "-am", "three")
    git("checkout", "topic")
    write("edited", "after")
    write("new", "")
    assert changed(tmp_path) == ["committed", "edited", "new"]
