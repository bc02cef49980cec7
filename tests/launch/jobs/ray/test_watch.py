"""Which failure of a job on Ray is told; with real ones: test_engine.py."""

from pathlib import Path

import pytest

from halohop.errors import ClusterError, HalohopError, InputError
from halohop.launch.jobs.ray.output import Output
from halohop.launch.jobs.ray.registry import Member, Report
from halohop.launch.jobs.ray.watch import first_failure

RANKS = [Member(name=f"rank-{rank}", host=f"node{rank}", ip="10.0.0.7", pid=40 + rank) for rank in range(2)]


class GroupError(Exception):
    """As Ray Train raises it."""

    def __init__(self, *ranks: int) -> None:
        super().__init__("training failed")
        self.worker_failures = dict.fromkeys(ranks, RuntimeError("lost"))


@pytest.fixture
def output(tmp_path: Path) -> Output:
    output = Output(tmp_path, verbose=False)
    for member in RANKS:
        output.file(member.host, member.name).write_text(f"{member.name} has begun\n")
    return output


def told(output: Output, failure: Exception, *reports: Report, members: list[Member] = RANKS) -> HalohopError:
    return first_failure(failure, reports, members, output)


def test_one_that_was_killed_goes_before_those_that_lost_it(output: Output) -> None:
    error = told(output, GroupError(0, 1), Report.of(RANKS[0], RuntimeError("connection closed by peer")))
    assert type(error) is ClusterError
    assert "rank-1 on node1 was killed, or its node is gone; the end of" in str(error)
    assert "rank-1 has begun" in str(error)


def test_an_error_about_what_the_user_gave_goes_before_all(output: Output) -> None:
    lost, refused = Report.of(RANKS[0], RuntimeError("lost")), Report.of(RANKS[1], InputError("lr=0 must be over 0"))
    error = told(output, GroupError(0, 1), lost, refused)
    assert type(error) is InputError
    assert str(error) == "rank-1 on node1: lr=0 must be over 0"


def test_else_the_first_that_failed_is_named_with_its_log(output: Output) -> None:
    error = told(output, GroupError(0, 1), *(Report.of(member, LookupError("no such luck")) for member in reversed(RANKS)))
    assert str(error).startswith("rank-1 on node1 failed: LookupError: no such luck; the end of ")


def test_a_report_of_an_earlier_process_is_none_of_its_successor(output: Output) -> None:
    again = Member(name="rank-1", host="node1", ip="10.0.0.7", pid=99)
    error = told(output, GroupError(1), Report.of(RANKS[1], RuntimeError("lost")), members=[*RANKS, again])
    assert "rank-1 on node1 was killed" in str(error)


def test_a_failure_of_ray_itself_is_said_as_it_is(output: Output) -> None:
    assert str(told(output, RuntimeError("no room"))) == "Ray Train failed: no room"
