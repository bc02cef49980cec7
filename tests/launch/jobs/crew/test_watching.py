"""What is said of processes and hosts, by news that nobody's processes have made."""

import json
import queue
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.crew.remote import Lost, Said
from halohop.launch.jobs.crew.watching import Place, Watch
from halohop.launch.jobs.host.messages import Begin, Ended, Output, Started, Stop
from halohop.launch.processes.ends import Member
from halohop.launch.terminal.signals import Resumable, Stopped

RANKS: list[Place] = [("a", "rank-0"), ("b", "rank-1")]
SERVERS: list[Place] = [("a", "server-0"), ("b", "server-1")]


class News:
    """Two hosts without anything behind them."""

    def __init__(self, folder: Path, *, spare: bool = False) -> None:
        self.news: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.begun: list[Begin] = []
        remote = SimpleNamespace(send=self.begun.append, silent_s=0.0)
        self.remotes = {"a": remote, "b": remote}
        self.shown: list[tuple[Place, bytes]] = []
        self.members = {place: Member(stays=True, spare=spare) for place in SERVERS} | {place: Member() for place in RANKS}
        self.watch = Watch(self, folder / "logs", lambda place, line: self.shown.append((place, line)))  # type: ignore[arg-type]

    def say(self, place: Place, *, data: bytes = b"", code: int | None = None, report: bytes = b"") -> None:
        host, name = place
        self.news.put(Said(host=host, message=Output(name=name, data=data)))
        if code is not None:
            self.news.put(Said(host=host, message=Ended(name=name, code=code, report=report)))


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., News]]:
    monkeypatch.setattr("halohop.launch.jobs.crew.watching._SETTLE_S", 0.01)
    made = []

    def make(**options: bool) -> News:
        one = News(tmp_path, **options)
        made.append(one)
        one.watch.__enter__()
        for number, (place, member) in enumerate(one.members.items()):
            one.watch.begin(place, member)
            one.news.put(Said(host=place[0], message=Started(name=place[1], process=100 + number)))
        return one

    yield make
    for one in made:
        one.watch.__exit__(None, None, None)


@pytest.fixture
def crew(begun: Callable[..., News]) -> News:
    return begun()


def test_lines_are_logged_whole_and_shown_one_by_one(crew: News, tmp_path: Path) -> None:
    assert [message.name for message in crew.begun] == ["server-0", "server-1", "rank-0", "rank-1"]
    for data in (b"epo", b"ch 1\nepoch", b" 2\n"):
        crew.say(RANKS[0], data=data)
    for place in RANKS:
        crew.say(place, code=0)
    crew.watch.until_ended(RANKS)
    assert crew.shown == [(RANKS[0], b"epoch 1"), (RANKS[0], b"epoch 2")]
    assert (tmp_path / "logs" / "a-rank-0.log").read_bytes() == b"epoch 1\nepoch 2\n"
    assert (tmp_path / "logs" / "b-rank-1.log").read_bytes() == b""


def test_a_server_is_ready_when_it_says_so_however_it_is_cut(crew: News) -> None:
    for data in (b"compiling\nserving par", b"titions 0 of parts\n"):
        crew.say(SERVERS[0], data=data)
    crew.watch.until_ready(SERVERS[:1])
    crew.say(SERVERS[1], code=0)
    with pytest.raises(ClusterError, match=r"server 1 \(b, process 101\) ended before serving"):
        crew.watch.until_ready(SERVERS[1:])


def test_a_server_that_fails_ends_the_job_and_one_that_others_stand_in_for_does_not(begun: Callable[..., News]) -> None:
    crew = begun(spare=True)
    crew.say(SERVERS[1], code=-signal.SIGKILL)
    for place in RANKS:
        crew.say(place, code=0)
    crew.watch.until_ended(RANKS)
    crew = begun()
    crew.say(SERVERS[1], code=-signal.SIGKILL)
    with pytest.raises(ClusterError, match=r"^server 1 \(b, process 101\) was killed by SIGKILL; the end of"):
        crew.watch.until_ended(RANKS)


