"""`halohop serve` in processes of its own: killed, restarted, interrupted."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

import halohop
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, environment, free_addresses
from halohop.transport import Limits, Token
from tests.support.deadlines import within

SEALED = Token(TOKEN.key.decode(), encrypt=True)
LIMITS = Limits(call_seconds=90, attempt_seconds=5, connect_seconds=60)


def batches(graph: halohop.Graph) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph, [3, 2], batch_size=20, shuffle=True, seed=2, num_workers=2)


def told(found) -> list[tuple]:
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in found]


@pytest.mark.parametrize("sampling", ["servers", pytest.param("client", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("victims", "token"),
    [
        ((0,), TOKEN),
        pytest.param((0,), SEALED, marks=pytest.mark.full),
        pytest.param((0, 1), TOKEN, marks=pytest.mark.full),
        pytest.param((0, 1), SEALED, marks=pytest.mark.full),
    ],
    ids=["one", "one-encrypted", "both", "both-encrypted"],
)
def test_killed_and_restarted_in_mid_epoch(parts, start, sampling, victims, token):
    with halohop.open(parts) as graph:
        undisturbed = told(batches(graph))
    places = free_addresses(2)
    more = ["--encrypt"] if token.encrypt else []

    def begin(number: int):
        return start(str(number), places[number], places[1 - number], *more)

    servers, addresses = map(list, zip(*map(begin, range(2)), strict=True))
    with halohop.connect(addresses, sampling=sampling, token=token, limits=LIMITS) as graph:
        got = []
        for number, batch in enumerate(batches(graph)):
            got.append(batch)
            if number == 7:
                for victim in victims:
                    servers[victim].send_signal(signal.SIGKILL)
                    assert servers[victim].wait(60) == -signal.SIGKILL
                for victim in victims:
                    begin(victim)
        assert told(got) == undisturbed


@pytest.mark.full
def test_a_server_of_another_data_set_takes_the_port_of_a_killed_one(parts, start, tmp_path):
    """Nothing of it is believed; the right one, when it is back at its port, is."""
    halohop.partition(ring(600), tmp_path / "other", num_parts=2, method="random", seed=1)
    with halohop.open(parts) as graph:
        undisturbed = told(batches(graph))
    (place,) = free_addresses(1)
    first, address = start("0,1", place)
    with halohop.connect([address], sampling="client", token=TOKEN, limits=LIMITS) as graph:
        got = []
        for number, batch in enumerate(batches(graph)):
            got.append(batch)
            if number == 3:
                first.send_signal(signal.SIGKILL)
                assert first.wait(60) == -signal.SIGKILL
                wrong, _ = start("0,1", place, path=tmp_path / "other")
                with halohop.connect([address], sampling="client", token=TOKEN, limits=LIMITS) as other:
                    assert len(next(iter(batches(other))).n_id) > 20  # it answers, and numbers nodes otherwise
                wrong.send_signal(signal.SIGKILL)
                assert wrong.wait(60) == -signal.SIGKILL
                start("0,1", place)
        assert told(got) == undisturbed


def test_a_stopped_server_is_stood_in_for(parts, start):
    """The one that is asked first stops with all its connections open."""
    with halohop.open(parts) as graph:
        undisturbed = told(batches(graph))
    stopped, address = start("0,1")
    limits = replace(LIMITS, heartbeat_seconds=0.3)
    with (
        halohop.serve(parts, token=TOKEN) as other,
        halohop.connect([address, other.address], token=TOKEN, limits=limits, first=address) as graph,
    ):
        got = []
        for number, batch in enumerate(batches(graph)):
            got.append(batch)
            if number == 3:
                stopped.send_signal(signal.SIGSTOP)
        assert told(got) == undisturbed
        assert other.statistics()["batches"] > 0


@pytest.mark.full
@pytest.mark.parametrize("share", [1, 0.25])
def test_a_stopped_server_is_named_and_not_the_one_that_needs_it(parts, start, share):
    """The client waits less long than servers do by default, so the server that it asks has to be told how long."""
    limits = replace(LIMITS, call_seconds=8 * share)
    place, later = free_addresses(2)
    _, address = start("0", place, later)
    stopped, other = start("1", later, place)
    with halohop.connect([address, other], token=TOKEN, limits=LIMITS, first=address) as graph:
        next(iter(halohop.NeighborLoader(graph, [3, 2], batch_size=20, num_workers=0)))  # servers find each other, at any load
    with halohop.connect([address, other], token=TOKEN, limits=limits, first=address) as graph:
        iterator = iter(halohop.NeighborLoader(graph, [3, 2], batch_size=20, num_workers=0))
        next(iterator)
        stopped.send_signal(signal.SIGSTOP)
        with pytest.raises(halohop.errors.TransportError, match=rf"waited for another: .*no answer from .*{other}"):
            list(iterator)


def test_ctrl_c_ends_a_server_that_waits_for_a_dead_peer(parts, start):
    place, gone = free_addresses(2)
    waiting, address = start("0", place, gone)
    limits = replace(LIMITS, call_seconds=30)
    with ThreadPoolExecutor(1) as pool:
        with (
            halohop.serve(parts, partitions=[1], listen=gone, peers=[place], token=TOKEN) as other,
            halohop.connect([address, gone], token=TOKEN, limits=limits, first=address) as graph,
        ):
            iterator = iter(batches(graph))
            next(iterator)
            other.close()
            rest = pool.submit(list, iterator)
            with pytest.raises(TimeoutError):
                rest.result(3)
            waiting.send_signal(signal.SIGINT)
            assert waiting.wait(within(5)) == 130
        with pytest.raises(halohop.errors.HalohopError):
            rest.result(60)


@pytest.mark.parametrize(("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.full), (signal.SIGTERM, 143)])
def test_a_server_ends_when_it_is_told_to(start, number, code):
    process, address = start("0")
    with pytest.raises(halohop.errors.ClusterError, match="found at no server"):
        halohop.connect([address], token=TOKEN, limits=LIMITS, deadline=within(0.5))
    process.send_signal(number)
    assert process.wait(within(5)) == code


def test_a_server_with_a_grace_ends_well(parts, start):
    """At SIGTERM in mid-epoch; the other one has the same partitions."""
    with halohop.open(parts) as graph:
        undisturbed = told(batches(graph))
    first, address = start("0,1", "127.0.0.1:0", "", "--grace", "30")
    _, other = start("0,1")
    with halohop.connect([address, other], token=TOKEN, limits=LIMITS) as graph:
        got = []
        for number, batch in enumerate(batches(graph)):
            got.append(batch)
            if number == 1:
                first.send_signal(signal.SIGTERM)
        assert told(got) == undisturbed
        assert first.wait(60) == 0
        assert "terminated: all clients have left" in first.stderr.read()


WAITS_AT_THE_END = """
import atexit, sys, threading
import halohop
graph = halohop.connect(sys.argv[1:])
atexit.register(lambda: print([one.name for one in threading.enumerate() if "loader" in one.name]))  # once these should be gone
for batch in halohop.NeighborLoader(graph, [3, 2], batch_size=1, num_workers=2):
    print("a batch", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.full
def test_ctrl_c_ends_a_script_that_waits_for_a_dead_server(start):
    """It never closed its graph. At the end that goes first, so that the loader's threads wait for nobody when they end."""
    process, address = start("0,1")
    command, pipe = [sys.executable, "-c", WAITS_AT_THE_END, address], subprocess.PIPE
    with subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True) as script:
        assert script.stdout is not None
        assert script.stdin is not None
        assert script.stdout.readline() == "a batch\n"
        process.kill()
        process.wait(60)
        script.stdin.write("\n" * 1000)
        script.stdin.flush()
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                script.wait(3)
            script.send_signal(signal.SIGINT)
            out, err = script.communicate(timeout=within(5))
        finally:
            script.kill()
        assert script.returncode == -signal.SIGINT
        assert err.endswith("KeyboardInterrupt\n")
        assert out.splitlines()[-1] == "[]"


