"""Servers and trainers' hosts over many minutes: HALOHOP_SOAK_MINUTES, or 20, each."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.hosts import Host, wait_until_it_serves

SOAK_MINUTES = float(os.environ.get("HALOHOP_SOAK_MINUTES", "20"))
LEASE_SECONDS = 10
SETTLING_SECONDS = 40.0
"""Longer than servers take to forget clients that are gone."""
SECRET = {"HALOHOP_TOKEN": "a secret of these tests only"}
VISITOR = Path(__file__).parent / "visitor.py"
PORT = 5510
ALL_BATCHES = 30

Process = subprocess.Popen[str]


def start_servers(homes: list[Host], parts: Path) -> list[Process]:
    addresses = [f"{home.address}:{PORT}" for home in homes]
    servers = []
    for part, (home, address) in enumerate(zip(homes, addresses, strict=True)):
        peers = ",".join(other for other in addresses if other != address)
        options = ("--partitions", part, "--listen", address, "--peers", peers, "--lease", LEASE_SECONDS)
        servers.append(home.start("-m", "halohop", "serve", parts, *options, env=SECRET))
    for server in servers:
        wait_until_it_serves(server)
    return servers


def begin(visitor: Process, sampling: str, batches: int) -> None:
    assert visitor.stdin is not None
    visitor.stdin.write(f"{sampling} {batches}\n")
    visitor.stdin.flush()


def hear(visitor: Process, *words: str) -> None:
    assert visitor.stdout is not None
    heard = [visitor.stdout.readline().strip() for _ in words]
    if heard != [*words]:
        visitor.kill()
        pytest.fail(visitor.communicate(timeout=60)[1])


def size_of(process: Process) -> dict[str, int]:
    """Memory in KiB, threads and file descriptors."""
    lines = (line.split() for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    found = {words[0]: int(words[1]) for words in lines if words[0] in ("VmRSS:", "Threads:")}
    return {**found, "descriptors": len(list(Path(f"/proc/{process.pid}/fd").iterdir()))}


@pytest.mark.soak
@pytest.mark.timeout(60 * SOAK_MINUTES + 600)
@pytest.mark.parametrize("trouble", [{}, {"delay": 0.02, "loss": 0.02}], ids=["good network", "bad network"])
def test_everybody_stays_as_they_are_while_jobs_come_and_go(network, parts, trouble):
    """Jobs end well, leave an epoch unfinished, or are killed; what they leave behind would pile up, here or there."""
    if trouble:
        network[0].shape(**trouble)
    servers = start_servers(network[:2], parts)
    addresses = ",".join(f"{home.address}:{PORT}" for home in network[:2])
    visitors = [home.start(VISITOR, addresses, env=SECRET) for home in network[2:]]

    def come_and_go(until: float) -> int:
        number = 0
        while time.monotonic() < until or number < len(visitors) * 3:  # every kind of job, everywhere
            batches = 5 if number % 3 else ALL_BATCHES
            for place, visitor in enumerate(visitors):
                begin(visitor, ("servers", "client")[(number + place) % 2], batches)
            if number % 10 == 0:
                kill_one_in_mid_epoch()
            for visitor in visitors:
                hear(visitor, *["batch"] * batches, "gone")
            number += 1
        return number * len(visitors)

    def kill_one_in_mid_epoch() -> None:
        visitor = network[2].start(VISITOR, addresses, env=SECRET)
        begin(visitor, "servers", ALL_BATCHES)
        hear(visitor, "batch")
        visitor.kill()
        visitor.communicate(timeout=60)

    def settled() -> list[dict[str, int]]:
        with pytest.raises(subprocess.TimeoutExpired):
            servers[0].wait(SETTLING_SECONDS)
        return [size_of(process) for process in (*servers, *visitors)]

    come_and_go(time.monotonic() + 60 * SOAK_MINUTES / 5)
    before = settled()
    count = come_and_go(time.monotonic() + 60 * SOAK_MINUTES * 4 / 5)
    after = settled()
    print(f"{count} jobs came and went", *zip(before, after, strict=True), sep="\n")
    for early, late in zip(before, after, strict=True):
        assert late["Threads:"] <= early["Threads:"]
        assert late["descriptors"] <= early["descriptors"] + 2
        assert late["VmRSS:"] <= 1.05 * early["VmRSS:"] + 10_000