def test_a_rank_that_only_lost_its_peer_is_not_the_culprit(crew: News) -> None:
    """It may end first."""
    crew.say(RANKS[0], data=b"RuntimeError: Connection closed by peer [10.0.0.7]:4711\n", code=1)
    crew.say(RANKS[1], data=b"LookupError: no such luck\n", code=1)
    with pytest.raises(ClusterError) as failed:
        crew.watch.until_ended(RANKS)
    first, *_, then, last = str(failed.value).splitlines()
    assert first.startswith("rank 1 (b, process 103) failed with exit code 1; the end of")
    assert then == "then rank 0 (a, process 102) failed with exit code 1: RuntimeError: Connection closed by peer [10.0.0.7]:4711"
    assert last == "then the launcher ended server 0 (a, process 100), server 1 (b, process 101)"


def test_what_a_rank_says_of_the_users_input_is_the_error(crew: News) -> None:
    report = json.dumps({"kind": "InputError", "message": "lr=0 must be over 0"}).encode()
    crew.say(RANKS[1], data=b"Traceback\n", code=1, report=report)
    with pytest.raises(InputError, match=r"^lr=0 must be over 0$"):
        crew.watch.until_ended(RANKS)


def test_ranks_that_all_saved_end_the_job_with_their_code(crew: News) -> None:
    for place in RANKS:
        crew.say(place, code=75)
    with pytest.raises(Resumable):
        crew.watch.until_ended(RANKS)


@pytest.mark.parametrize(("code", "number"), [(75, 15), (0, 15), (1, 15), (75, 2)])
def test_a_launcher_that_is_asked_to_end_ends_as_its_ranks_do(begun: Callable[..., News], code: int, number: int) -> None:
    """Their last words come while the hosts end."""
    crew = begun()
    crew.say(RANKS[0], code=75)
    crew.say(RANKS[1], code=code)
    stop = Stopped(128 + number)
    if code != 1 and number == signal.SIGTERM:
        with pytest.raises(Resumable):
            crew.watch.__exit__(Stopped, stop, None)
    else:
        crew.watch.__exit__(Stopped, stop, None)


def test_a_request_reaches_the_trainers_and_servers_stay(crew: News, caplog: pytest.LogCaptureFixture) -> None:
    crew.begun.clear()
    crew.say(RANKS[1], code=75)
    crew.watch.stop("the time is nearly over", 1000)
    crew.watch.stop("the time is nearly over", 1000)
    crew.say(SERVERS[0], code=143)
    crew.say(RANKS[0], code=1)
    with pytest.raises(Resumable):
        crew.watch.until_ended(RANKS)
    assert crew.begun == [Stop(name="rank-0")]
    assert caplog.messages == ["the time is nearly over; all ranks save where they stand"]


def test_ranks_that_do_not_end_have_their_time(crew: News) -> None:
    crew.say(RANKS[0], code=75)
    crew.watch.stop("the time is nearly over", 0)
    with pytest.raises(Resumable):
        crew.watch.until_ended(RANKS)


def test_before_trainers_have_begun_there_is_nothing_to_save(tmp_path: Path) -> None:
    crew = News(tmp_path)
    with crew.watch:
        crew.watch.begin(SERVERS[0], Member(stays=True))
        crew.watch.stop("host b was asked to end", 60)
        with pytest.raises(Resumable):
            crew.watch.begin(RANKS[0], Member())
    assert crew.begun == [Begin(name="server-0")]


@pytest.mark.parametrize("code", [0, 3])
def test_a_request_that_comes_late_changes_nothing(crew: News, code: int) -> None:
    for place in RANKS:
        crew.say(place, code=code)
    if code:
        crew.watch.stop("host b was asked to end", 60)
        with pytest.raises(ClusterError, match="failed with exit code 3"):
            crew.watch.until_ended(RANKS)
    else:
        crew.watch.until_ended(RANKS)
        crew.watch.stop("host b was asked to end", 60)
    crew.watch.__exit__(None, None, None)


def test_a_lost_host_goes_before_those_that_failed_of_it(crew: News, tmp_path: Path) -> None:
    crew.say(RANKS[0], code=1)
    crew.news.put(Lost(host="b", reason="the connection is lost"))
    with pytest.raises(ClusterError) as failed:
        crew.watch.until_ended(RANKS)
    first, then = str(failed.value).splitlines()
    assert first == "host b: the connection is lost"
    log = tmp_path / "logs" / "a-rank-0.log"
    ended = "server 0 (a, process 100), server 1 (b, process 101), rank 1 (b, process 103)"
    assert then == f"then rank 0 (a, process 102) failed; its log: {log}; then the launcher ended {ended}"
