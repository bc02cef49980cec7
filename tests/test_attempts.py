"""Ranks that torchrun starts again meet each other, and none that is dead; with real torchrun: system/test_restarts.py."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import msgspec
import pytest
import torch.distributed as dist

from halohop import attempts
from halohop.attempts import name_meeting
from halohop.errors import ClusterError


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """torchrun's environment; calling it makes this process another one, as a restart does."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    numbers = iter(range(100))

    def restart() -> None:
        number = next(numbers)
        monkeypatch.setattr(attempts, "this_process", lambda: f"process {number}")

    restart()
    return restart


def come(board: dist.Store, rank: int, *, size: int = 3, deadline: float = 20) -> str:
    return name_meeting(board, "halohop", rank=rank, size=size, deadline=deadline)


def together(board: dist.Store, size: int = 3) -> str:
    with ThreadPoolExecutor(size) as pool:
        (name,) = {*pool.map(lambda rank: come(board, rank, size=size), range(size))}
    return name


class Dying(threading.Thread):
    """A rank that is killed when it has come this far: what it wrote stays."""

    def __init__(self, board: dist.Store, rank: int) -> None:
        super().__init__(daemon=True)
        self._board, self._rank, self.error = board, rank, ""
        self.start()

    def run(self) -> None:
        try:
            come(self._board, self._rank, deadline=0.3)
        except ClusterError as error:
            self.error = str(error)


def test_each_attempt_has_a_meeting_of_its_own(restarts: Callable[[], None]) -> None:
    board = dist.HashStore()
    names = [together(board), together(board)]
    restarts()
    names += [together(board), together(board)]
    restarts()
    names += [together(board), together(board)]
    assert len({*names}) == 6


@pytest.mark.parametrize("dead", [(1,), (0,), (1, 2), (0, 1), (0, 2)])
def test_no_dead_rank_is_met(restarts: Callable[[], None], dead: tuple[int, ...]) -> None:
    """Some ranks of the first attempts came, said hello or offered, and were killed before all had come."""
    board = dist.HashStore()
    for _ in range(2):
        dying = [Dying(board, rank) for rank in dead]
        for each in dying:
            each.join(60)
            assert "did not come within 0.3 s" in each.error
        restarts()
    log: list[Future[str]] = []
    with ThreadPoolExecutor(3) as pool:
        log = [pool.submit(come, board, rank) for rank in range(3)]
        (name,) = {each.result(timeout=60) for each in log}
    offer = msgspec.json.decode(board.get(name.replace("halohop/1/", "halohop/1/offers/")))
    assert offer["confirmed"]
    assert len({*offer["names"]}) == 3


def test_a_rank_that_comes_after_an_offer_with_its_dead_predecessor_gets_another_offer(restarts: Callable[[], None]) -> None:
    board = dist.HashStore()
    dying = [Dying(board, rank) for rank in (1, 2)]
    for each in dying:
        each.join(60)
    restarts()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(come, board, 0)
        board.wait(["halohop/1/offers/0"], timedelta(seconds=60))  # of two dead ranks
        others = [pool.submit(come, board, rank) for rank in (1, 2)]
        assert len({each.result(timeout=60) for each in (first, *others)}) == 1


def test_a_rank_that_does_not_come_is_named(restarts: Callable[[], None]) -> None:
    board = dist.HashStore()
    with ThreadPoolExecutor(2) as pool:
        here = [pool.submit(come, board, rank, deadline=1) for rank in (0, 1)]
        with pytest.raises(ClusterError, match=r"rank 2 did not come within 1 s; was it started"):
            here[0].result(timeout=60)
        with pytest.raises(ClusterError, match=r"rank 0 did not come within 1 s; was it started"):
            here[1].result(timeout=60)


def test_without_torchrun_a_process_takes_the_place_of_a_killed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    board, names = dist.HashStore(), []
    for process in ("killed", "killed", "new"):
        monkeypatch.setattr(attempts, "this_process", lambda process=process: process)
        names.append(come(board, 1))
    assert names == ["halohop/1", "halohop/2", "halohop/1"]
