from dataclasses import replace

import pytest

from halohop.errors import InputError
from halohop.net.attendance import Attendance, AttendReply, AttendRequest


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attendance(clock: Clock) -> Attendance:
    return Attendance(lease_seconds=60.0, expected=2, clock=clock)


def join(attendance: Attendance, client: str, size: int = 3, rank: int = -1) -> AttendReply:
    return attendance.answer(AttendRequest(client=client, job="papers", size=size, rank=rank))


def leave(attendance: Attendance, client: str) -> None:
    attendance.answer(AttendRequest(client=client, leaves=True))


def test_numbers_are_given_once_and_stay(attendance):
    assert [join(attendance, client).rank for client in "abc"] == [0, 1, 2]
    assert [join(attendance, client).rank for client in "cab"] == [2, 0, 1]
    assert "has its 3 clients" in join(attendance, "d").refusal
    leave(attendance, "b")
    assert join(attendance, "d").rank == 1


def test_numbers_that_clients_bring(attendance):
    assert join(attendance, "a", rank=2).rank == 2
    assert [join(attendance, client).rank for client in "bc"] == [0, 1]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"client": "b", "rank": 0}, "rank=0 of job 'papers' is another client's, which is there; leave it out"),
        ({"client": "b", "size": 2}, "job 'papers' has 3 clients, but this one says 2; give all clients of a job one number"),
        ({"client": "b", "rank": 3}, r"rank=3 of job 'papers' is outside 0..2"),
        ({"client": "a", "rank": 1}, "rank=1 of job 'papers' is another client's"),
    ],
)
def test_what_is_refused(attendance, request_, why):
    join(attendance, "a")
    reply = attendance.answer(AttendRequest(**{"job": "papers", "size": 3} | request_))
    assert why in reply.refusal
    assert reply.rank == -1
    assert join(attendance, "a").rank == 0


def test_a_lost_client_makes_room(attendance, clock):
    join(attendance, "a")
    clock.now = 30.0
    join(attendance, "b")
    clock.now = 60.0  # a was not heard of for a lease
    assert [join(attendance, client).rank for client in "cb"] == [0, 1]
    assert len(attendance) == 2
    assert join(attendance, "a", rank=0).refusal  # it was slower than its lease, and its number is another's now


def test_jobs_do_not_know_each_other(attendance):
    join(attendance, "a")
    assert attendance.answer(AttendRequest(client="b", job="authors", size=1)).rank == 0
    leave(attendance, "a")
    assert join(attendance, "c", size=5).rank == 0  # the job has ended, and may begin with another size


def test_numbers_outlive_the_server(attendance):
    """What it kept is lost with it; clients say their numbers with every request."""
    again = Attendance(lease_seconds=60.0)
    assert join(again, "b", rank=1).rank == 1
    assert join(again, "c").rank == 0
    assert join(again, "a", rank=0).refusal


def test_over_when_all_have_come_and_left(attendance, clock):
    attendance.answer(AttendRequest(client="a"))
    leave(attendance, "a")
    attendance.sweep()
    assert not attendance.over.is_set()  # another one is still to come
    attendance.answer(AttendRequest(client="b"))
    attendance.sweep()
    assert not attendance.over.is_set()
    clock.now = 60.0
    attendance.sweep()  # b is lost
    assert attendance.over.is_set()


def test_never_over_where_no_number_is_expected(clock):
    attendance = Attendance(lease_seconds=1.0, clock=clock)
    attendance.answer(AttendRequest(client="a"))
    leave(attendance, "a")
    attendance.sweep()
    assert not attendance.over.is_set()


def test_over_when_each_number_of_a_job_was_taken(clock):
    """Clients come and go meanwhile, and one that came twice does not count for another."""
    attendance = Attendance(lease_seconds=60.0, expected="jobs", clock=clock)
    attendance.answer(AttendRequest(client="looks around"))
    leave(attendance, "looks around")
    for client in "ab":
        assert join(attendance, client, size=2, rank=0).rank == 0
        leave(attendance, client)
        assert not attendance.over.is_set()
    assert join(attendance, "c", size=2, rank=1).rank == 1
    attendance.sweep()
    assert not attendance.over.is_set()  # it is there
    leave(attendance, "c")
    assert attendance.over.is_set()


@pytest.mark.parametrize("expected", [2, "jobs"])
def test_over_at_a_server_that_was_started_again(clock, expected):
    """It hears of some clients only that they leave."""
    again = Attendance(lease_seconds=60.0, expected=expected, clock=clock)
    leaves = AttendRequest(client="a", job="papers", size=2, rank=0, leaves=True)
    again.answer(leaves)
    again.answer(leaves)
    assert not again.over.is_set()
    again.answer(replace(leaves, client="b", rank=1))
    assert again.over.is_set()


@pytest.mark.parametrize("expected", [0, "papers"])
def test_a_number_of_clients_that_is_none(expected):
    with pytest.raises(InputError, match=f"clients={expected!r}; a server expects at least one"):
        Attendance(lease_seconds=1.0, expected=expected)


@pytest.mark.parametrize("expected", [None, 3, "jobs"])
def test_names_of_those_that_left_are_forgotten(clock, expected):
    """Any number of clients may come and go, each in a job of its own."""
    attendance = Attendance(lease_seconds=60.0, expected=expected, clock=clock)
    for number in range(1500):
        request = AttendRequest(client=f"client {number}", job=f"job {number}", size=2)
        attendance.answer(request)
        attendance.answer(replace(request, rank=0, leaves=True))
    attendance.answer(AttendRequest(client="lost", job="lost", size=2))
    clock.now = 60.0
    attendance.sweep()
    kept = [value for value in vars(attendance).values() if isinstance(value, set | dict)]
    assert sum(map(len, kept)) <= (1024 if expected == "jobs" else expected or 0)


@pytest.mark.full
def test_clients_and_jobs_are_counted_up_to_a_number(attendance):
    for number in range(16_384):
        attendance.answer(AttendRequest(client=f"client {number}"))
    with pytest.raises(InputError, match="this server has 16384 clients, the most that it counts; close some"):
        attendance.answer(AttendRequest(client="one more"))
    for number in range(1024):
        attendance.answer(AttendRequest(client="client 0", job=f"job {number}", size=1))
    with pytest.raises(InputError, match="this server has 1024 jobs, the most that it numbers; end some"):
        join(attendance, "client 0")
