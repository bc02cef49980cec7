"""Whatever ends a launch, and whenever: no process, no port and no shared memory of it is left."""

import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from halohop.testing.worlds import environment, free_addresses
from tests.support.deadlines import within

SCRIPT = """
import subprocess, sys, time
import halohop
graph = halohop.connect(sys.argv[1].split(",")) if ":" in sys.argv[1] else halohop.open(sys.argv[1])
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=False)
while True:
    for batch in halohop.NeighborLoader(graph, [5, 5], batch_size=50, seed=1):
        time.sleep(0.01)
"""


def marked(mark: str) -> dict[int, str]:
    """The processes with a mark in their environment that still run, and their names."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "comm").read_text().strip()
        except OSError:
            continue
    return found


def gone_within(mark: str, seconds: float) -> dict[int, str]:
    deadline, pause = time.monotonic() + within(seconds), threading.Event()
    while (left := marked(mark)) and time.monotonic() < deadline:
        pause.wait(0.05)
    return left


@pytest.mark.soak
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(20))
def test_a_kill_at_a_random_moment_leaves_nothing(seed: int, tiny_parts: Path, tmp_path: Path) -> None:
    chance, mark = random.Random(seed), secrets.token_hex(16)
    (tmp_path / "wait.py").write_text(SCRIPT)
    port = int(free_addresses(1)[0].rpartition(":")[2])
    (tmp_path / "job.toml").write_text(
        f'hosts = 2\ntrainers = 2\ndata = "{tiny_parts}"\nout = "run"\nrun = ["wait.py", "{{graph}}"]\n'
        + (f"[servers]\nport = {port}\nreplicas = 2\n" if seed % 2 else "")
    )
    before = {*Path("/dev/shm").glob("halohop*")}
    launch = subprocess.Popen(
        [sys.executable, "-m", "halohop", "launch", "--config", "job.toml"],
        cwd=tmp_path,
        env=environment() | {"MARK_OF_THE_TEST": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    threading.Event().wait(chance.uniform(0.2, 12))
    victims = sorted(marked(mark))
    victim = launch.pid if chance.random() < 0.6 else chance.choice(victims)
    kind = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]) if victim == launch.pid else signal.SIGKILL
    os.kill(victim, kind)
    if victim != launch.pid:  # a helper or a replica may be missed by none
        threading.Event().wait(chance.uniform(0.2, 2))
        os.kill(launch.pid, signal.SIGTERM)
    try:
        _, err = launch.communicate(timeout=within(15))
        assert launch.returncode != 0, err
        assert gone_within(mark, 10) == {}
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
    assert {*Path("/dev/shm").glob("halohop*")} <= before
    for number in range(2):
        with socket.create_server(("127.0.0.1", port + number)):
            pass