@pytest.mark.full
def test_a_lost_server_without_a_stand_in_is_named(parts, start):
    (first, address), (_, other) = start("0"), start("1")
    limits = Limits(call_seconds=3, attempt_seconds=1)
    with halohop.connect([address, other], sampling="client", token=TOKEN, limits=limits) as graph:
        iterator = iter(batches(graph))
        next(iterator)
        first.send_signal(signal.SIGKILL)
        with pytest.raises(halohop.errors.PeerLostError, match=f"server 0.*{address}.*did not come back within"):
            list(iterator)


def test_columns_that_the_command_line_gives(parts, start, tmp_path):
    np.save(tmp_path / "group.npy", np.arange(600) % 7)
    np.save(tmp_path / "early_mask.npy", np.arange(600) < 10)
    options = [f"--column={name}={tmp_path}/{name}.npy" for name in ("group", "early_mask")]
    _, address = start("0,1", "127.0.0.1:0", "", *options)
    with halohop.connect([address], token=TOKEN, limits=LIMITS) as graph:
        for batch in halohop.NeighborLoader(graph, [3], "early", batch_size=4):
            assert torch.equal(batch.group, batch.n_id % 7)
            assert torch.equal(batch.early_mask, batch.n_id < 10)


def test_a_server_for_one_job(start, tmp_path):
    """It lends its clients ids, and ends well when the client that it expects has left."""
    np.save(tmp_path / "train.npy", np.array([4, 2]))
    server, address = start("0,1", "127.0.0.1:0", "", "--clients", "1", "--seeds", str(tmp_path))
    with halohop.connect([address], token=TOKEN, limits=LIMITS) as graph:
        assert graph.seed_file("train.npy").tolist() == [4, 2]
    assert server.wait(within(20)) == 0
    assert "all 1 clients have left or are lost" in server.stderr.read()
