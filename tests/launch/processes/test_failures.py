from pathlib import Path

import pytest

from halohop.alive import REPORT_FILE
from halohop.errors import CorruptDatasetError, HalohopError, PeerLostError, RemoteError, SchemaError, WriteError
from halohop.launch.processes.failures import Failure, failure, prepare, report, reported


def failed(tmp_path: Path, rank: int, code: int, error: HalohopError | None = None) -> Failure:
    log = tmp_path / f"rank-{rank}.log"
    log.write_text("Traceback (most recent call last):\n  frames\nLookupError: no such luck\n")
    return Failure(name=f"rank {rank}", code=code, log=log, error=error)


@pytest.mark.parametrize("error", [SchemaError("no y"), RemoteError("fetch", "frames"), PeerLostError("host 1")])
def test_an_error_is_reported_as_it_was_raised(tmp_path: Path, error: HalohopError) -> None:
    report(error, {REPORT_FILE: str(tmp_path / "error.json")})
    told = reported(tmp_path / "error.json")
    assert (type(told), str(told)) == (type(error), str(error))


def test_a_report_that_was_cut_short_is_none(tmp_path: Path) -> None:
    prepare(tmp_path / "error.json")
    assert reported(tmp_path / "error.json") is None
    report(WriteError("cannot write run/resume.pt"), {REPORT_FILE: str(tmp_path / "error.json")})
    assert isinstance(reported(tmp_path / "error.json"), WriteError)
    assert (tmp_path / "error.json").stat().st_size == 4096  # it went where there was room, as on a full disk it must
    (tmp_path / "error.json").write_text('{"kind": "Sch')
    assert reported(tmp_path / "error.json") is None
    report(SchemaError("no y"), {})  # without a launcher


@pytest.mark.parametrize("error", [SchemaError("no y"), CorruptDatasetError("part-0000")])
def test_an_error_of_the_users_is_itself(tmp_path: Path, error: HalohopError) -> None:
    """Whoever lost the peer that failed may end first."""
    assert failure([failed(tmp_path, 1, 1, PeerLostError("rank 0")), failed(tmp_path, 0, 1, error)]) is error


def test_other_errors_name_the_process_without_frames(tmp_path: Path) -> None:
    story = str(failure([failed(tmp_path, 1, 1, PeerLostError("host 7 is gone"))], ended=["rank 0"]))
    assert story == f"rank 1 failed: host 7 is gone (its log: {tmp_path / 'rank-1.log'})\nthen the launcher ended rank 0"


def test_one_that_was_killed_is_the_culprit(tmp_path: Path) -> None:
    story = str(failure([failed(tmp_path, 0, 1, SchemaError("no y")), failed(tmp_path, 1, -9)]))
    assert story.startswith("rank 1 was killed by SIGKILL; the end of")
    assert story.endswith("then rank 0 failed with exit code 1: no y")


def test_what_is_no_error_of_halohops_shows_its_frames(tmp_path: Path) -> None:
    story = str(failure([failed(tmp_path, 0, 3)]))
    assert "rank 0 failed with exit code 3" in story
    assert "  frames\n" in story
