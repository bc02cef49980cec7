import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist

from halohop.errors import ClusterError
from halohop.net.board import master_of
from halohop.net.ownership import owners
from halohop.net.rendezvous import HostCard, Rendezvous
from halohop.testing.worlds import free_addresses
from halohop.world import World


def world(host: int, num_hosts: int) -> World:
    return World(rank=host, size=num_hosts, host=host, num_hosts=num_hosts)


def card(host: int, dataset: str = "same", columns: tuple[str, ...] = ()) -> HostCard:
    return HostCard(address=f"tcp://host-{host}:1", dataset=dataset, parts=(host,), columns=columns)


def test_hosts_read_each_others_cards_and_leave_together():
    board = dist.HashStore()

    def visit(host: int) -> list[HostCard]:
        meeting = Rendezvous(board, world(host, 3), deadline=20)
        meeting.announce(card(host))
        cards = meeting.cards(card(host))
        meeting.leave()
        return cards

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(visit, range(3))) == [[card(0), card(1), card(2)]] * 3
        assert list(pool.map(visit, range(3)))  # a second graph: a meeting of its own


def test_a_host_that_does_not_come_is_named():
    meeting = Rendezvous(dist.HashStore(), world(0, 2), deadline=0.2)
    meeting.announce(card(0))
    with pytest.raises(ClusterError, match=r"host 1 of 2 did not come within 0\.2 s"):
        meeting.cards(card(0))
    with pytest.raises(ClusterError, match="rank 1 did not finish"):
        meeting.leave()


def test_a_store_that_is_gone_is_called_that():
    port = int(free_addresses(1)[0].split(":")[1])
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    boards = [dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=20)) for _ in range(2)]
    meeting, other = (Rendezvous(board, world(0, 2), deadline=20) for board in boards)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(meeting.cards, card(0))
        del store
        gone = rf"the store at 127.0.0.1:{port} \(kept by rank 0's process, .* is gone"
        with pytest.raises(ClusterError, match=gone):
            waiting.result(timeout=60)
    for ask in (other.leave, lambda: other.announce(card(0)), lambda: Rendezvous(boards[1], world(0, 2), deadline=20)):
        with pytest.raises(ClusterError, match=gone):
            ask()


def test_rank_0_which_may_keep_the_board_goes_last():
    board, looked, may_go = dist.HashStore(), threading.Event(), threading.Event()

    class Slow:
        set, get, add = board.set, board.get, board.add

        def wait(self, keys: list[str], timeout: timedelta) -> None:
            board.wait(keys, timeout)
            looked.set()
            assert may_go.wait(60)

    visits = [Rendezvous(board, world(0, 2), deadline=20), Rendezvous(Slow(), world(1, 2), deadline=20)]
    with ThreadPoolExecutor(2) as pool:
        leaving = [pool.submit(visit.leave) for visit in visits]
        assert looked.wait(60)  # both have said that they ask no more, and one is still reading what the other said
        with pytest.raises(TimeoutError):
            leaving[0].result(timeout=0.5)
        may_go.set()
        for each in leaving:
            each.result(timeout=60)


def test_another_data_set_is_refused():
    board = dist.HashStore()
    meetings = [Rendezvous(board, world(host, 2), deadline=5) for host in range(2)]
    for host, meeting in enumerate(meetings):
        meeting.announce(card(host, dataset=f"data set {host}"))
    with pytest.raises(ClusterError, match=r"host 1 .*another data set"):
        meetings[0].cards(card(0, dataset="data set 0"))


def test_a_rank_that_opened_another_data_set_than_its_host_is_refused():
    meeting = Rendezvous(dist.HashStore(), world(0, 1), deadline=5)
    meeting.announce(card(0))
    with pytest.raises(ClusterError, match=r"host 0 .*another data set"):
        meeting.cards(card(0, dataset="that of another folder"))


def test_hosts_that_were_given_different_columns_are_refused_by_name():
    board = dist.HashStore()
    meetings = [Rendezvous(board, world(host, 2), deadline=5) for host in range(2)]
    cards = [card(0, "one", ("'y' of 'node' (int64 [])", "'z'")), card(1, "other", ("'y' of 'node' (int32 [])", "'z'"))]
    for meeting, each in zip(meetings, cards, strict=True):
        meeting.announce(each)
    named = (
        r"host 1 \(tcp.*\) was given other columns: 'y' of 'node' \(int64 \[\]\) here only; .*int32 \[\]\) there only; give all"
    )
    with pytest.raises(ClusterError, match=named):
        meetings[0].cards(cards[0])


def test_nobody_at_the_master_address(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(ClusterError, match="MASTER_ADDR and MASTER_PORT"):
        master_of(None)


def test_every_partition_has_one_server():
    assert owners([(0, 1, 2, 3), (0, 1, 2, 3)], 4) == [(0, 2), (1, 3)]
    assert owners([(1,), (0, 1), ()], 2) == [(1,), (0,), ()]
    with pytest.raises(ClusterError, match=r"partitions \[2\] of 3 are held by no host"):
        owners([(0,), (1,)], 3)
