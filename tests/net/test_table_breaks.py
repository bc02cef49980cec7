"""Owners whose connections break, and owners that are killed: steps and writes are applied once, or an error names the owner."""

import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
from halohop.errors import ClusterError, PeerLostError, TransportError
from halohop.net.service import Keeping
from halohop.tables.change_messages import ChangeRequest, Moment, Share, TrainRequest
from halohop.tables.messages import ReadRowsRequest, RowsRead, TableQuery, TableRequest
from halohop.tables.owner import Owner
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.spec import TableSpec
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, environment
from halohop.transport import Limits
from halohop.typing import NODE
from tests.support.deadlines import within

ROWS, STEPS = 60, 20
LIMITS = Limits(call_seconds=30, attempt_seconds=2, connect_seconds=10)
RULE = RuleSpec(kind="adagrad")
SPEC = TableSpec(name="x", key=NODE, num_rows=ROWS, shape=(4,), dtype="float32")
COUNTS = replace(SPEC, name="count", shape=(), dtype="int64")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("breaks") / "parts"
    halohop.partition(ring(ROWS), path, num_parts=2, method="random")
    return path


class Rank:
    """One of two trainers, which makes steps by hand."""

    def __init__(self, graph: halohop.Graph, rank: int, sender: str = "run") -> None:
        self.tables, self.rank = graph.tables, rank
        self.moment = Moment(group="adagrad", session="", rank=rank, size=2, round=0, index=0)
        for owner in range(self.tables.directory.num_owners):
            request = TrainRequest(moment=self.moment, rules={"x": RULE}, sender=f"{sender} {rank}")
            training = self.tables.directory.ask({owner: request})[owner]
            self.moment = replace(self.moment, session=training.session)

    def step(self, index: int) -> None:
        generator = torch.Generator().manual_seed(2 * index + self.rank)
        gid = torch.randint(ROWS, (30,), generator=generator)
        rows = torch.randn(30, 4, generator=generator)
        self.tables.change(replace(self.moment, index=index), "step", [Share(name="x", gid=gid, rows=rows, lr=0.1)]).apply()


def trained(graphs: list[halohop.Graph], disturb: Callable[[int], None] = lambda index: None) -> torch.Tensor:
    """The rows after all steps of two ranks, and a number that both have added to."""
    graphs[0].tables.make(SPEC)
    graphs[0].tables.make(COUNTS)
    ranks = [Rank(graph, rank) for rank, graph in enumerate(graphs)]
    everything = torch.arange(ROWS)

    def run(rank: Rank) -> None:
        for index in range(STEPS):
            if rank.rank == 0:
                disturb(index)
            rank.step(index)
            rank.tables.add("count", everything, torch.ones(ROWS, dtype=torch.int64))

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(run, rank) for rank in ranks]:
            future.result(100)
    assert graphs[1].tables.read("count", everything).tolist() == [2 * STEPS] * ROWS
    rows: torch.Tensor = graphs[1].tables.read("x", everything)
    return rows


