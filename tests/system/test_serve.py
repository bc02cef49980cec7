"""`halohop serve` in processes of its own: killed, restarted, interrupted."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import halohop
from halohop.testing.deadlines import within
from halohop.testing.worlds import TOKEN, environment
from halohop.transport import Limits

LIMITS = Limits(call_seconds=90, attempt_seconds=5, connect_seconds=60)


def batches(graph: halohop.Graph) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph, [3, 2], batch_size=20, shuffle=True, seed=2, num_workers=2)


def told(found) -> list[tuple]:
    return [(batch.n_id.tolist(), batch.e_id.tolist(), batch.x.flatten().tolist()) for batch in found]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("sampling", ["servers", "client"])
def test_killed_and_restarted_in_mid_epoch(parts, start, sampling):
    with halohop.open(parts) as graph:
        undisturbed = told(batches(graph))
    with socket.create_server(("127.0.0.1", 0)) as free:
        later = f"127.0.0.1:{free.getsockname()[1]}"
    first, address = start("0", peers=later)
    _, other = start("1", later, address.removeprefix("tcp://"))
    with halohop.connect([address, other], sampling=sampling, token=TOKEN, limits=LIMITS) as graph:
        got = []
        for number, batch in enumerate(batches(graph)):
            got.append(batch)
            if number == 7:
                first.send_signal(signal.SIGKILL)
                assert first.wait(20) == -signal.SIGKILL
                first, _ = start("0", address.removeprefix("tcp://"), later)
        assert told(got) == undisturbed


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_server_ends_when_it_is_told_to(start, number, code):
    process, address = start("0")
    with pytest.raises(halohop.errors.ClusterError, match="held by no host"):
        halohop.connect([address], token=TOKEN, limits=LIMITS)
    process.send_signal(number)
    assert process.wait(within(5)) == code


WAITS_AT_THE_END = """
import atexit, sys, threading
import halohop
graph = halohop.connect(sys.argv[1:])
atexit.register(lambda: print([one.name for one in threading.enumerate() if "loader" in one.name]))  # once these should be gone
for batch in halohop.NeighborLoader(graph, [3, 2], batch_size=1, num_workers=2):
    print("a batch", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.timeout(240)
def test_ctrl_c_ends_a_script_that_waits_for_a_dead_server(start):
    """It never closed its graph. At the end that goes first, so that the loader's threads wait for nobody when they end."""
    process, address = start("0,1")
    command, pipe = [sys.executable, "-c", WAITS_AT_THE_END, address], subprocess.PIPE
    with subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True) as script:
        assert script.stdout is not None
        assert script.stdin is not None
        assert script.stdout.readline() == "a batch\n"
        process.kill()
        process.wait(20)
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


@pytest.mark.timeout(240)
def test_a_lost_server_without_a_stand_in_is_named(parts, start):
    (first, address), (_, other) = start("0"), start("1")
    limits = Limits(call_seconds=3, attempt_seconds=1)
    with halohop.connect([address, other], sampling="client", token=TOKEN, limits=limits) as graph:
        iterator = iter(batches(graph))
        next(iterator)
        first.send_signal(signal.SIGKILL)
        with pytest.raises(halohop.errors.PeerLostError, match=f"server 0.*{address}.*did not come back within"):
            list(iterator)


SOAK_MINUTES = float(os.environ.get("HALOHOP_SOAK_MINUTES", "20"))
SETTLING_SECONDS = 40.0
"""Longer than servers take to forget clients that are gone."""

GONE_IN_MID_EPOCH = """
import sys
import halohop
loader = halohop.NeighborLoader(halohop.connect(sys.argv[1:]), [3, 2], batch_size=20, num_workers=2)
for batch in loader:
    print(flush=True)
    sys.stdin.readline()
"""


def size_of(process: subprocess.Popen[str]) -> dict[str, int]:
    """Memory in KiB, threads and file descriptors."""
    lines = (line.split() for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    found = {words[0]: int(words[1]) for words in lines if words[0] in ("VmRSS:", "Threads:")}
    return {**found, "descriptors": len(list(Path(f"/proc/{process.pid}/fd").iterdir()))}


@pytest.mark.soak
@pytest.mark.timeout(60 * SOAK_MINUTES + 400)
def test_servers_stay_as_they_are_while_clients_come_and_go(parts, start):
    """Clients end well, leave an epoch unfinished, or are killed; what they leave behind would pile up."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        later = f"127.0.0.1:{free.getsockname()[1]}"
    first, address = start("0", peers=later)
    second, other = start("1", later, address.removeprefix("tcp://"))
    servers = (first, second)

    def come_and_go(until: float) -> int:
        count = 0
        while time.monotonic() < until:
            with halohop.connect(
                [address, other], sampling=("servers", "client")[count % 2], token=TOKEN, limits=LIMITS
            ) as graph:
                iterator = iter(batches(graph))
                for _ in range(5 if count % 3 else 30):
                    next(iterator)
            if count % 20 == 0:
                kill_one_in_mid_epoch()
            count += 1
        return count

    def kill_one_in_mid_epoch() -> None:
        command = [sys.executable, "-c", GONE_IN_MID_EPOCH, address, other]
        with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "\n"
            client.kill()

    def settled() -> list[dict[str, int]]:
        time.sleep(SETTLING_SECONDS)
        return [size_of(server) for server in servers]

    come_and_go(time.monotonic() + 60 * SOAK_MINUTES / 5)
    before = settled()
    count = come_and_go(time.monotonic() + 60 * SOAK_MINUTES * 4 / 5)
    after = settled()
    print(f"{count} clients came and went", before, after)
    for early, late in zip(before, after, strict=True):
        assert late["Threads:"] <= early["Threads:"]
        assert late["descriptors"] <= early["descriptors"] + 2
        assert late["VmRSS:"] <= 1.05 * early["VmRSS:"] + 10_000
