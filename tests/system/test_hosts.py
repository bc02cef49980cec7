"""Hosts that share nothing but a network. What happens when one of them dies: test_clusters.py."""

import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parent / "worker.py"


def start_all(network, folders, epochs: int, threads: int, method: str = "neighbor") -> list[subprocess.Popen[str]]:
    workers = [
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
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("\n" * 1000)  # more than there are batches: nobody waits for them to be asked for
        worker.stdin.flush()
    return workers


def alone(folder: Path, epochs: int, method: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, str(WORKER), str(folder), str(epochs), "0", method],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return result.stdout.splitlines()[:-1]


@pytest.mark.parametrize(
    ("method", "runs"),
    [
        pytest.param("neighbor", (4,), marks=pytest.mark.full),  # tests/pyg/test_everywhere.py has hosts in one process
        pytest.param("neighbor", (1,), marks=pytest.mark.full),
        pytest.param("labor", (2,), marks=pytest.mark.soak),
    ],
)
def test_three_hosts_see_the_batches_of_one(network, folders, method, runs):
    expected = alone(folders[0].parent / "parts", 2, method)
    for threads in runs:
        workers = start_all(network, folders, 2, threads, method)
        for worker in workers:
            out, err = worker.communicate(timeout=100)
            assert worker.returncode == 0, err
            *lines, remote = out.splitlines()
            assert lines == expected
            assert remote == "remote rows True"