def test_connections_that_break_in_steps_change_no_bit(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They break between the steps, and in each step once more: an owner has received a change of rank 0, and not replied."""
    with ExitStack() as stack, monkeypatch.context() as patch:
        servers = [stack.enter_context(halohop.serve(parts, partitions=[part], token=TOKEN, limits=LIMITS)) for part in range(2)]
        addresses = [server.address for server in servers]
        graphs = [stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=LIMITS)) for _ in range(2)]
        for graph in graphs:
            graph.tables.list()

        def cut() -> None:
            for server in servers:
                for stream in list(server._listener._port._streams.values()):  # type: ignore[attr-defined]
                    with suppress(OSError):  # it is gone already
                        stream._socket.shutdown(socket.SHUT_RDWR)

        in_step, answer = threading.Event(), Owner.answer

        def answer_and_cut(owner: Owner, request: TableRequest[Any], **how: Any) -> object:
            reply = answer(owner, request, **how)
            if in_step.is_set() and isinstance(request, ChangeRequest) and request.moment.rank == 0:
                in_step.clear()
                cut()
            return reply

        def disturb(index: int) -> None:
            cut()
            in_step.set()

        patch.setattr(Owner, "answer", answer_and_cut)
        rows = trained(graphs, disturb)
        assert sum(graph.statistics()["transport_retries"] for graph in graphs) >= STEPS
        assert all(server.statistics()["pending_changes"] == 0 for server in servers)
    with halohop.open(parts) as whole:
        assert torch.equal(rows, trained([whole, whole]))


@pytest.mark.full
@pytest.mark.parametrize("seconds", [2.0, pytest.param(20.0, marks=pytest.mark.soak)])
def test_an_owner_that_is_stopped_for_some_seconds_changes_no_bit(parts: Path, seconds: float) -> None:
    """By SIGSTOP, once between steps and once in the middle of one."""
    limits = replace(LIMITS, call_seconds=10 + seconds, heartbeat_seconds=seconds / 20)  # so short that connections are given up
    with ExitStack() as stack:
        children = [child(parts, part, "127.0.0.1:0", stack) for part in range(2)]
        addresses = [address for _, address in children]
        graphs = [stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=limits)) for _ in range(2)]
        owner, timers = children[1][0], []

        def disturb(index: int) -> None:
            if index in (5, 12):
                owner.send_signal(signal.SIGSTOP)
                timers.append(threading.Timer(seconds, owner.send_signal, [signal.SIGCONT]))
                timers[-1].start()

        begin = time.monotonic()
        rows = trained(graphs, disturb)
        assert time.monotonic() - begin > 2 * seconds
        for timer in timers:
            timer.join()
        assert sum(graph.statistics()["transport_retries"] for graph in graphs) > 0
    with halohop.open(parts) as whole:
        assert torch.equal(rows, trained([whole, whole]))


def test_an_owner_that_was_started_again_has_no_half_of_a_write(parts: Path) -> None:
    """What reaches one of two owners is not kept there when the other one has no table any more."""
    with ExitStack() as stack:
        first = stack.enter_context(halohop.serve(parts, partitions=[0], token=TOKEN, limits=LIMITS))
        second = halohop.serve(parts, partitions=[1], token=TOKEN, limits=LIMITS)
        addresses = [first.address, second.address]
        graph = stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=LIMITS))
        graph.tables.make(SPEC)
        everything, ones = torch.arange(ROWS), torch.ones(ROWS, 4)
        graph.tables.write("x", everything, ones)
        second.close()
        stack.enter_context(halohop.serve(parts, partitions=[1], listen=addresses[1], token=TOKEN, limits=LIMITS))
        with pytest.raises(ClusterError, match=re.escape(addresses[1])):
            graph.tables.write("x", everything, 2 * ones)
        mine = TableQuery(name="x", gid=torch.arange(graph.book.bounds(NODE)[1]))
        reply = first.tables.answer(ReadRowsRequest(queries=(mine,)))
        assert isinstance(reply, RowsRead)
        assert torch.equal(reply.rows[0], ones[: len(mine.gid)])
        assert first.statistics()["pending_changes"] == 0
        graph.tables.drop("x")
        graph.tables.make(SPEC)
        assert not graph.tables.read("x", everything).any()


def test_owners_remember_a_write_for_as_long_as_it_may_come_again(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    answer = Owner.answer
    monkeypatch.setattr(Owner, "answer", lambda self, request, **how: (asked.append(request), answer(self, request, **how))[1])
    with (
        halohop.serve(parts, token=TOKEN, limits=LIMITS, keeping=Keeping(lease_seconds=10.0)) as server,
        halohop.connect([server.address], token=TOKEN, limits=replace(LIMITS, call_seconds=7.0)) as graph,
    ):
        graph.tables.make(SPEC)
        graph.tables.add("x", torch.tensor([1]), torch.ones(1, 4))
        assert [request.seconds for request in asked if isinstance(request, ChangeRequest)] == [7.0]
        server.tables.sweep(0.0)
        assert server.statistics()["kept_senders"] == 1
        server.tables.sweep(-7.0)
        assert server.statistics()["kept_senders"] == 0


@pytest.mark.full
@pytest.mark.timeout(200)
@pytest.mark.parametrize("seed", range(3))
def test_an_owner_that_is_killed_in_mid_step_is_named_to_all_ranks(parts: Path, seed: int) -> None:
    """And one that comes back empty says so. No rank hears that a step is done that is not."""
    limits = Limits(call_seconds=4, attempt_seconds=1, connect_seconds=10)
    draw = random.Random(seed)
    with ExitStack() as stack:
        children = [child(parts, part, "127.0.0.1:0", stack) for part in range(2)]
        addresses = [address for _, address in children]
        graphs = [stack.enter_context(halohop.connect(addresses, token=TOKEN, limits=limits)) for _ in range(2)]
        graphs[0].tables.make(SPEC)
        ranks = [Rank(graph, rank) for rank, graph in enumerate(graphs)]
        done = [0, 0]
        victim, killer, last = draw.randrange(2), draw.randrange(2), draw.randrange(3, 30)
        pool = stack.enter_context(ThreadPoolExecutor(2))

        def run(rank: Rank) -> None:
            for index in range(10_000):
                rank.step(index)
                done[rank.rank] = index + 1
                if (rank.rank, index) == (killer, last):
                    children[victim][0].kill()

        running = [pool.submit(run, rank) for rank in ranks]
        wait(running, timeout=100)
        errors = [future.exception(0) for future in running]
        assert all(isinstance(error, TransportError | ClusterError) for error in errors), errors
        assert any(isinstance(error, PeerLostError) and addresses[victim] in str(error) for error in errors), errors
        assert max(done) - min(done) <= 1
        children[victim][0].wait(30)
        child(parts, victim, addresses[victim], stack)
        with pytest.raises(ClusterError, match=f"{re.escape(addresses[victim])} .*started again"):
            read_when_it_is_back(graphs[0])


def read_when_it_is_back(graph: halohop.Graph) -> None:
    """Reads all rows; an owner that was lost may be found a little later."""
    ends, pause = time.monotonic() + within(20.0), threading.Event()
    while True:
        try:
            graph.tables.read("x", torch.arange(ROWS))
        except PeerLostError:
            assert time.monotonic() < ends
            pause.wait(0.2)
        else:
            return


def child(parts: Path, part: int, listen: str, stack: ExitStack) -> tuple["subprocess.Popen[str]", str]:
    """A server process, and its address."""
    command = [sys.executable, "-m", "halohop", "serve", str(parts), "--partitions", str(part), "--listen", listen]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    stack.callback(end, process)
    assert process.stderr is not None
    found = re.search(r"at (\S+:\d+)", process.stderr.readline())
    assert found is not None
    return process, found.group(1)


def end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert process.stderr is not None
    process.stderr.close()
