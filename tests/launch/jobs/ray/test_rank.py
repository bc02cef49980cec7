"""A user's script as the train loop of a worker; with workers of Ray's: test_engine.py."""

import sys
from pathlib import Path

import pytest

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.ray import rank


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rank.RankTask:
    """A script that says how it was called."""
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    (tmp_path / "script.py").write_text(
        "import sys\nfrom pathlib import Path\nimport beside\n"
        "Path('said').write_text(f'{__name__} {beside.NAME} {sys.argv[1:]}')\nsys.exit(int(sys.argv[1]))\n"
    )
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return rank.RankTask(service="graph", argv=("script.py", "0"), folder=str(tmp_path), graph="", parts=None)


def test_a_script_is_run_as_python_would(task: rank.RankTask) -> None:
    rank.run_program(task, task.argv, begins_again=False)
    assert Path("said").read_text() == "__main__ beside ['0']"


def test_its_exit_code_is_told(task: rank.RankTask) -> None:
    with pytest.raises(ClusterError, match=r"script\.py ended with exit code 3"):
        rank.run_program(task, ["script.py", "3"], begins_again=False)


def test_a_script_that_is_not_there_is_named(task: rank.RankTask) -> None:
    with pytest.raises(InputError, match=r"there is no script nothing\.py in .* here; give one that all nodes see"):
        rank.run_program(task, ["nothing.py"], begins_again=False)


def test_a_module_is_run_by_its_name(task: rank.RankTask) -> None:
    with pytest.raises(ClusterError, match=r"script ended with exit code 4"):
        rank.run_program(task, ["-m", "script", "4"], begins_again=False)


@pytest.mark.parametrize(
    ("again", "given", "expected"),
    [(False, [], []), (True, [], ["--resume", "auto"]), (True, ["--resume", "/runs/1"], ["--resume", "/runs/1"])],
)
def test_training_that_begins_again_resumes(
    task: rank.RankTask, monkeypatch: pytest.MonkeyPatch, again: bool, given: list[str], expected: list[str]
) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(rank, "_command", called.append)
    rank.run_program(task, ["-m", "halohop", "train", "parts", *given], begins_again=again)
    assert called == [["train", "parts", *expected]]
