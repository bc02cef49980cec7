"""Batches of servers that are actors of Ray are those of one process, whatever is killed meanwhile; on three nodes."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import halohop
from tests.support.ray_cluster import Driver, Nodes, gone, until
from tests.support.ray_training import digest, loader_of

pytestmark = [pytest.mark.full, pytest.mark.timeout(900), pytest.mark.xdist_group("ray")]

SETTINGS = {"trainers": 2, "epochs": 2, "batch_size": 16, "save_every": 4}
STEPS_UNTIL_KILL = 6


def kill_a_server(nodes: Nodes, out: Path) -> None:
    os.kill(nodes.workers("GraphServer")[0], signal.SIGKILL)


def kill_both_servers(nodes: Nodes, out: Path) -> None:
    for pid in nodes.workers("GraphServer"):
        os.kill(pid, signal.SIGKILL)


def remove_a_node(nodes: Nodes, out: Path) -> None:
    raylets = nodes.ask("nodes")
    with_server = {nodes.node_of(pid) for pid in nodes.workers("GraphServer")}
    gone_raylet = next(raylet for raylet in raylets if raylet in with_server)
    nodes.ask(f"remove {gone_raylet}")
    nodes.ask("add")


def kill_a_trainer(nodes: Nodes, out: Path) -> None:
    begin = json.loads((out / "batches-1.txt").read_text().splitlines()[0])
    os.kill(begin["pid"], signal.SIGKILL)


Batches = dict[tuple[int, int], str]
Losses = dict[tuple[int, int], float]


@pytest.fixture(scope="module")
def expected(ray_parts: Path) -> Batches:
    """Hashes by rank and step, of one process that has all partitions."""
    found: Batches = {}
    with halohop.open(ray_parts) as graph:
        for rank in range(SETTINGS["trainers"]):
            loader = loader_of(graph, SETTINGS, halohop.World(rank=rank, size=SETTINGS["trainers"]))
            for epoch in range(SETTINGS["epochs"]):
                for step, batch in enumerate(loader, epoch * len(loader)):
                    found[rank, step] = digest(batch)
    return found


@pytest.fixture(scope="module")
def out_of_undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("undisturbed")


@pytest.fixture(scope="module")
def undisturbed(nodes: Nodes, ray_parts: Path, out_of_undisturbed: Path) -> tuple[Batches, Losses]:
    """Hashes and losses of a run in which nothing happens."""
    return run(nodes, ray_parts, out_of_undisturbed, pause=0.0, event=None)


def test_two_epochs_are_those_of_one_process(expected: Batches, undisturbed: tuple[Batches, Losses]) -> None:
    assert undisturbed[0] == expected


@pytest.mark.usefixtures("undisturbed")
def test_ray_carries_no_batches(ray_parts: Path, out_of_undisturbed: Path) -> None:
    """What the object stores hold while batches come is a fraction of one, and no more than before the first one."""
    done = json.loads((out_of_undisturbed / "done.json").read_text())
    with halohop.open(ray_parts) as graph:
        batch = next(iter(loader_of(graph, SETTINGS, halohop.World())))
    assert done["store_in_training"] <= done["store_before"] + batch.x.nbytes / 2
    assert done["store_in_training"] < 2 * batch.x.nbytes


@pytest.mark.parametrize("event", [kill_a_server, kill_both_servers, remove_a_node, kill_a_trainer])
def test_two_epochs_are_the_same_when(
    event: Callable[[Nodes, Path], None],
    nodes: Nodes,
    ray_parts: Path,
    tmp_path: Path,
    expected: Batches,
    undisturbed: tuple[Batches, Losses],
) -> None:
    hashes, losses = run(nodes, ray_parts, tmp_path, pause=0.3, event=event)
    assert hashes == expected
    assert losses == undisturbed[1]
    if event is kill_a_trainer:
        begins = [line for line in lines(tmp_path, 1) if "begin" in line]
        assert len(begins) > 1
        assert begins[-1]["begin"] % SETTINGS["save_every"] == 0


def run(
    nodes: Nodes, parts: Path, out: Path, *, pause: float, event: Callable[[Nodes, Path], None] | None
) -> tuple[Batches, Losses]:
    """What trainers report by rank and step, where something happens in mid-epoch; steps that are repeated agree."""
    settings = SETTINGS | {"address": nodes.address, "parts": str(parts), "out": str(out), "pause": pause}
    (out / "settings.json").write_text(json.dumps(settings))
    driver = Driver(["-m", "tests.support.ray_training", str(out / "settings.json")], nodes.env, out / "driver.log")
    try:
        assert len(driver.says()["servers"]) == 2
        if event is not None:
            until(lambda: len(lines(out, 0)) > STEPS_UNTIL_KILL, 120, "the first batches")
            event(nodes, out)
        done = driver.says()
        assert done["done"]
        assert driver.wait(60) == 0
    finally:
        driver.kill()
    gone(nodes.workers(), 10)
    (out / "done.json").write_text(json.dumps(done))
    hashes: Batches = {}
    losses: Losses = {}
    for rank in range(SETTINGS["trainers"]):
        for line in lines(out, rank):
            if "step" in line:
                place = rank, line["step"]
                assert hashes.setdefault(place, line["hash"]) == line["hash"], place
                assert losses.setdefault(place, line["loss"]) == line["loss"], place
    return hashes, losses


def lines(out: Path, rank: int) -> list[dict[str, Any]]:
    """What a trainer has said so far; the last line may be cut where it was killed."""
    file = out / f"batches-{rank}.txt"
    said = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in said if line.endswith("}")]
