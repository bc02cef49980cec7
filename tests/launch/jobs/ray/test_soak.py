"""Twenty random kills in one run: every batch is the same, and nothing is left."""

import os
import random
import signal
from pathlib import Path

import pytest

from tests.support.ray_cluster import Nodes, until
from tests.support.ray_runs import (
    SETTINGS,
    expected_of,
    kill_a_server,
    kill_both_servers,
    lines,
    remove_a_node,
    run,
    running,
)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600), pytest.mark.xdist_group("ray")]
KILLS = 20


def kill_any_trainer(nodes: Nodes, out: Path) -> None:
    os.kill(running(nodes, "RayTrainWorker")[0], signal.SIGKILL)


def kill_the_registry(nodes: Nodes, out: Path) -> None:
    os.kill(running(nodes, "Registry")[0], signal.SIGKILL)


def test_twenty_random_kills(nodes: Nodes, ray_parts: Path, tmp_path: Path) -> None:
    choice = random.Random(7)
    settings = SETTINGS | {"epochs": 5}

    def kill_again_and_again(nodes: Nodes, out: Path) -> None:
        for _ in range(KILLS):
            kinds = [kill_a_server, kill_both_servers, kill_any_trainer, kill_the_registry, remove_a_node]
            kind = choice.choices(kinds, weights=[4, 3, 2, 2, 1])[0]
            kind(nodes, out)
            steps = len(lines(out, 0)) + 3
            until(lambda least=steps: len(lines(out, 0)) >= least, 300, f"batches after {kind.__name__}")

    hashes, _ = run(nodes, ray_parts, tmp_path, pause=0.3, event=kill_again_and_again, settings=settings)
    assert hashes == expected_of(ray_parts, settings)
    assert nodes.workers() == []
