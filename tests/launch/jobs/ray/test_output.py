"""Lines that Ray brings to the driver become a file for each process."""

from pathlib import Path
from typing import Any

import pytest

from halohop.errors import WriteError
from halohop.launch.jobs.ray.output import Output
from halohop.launch.jobs.ray.registry import Member

MEMBER = Member(name="rank-1", host="node7", ip="10.0.0.7", pid=42)


@pytest.fixture
def say() -> Any:
    """Says something as Ray's log monitor does."""
    ray_logging = pytest.importorskip("ray._private.ray_logging", reason="Ray is not installed: pip install 'halohop[ray]'")

    def say(pid: int | str, *lines: str, job: str | None = "01000000") -> None:
        data = {
            "ip": "10.0.0.7",
            "pid": pid,
            "job": job,
            "is_err": False,
            "lines": [*lines],
            "actor_name": "Other",
            "task_name": "",
        }
        ray_logging.global_worker_stdstream_dispatcher.emit(data)

    return say


def test_each_process_has_a_file(say: Any, tmp_path: Path) -> None:
    output = Output(tmp_path / "logs", verbose=False)
    with output.received():
        say("42", "first", "second")
        say("43", "of a process that is no member")
        say("raylet", "of Ray itself", job=None)
        say("42", "third")
    say("42", "after the end")
    output.write([MEMBER])
    assert {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()} == {
        "node7-rank-1.log": "first\nsecond\nthird\n",
        "10.0.0.7-Other.log": "of a process that is no member\n",
    }
    assert output.tail(MEMBER) == f"the end of {tmp_path / 'logs' / 'node7-rank-1.log'}:\n    first\n    second\n    third"


def test_what_rank_0_says_is_shown_or_with_v_what_all_say(say: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rank_0 = Member(name="rank-0", host="node6", ip="10.0.0.7", pid=41)
    for verbose in (False, True):
        output = Output(tmp_path / "logs", verbose=verbose)
        with output.received():
            say("41", "epoch 1")
            say("42", "hello")
        output.write([rank_0, MEMBER])
        shown = capsys.readouterr()
        if verbose:
            assert (shown.out, shown.err) == ("", "[node6 rank-0] epoch 1\n[node7 rank-1] hello\n")
        else:
            assert (shown.out, shown.err) == ("epoch 1\n", "")


def test_a_process_that_printed_nothing_says_so(tmp_path: Path) -> None:
    assert "(it printed nothing)" in Output(tmp_path, verbose=False).tail(MEMBER)


def test_a_folder_that_cannot_be_written_is_named(say: Any, tmp_path: Path) -> None:
    (tmp_path / "logs").touch()
    output = Output(tmp_path / "logs", verbose=False)
    with output.received():
        say(42, "lost")
    with pytest.raises(WriteError, match=r"logs"):
        output.write([MEMBER])
