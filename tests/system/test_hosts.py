"""Hosts that share nothing but a network."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parent / "worker.py"


def start_all(network, folders, epochs: int, threads: int, method: str = "neighbor") -> list[subprocess.Popen[str]]:
    return [
        host.start(
            WORKER,
            folder,
            epochs,
            threads,
            method,
            env={
                "RANK": str(rank),
                "WORLD_SIZE": "3",
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": network[0].address,
                "MASTER_PORT": "29555",
                "HALOHOP_TOKEN": "a secret of these tests only",
            },
        )
        for rank, (host, folder) in enumerate(zip(network[:3], folders, strict=True))
    ]


def alone(folder: Path, epochs: int, method: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, str(WORKER), str(folder), str(epochs), "0", method],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return result.stdout.splitlines()[:-1]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("method", "runs"), [("neighbor", (1, 4)), ("labor", (2,))])
def test_three_hosts_see_the_batches_of_one(network, folders, method, runs):
    expected = alone(folders[0].parent / "parts", 2, method)
    for threads in runs:
        workers = start_all(network, folders, 2, threads, method)
        for worker in workers:
            out, err = worker.communicate(timeout=100)
            assert worker.returncode == 0, err
            *digests, remote = out.splitlines()
            assert digests == expected
            assert remote == "remote rows True"


@pytest.mark.timeout(240)
def test_a_killed_host_ends_the_others_with_its_name(network, folders):
    workers = start_all(network, folders, 100_000, 2)
    for worker in workers:
        assert worker.stdout is not None
        assert len(worker.stdout.readline()) == 65  # all are in mid-epoch
    workers[2].send_signal(signal.SIGKILL)
    for worker in workers[:2]:
        _, err = worker.communicate(timeout=60)
        assert worker.returncode == 1
        assert "host 2" in err
    assert workers[2].wait(timeout=10) == -signal.SIGKILL
