"""When a job is over, and what that means, without any process."""

from pathlib import Path

import pytest

from halohop.errors import ClusterError
from halohop.launch.processes import ends as module
from halohop.launch.processes.ends import Ends, Member
from halohop.launch.processes.failures import Failure
from halohop.launch.terminal.signals import Resumable


def ends_of(*members: Member, linger: float | None = None) -> Ends[int]:
    ends = Ends[int](name="process {}".format, linger=linger)
    for key, member in enumerate(members):
        ends.begin(key, member)
    return ends


def judge(ends: Ends[int], log: Path) -> None:
    log.write_text("last words\n")
    ends.judge(lambda key: Failure(name=f"process {key}", code=ends.codes[key], log=log, error=None), logs=log.parent)


def test_a_job_is_over_when_all_have_ended_but_those_that_stay(tmp_path: Path) -> None:
    ends = ends_of(Member(), Member(), Member(stays=True))
    ends.note(0, 0)
    assert (ends.is_over, ends.left(), ends.running()) == (False, None, ["process 1", "process 2"])
    ends.note(1, 0)
    assert ends.is_over
    judge(ends, tmp_path / "log")


def test_the_others_have_a_while_after_a_failure_and_after_a_good_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends = ends_of(Member(), Member(), linger=1000)
    ends.note(0, 0)
    left = ends.left()
    assert left is not None
    assert 900 < left <= 1000
    monkeypatch.setattr(module, "SETTLE_S", 0.0)
    with pytest.raises(ClusterError, match="process 1 did not end within 1000 s after the others had"):
        judge(ends, tmp_path / "log")
    ends.note(1, 1)
    assert ends.left() == 0
    with pytest.raises(ClusterError, match="process 1 failed with exit code 1"):
        judge(ends, tmp_path / "log")


def test_one_that_others_stand_in_for_may_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ends = ends_of(Member(), *[Member(stays=True, spare=True)] * 2)
    ends.note(1, -9)
    assert (ends.left(), ends.has_failed) == (None, False)
    ends.note(0, 0)
    judge(ends, tmp_path / "log")
    ends.note(2, 143)  # the launcher has ended it
    assert caplog.messages == ["process 1 has ended (-9); others stand in for it"]


def test_servers_do_not_keep_a_job_from_being_resumed(tmp_path: Path) -> None:
    ends = ends_of(Member(stays=True))
    assert not ends.may_resume  # no rank has begun
    ends = ends_of(Member(), Member(), Member(stays=True))
    ends.note(0, 75)
    assert not ends.may_resume
    ends.note(1, 75)
    assert (ends.may_resume, ends.has_failed) == (True, False)
    with pytest.raises(Resumable):
        judge(ends, tmp_path / "log")


@pytest.mark.parametrize("code", [0, 1, -15, 143])
def test_after_a_request_the_others_have_their_time_and_one_state_is_enough(tmp_path: Path, code: int) -> None:
    """They had not begun, or lost a peer that had saved."""
    ends = ends_of(Member(), Member(), Member(stays=True))
    ends.ask(1000)
    ends.note(2, 143)
    ends.note(0, code)
    left = ends.left()
    assert left is not None
    assert 900 < left <= 1000
    assert (ends.has_failed, ends.may_resume) == (False, False)
    ends.note(1, 75)
    with pytest.raises(Resumable):
        judge(ends, tmp_path / "log")
    ends = ends_of(Member(), Member())
    ends.note(0, -15)
    assert ends.has_failed  # nobody asked


def test_a_server_that_is_ended_after_a_request_fails_no_job_whose_trainers_end_well(tmp_path: Path) -> None:
    ends = ends_of(Member(), Member(stays=True))
    ends.ask(1000)
    ends.note(1, -15)
    ends.note(0, 0)
    assert ends.is_over
    judge(ends, tmp_path / "log")


def test_a_job_that_was_asked_to_save_and_saved_nothing_has_failed(tmp_path: Path) -> None:
    ends = ends_of(Member(), Member())
    ends.ask(0)
    ends.note(1, 0)
    with pytest.raises(ClusterError, match=r"^process 0 did not end within 0 s after they were asked to; see"):
        judge(ends, tmp_path / "log")
    ends.note(0, -15)
    with pytest.raises(ClusterError, match=r"^process 0 was killed by SIGTERM; the end of"):
        judge(ends, tmp_path / "log")


@pytest.mark.parametrize(("codes", "resumes"), [((143, -15), True), ((0, 143), True), ((0, 0), False), ((1, 143), False)])
def test_ranks_that_would_save_had_not_begun(codes: tuple[int, int], resumes: bool) -> None:
    ends = Ends[int](name="process {}".format, saves=True)
    for key in range(2):
        ends.begin(key, Member())
    ends.ask(1000)
    ends.note(0, codes[0])
    assert not ends.may_resume
    ends.note(1, codes[1])
    assert ends.may_resume == resumes


def test_a_failure_counts_more_than_a_state_to_go_on_from(tmp_path: Path) -> None:
    ends = ends_of(Member(), Member(), Member(stays=True))
    for key, code in enumerate((75, 75, 3)):
        ends.note(key, code)
    with pytest.raises(ClusterError, match=r"process 0 failed with exit code 75[\s\S]*then process 2 failed with exit code 3"):
        judge(ends, tmp_path / "log")
