"""What is said of processes and hosts, by news that nobody's processes have made."""

import queue
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from halohop.errors import ClusterError
from halohop.launch.jobs.host.messages import Begin, Ended, Output
from halohop.launch.jobs.ssh.remote import Lost, Said
from halohop.launch.jobs.ssh.watching import Place, Watch
from tests.launch.jobs.test_torchrun_log import REPORT

PLACES: list[Place] = [("a", "trainers-0"), ("b", "trainers-1")]


class News:
    """Two hosts without anything behind them."""

    def __init__(self, folder: Path) -> None:
        self.news: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.begun: list[Begin] = []
        remote = SimpleNamespace(send=self.begun.append, silent_s=0.0)
        self.remotes = {"a": remote, "b": remote}
        self.shown: list[tuple[Place, bytes]] = []
        self.watch = Watch(self, folder / "logs", lambda place, line: self.shown.append((place, line)))  # type: ignore[arg-type]

    def say(self, host: str, message: Output | Ended) -> None:
        self.news.put(Said(host=host, message=message))


@pytest.fixture
def crew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[News]:
    monkeypatch.setattr("halohop.launch.jobs.ssh.watching._SETTLE_S", 0.01)
    one = News(tmp_path)
    with one.watch:
        for place in PLACES:
            one.watch.begin(place)
        yield one


def test_lines_are_logged_whole_and_shown_one_by_one(crew: News, tmp_path: Path) -> None:
    assert [message.name for message in crew.begun] == ["trainers-0", "trainers-1"]
    for data in (b"epo", b"ch 1\nepoch", b" 2\n"):
        crew.say("a", Output(name="trainers-0", data=data))
    for host, name in PLACES:
        crew.say(host, Ended(name=name, code=0))
    crew.watch.until_ended(PLACES)
    assert crew.shown == [(PLACES[0], b"epoch 1"), (PLACES[0], b"epoch 2")]
    assert (tmp_path / "logs" / "a-trainers-0.log").read_bytes() == b"epoch 1\nepoch 2\n"
    assert (tmp_path / "logs" / "b-trainers-1.log").read_bytes() == b""


def test_a_server_is_ready_when_it_says_so_however_it_is_cut(crew: News) -> None:
    for data in (b"compiling\nserving par", b"titions 0 of parts\n"):
        crew.say("a", Output(name="trainers-0", data=data))
    crew.watch.until_ready(PLACES[:1])
    crew.say("b", Ended(name="trainers-1", code=0))
    with pytest.raises(ClusterError, match="trainers-1 on b ended before serving"):
        crew.watch.until_ready(PLACES[1:])


def test_a_program_that_only_lost_its_peer_is_not_the_culprit(crew: News) -> None:
    crew.say("a", Output(name="trainers-0", data=b"RuntimeError: Connection closed by peer [10.0.0.7]:4711\n"))
    crew.say("a", Ended(name="trainers-0", code=1))
    crew.say("b", Output(name="trainers-1", data=b"LookupError: no such luck\n"))
    crew.say("b", Ended(name="trainers-1", code=1))
    with pytest.raises(ClusterError, match=r"^trainers-1 on b failed with exit code 1; the end of"):
        crew.watch.until_ended(PLACES)


def test_a_rank_that_only_lost_its_peer_is_not_the_culprit(crew: News) -> None:
    """It may end first."""
    crew.say("a", Output(name="trainers-0", data=b"RuntimeError: Connection closed by peer\n" + REPORT.format(code=1).encode()))
    crew.say("a", Ended(name="trainers-0", code=1))
    crew.say("b", Output(name="trainers-1", data=b"LookupError: no such luck\n" + REPORT.format(code=1).encode()))
    crew.say("b", Ended(name="trainers-1", code=1))
    with pytest.raises(ClusterError) as failed:
        crew.watch.until_ended(PLACES)
    first, *_, last = str(failed.value).splitlines()
    assert first.startswith("rank 3 (trainers-1 on b) failed with exit code 1; the end of")
    assert last == "then rank 3 (trainers-0 on a) failed with exit code 1: RuntimeError: Connection closed by peer"


def test_a_lost_host_goes_before_those_that_failed_of_it(crew: News, tmp_path: Path) -> None:
    crew.say("a", Ended(name="trainers-0", code=1))
    crew.news.put(Lost(host="b", reason="the connection is lost"))
    with pytest.raises(ClusterError) as failed:
        crew.watch.until_ended(PLACES)
    log = tmp_path / "logs" / "a-trainers-0.log"
    assert str(failed.value) == (
        f"host b: the connection is lost\nthen trainers-0 on a failed; its log: {log}; then the launcher ended trainers-1 on b"
    )
