"""The law of tests/golden: a commit that changes it changes no source, and names what users see.

Otherwise a change of behavior could bring its own new expectations, and nobody would see it.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GOLDEN, SOURCE = "tests/golden/", "src/"
LINE = "Users see:"
LAW = "tests/test_golden_law.py"
"""The commits before the one that added this file are exempt, and so is that commit."""


def git(folder: Path, *words: str, **env: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        errors="replace",
    )
    return done.stdout


def first_of_law(folder: Path, law: str = LAW) -> str | None:
    """The commit that added the law, as far as history goes back."""
    added = git(folder, "log", "--diff-filter=A", "--format=%H", "--", law).split()
    return added[-1] if added else None


def offences(folder: Path, since: str) -> Iterator[str]:
    """What commits that descend from `since` did against the law. A branch that began before the law is exempt, its merge is not.

    Of a merge count the files that differ from all of its parents: what it changes itself.
    """
    what = ("--format=%x1e%H%x1f%s%x1f%B%x1f", "--name-only", "--no-renames", "--diff-merges=combined")
    log = git(folder, "-c", "core.quotePath=false", "log", *what, "--ancestry-path", f"{since}..HEAD")
    for record in log.split("\x1e")[1:]:
        commit, subject, body, names = record.split("\x1f")
        files = [name.strip('"') for name in names.split("\n") if name]
        golden = [name for name in files if name.startswith(GOLDEN)]
        source = [name for name in files if name.startswith(SOURCE)]
        where = f"{commit[:12]} ({subject})"
        if golden and source:
            yield f"{where} changes {golden[0]} together with {source[0]}; make two commits of it"
        elif golden and not any(line.startswith(LINE) and line[len(LINE) :].strip() for line in body.split("\n")[1:]):
            yield f"{where} changes {golden[0]}; begin a line of its body with '{LINE}' and what users see, or 'nothing'"


def test_commits_of_this_repository_keep_the_law() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("there is no history here: no .git")
    if git(ROOT, "rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the history here is cut off (a shallow clone): git fetch --unshallow")
    since = first_of_law(ROOT)
    if since is None:
        pytest.skip("the law has not been committed yet")
    assert [*offences(ROOT, since)] == []


class Repository:
    """A repository to try the law on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch", "main")
        self.first = self.commit("tests: add the law", LAW)

    def git(self, *words: str) -> str:
        who = {f"GIT_{role}_{what}": "a@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return git(self.folder, *words, **who, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1").strip()

    def write(self, name: str, text: str | None = None) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text is not None else f"{path.read_text() if path.exists() else ''}line\n")
        self.git("add", "--all")

    def commit(self, message: str, *names: str) -> str:
        for name in names:
            self.write(name)
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def offences(self) -> list[str]:
        since = first_of_law(self.folder)
        assert since == self.first
        return [*offences(self.folder, since)]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


SEEN = "tests: keep what the change means\n\nSince trains stop.\n\nUsers see: another order of seeds.\n"


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("core: turn", ["src/a.py", "tests/test_a.py"]),
        (SEEN, ["tests/golden/files/a.json", "CHANGELOG.md", "tests/golden/parts/b.py"]),
        ("docs: say so", ["docs/src/a.md", "tests/golden_things.py"]),
    ],
)
def test_good_commits(repository: Repository, message: str, names: list[str]) -> None:
    repository.commit(message, *names)
    assert repository.offences() == []


@pytest.mark.parametrize(
    ("message", "names", "offence"),
    [
        (SEEN, ["tests/golden/files/a.json", "src/a.py"], "changes tests/golden/files/a.json together with src/a.py"),
        ("tests: keep new batches", ["tests/golden/files/a.json"], "begin a line of its body with 'Users see:'"),
        ("tests: keep\n\nUsers see:\n", ["tests/golden/files/a.json"], "begin a line of its body with 'Users see:'"),
        ("Users see: all\n\nNothing else.", ["tests/golden/README.md"], "begin a line of its body with 'Users see:'"),
        ("tests: keep ü\n\nWhat users see: x", ["tests/golden/files/ü.json"], "begin a line of its body"),
    ],
)
def test_bad_commits(repository: Repository, message: str, names: list[str], offence: str) -> None:
    repository.commit(SEEN, "tests/golden/files/before.json")
    bad = repository.commit(message, *names)
    repository.commit("core: go on", "src/b.py")
    (found,) = repository.offences()
    assert found.startswith(bad[:12])
    assert offence in found


def test_to_remove_and_to_move_a_file_are_changes(repository: Repository) -> None:
    repository.commit(SEEN, "tests/golden/a.json")
    repository.commit(SEEN, "tests/golden/b.json", "docs/b.md")
    repository.git("rm", "--quiet", "tests/golden/a.json")
    repository.commit("tests: forget")
    repository.git("mv", "tests/golden/b.json", "docs/b.json")
    repository.commit("docs: take b")
    assert len(repository.offences()) == 2


def test_a_merge_is_judged_by_what_it_changes_itself(repository: Repository) -> None:
    repository.commit("core: begin", "src/a.py")
    repository.git("switch", "--quiet", "--create", "side")
    repository.commit(SEEN, "tests/golden/a.json")
    repository.git("switch", "--quiet", "main")
    repository.commit("core: turn", "src/b.py")
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge branch 'side'", "side")
    assert repository.offences() == []
    repository.git("switch", "--quiet", "--create", "other")
    repository.commit(SEEN, "tests/golden/b.json")
    repository.git("switch", "--quiet", "main")
    repository.commit("core: turn again", "src/b.py")
    repository.git("merge", "--quiet", "--no-ff", "--no-commit", "other")
    repository.write("tests/golden/b.json", "what nobody has said")
    bad = repository.commit("Merge branch 'other'")
    (found,) = repository.offences()
    assert found.startswith(bad[:12])


def test_commits_before_the_law_are_exempt(tmp_path: Path) -> None:
    repository = Repository.__new__(Repository)
    repository.folder = tmp_path
    repository.git("init", "--quiet", "--initial-branch", "main")
    repository.commit("all: begin", "src/a.py", "tests/golden/a.json")
    repository.first = repository.commit("tests: add the law", LAW, "tests/golden/README.md")
    assert repository.offences() == []


def test_a_branch_that_began_before_the_law_is_exempt(tmp_path: Path) -> None:
    repository = Repository.__new__(Repository)
    repository.folder = tmp_path
    repository.git("init", "--quiet", "--initial-branch", "main")
    repository.commit("all: begin", "src/a.py")
    repository.git("switch", "--quiet", "--create", "side")
    repository.commit("tests: keep the first files", "tests/golden/a.json")
    repository.git("switch", "--quiet", "main")
    repository.first = repository.commit("tests: add the law", LAW)
    repository.git("merge", "--quiet", "--no-ff", "--message", "Merge branch 'side'", "side")
    assert repository.offences() == []
    repository.commit("tests: keep more", "tests/golden/a.json")
    assert len(repository.offences()) == 1


def test_history_is_there_where_ci_looks_at_it() -> None:
    """A shallow clone would skip the law."""
    workflow = ROOT / ".github" / "workflows" / "ci.yml"
    if not workflow.exists():
        pytest.skip("a source distribution has no workflows")
    job = workflow.read_text().partition("\n  test:\n")[2].partition("\n\n")[0]
    assert "fetch-depth: 0" in job
