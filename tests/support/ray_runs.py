"""Runs on a cluster of Ray's while something happens to it, and what one process gives, which they are compared with."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import halohop
from tests.support.ray_cluster import Driver, Nodes, gone, until
from tests.support.ray_training import digest, loader_of

SETTINGS = {"trainers": 2, "epochs": 2, "batch_size": 16, "save_every": 4}
STEPS_UNTIL_EVENT = 6


def running(nodes: Nodes, actor: str) -> list[int]:
    """The processes of an actor; those that were killed may be starting again, and are waited for until there is one."""
    found: list[int] = []
    until(lambda: found.extend(nodes.workers(actor)) or found, 60, f"a process of {actor} starts")
    return found


def kill_a_server(nodes: Nodes, out: Path) -> None:
    os.kill(running(nodes, "GraphServer")[0], signal.SIGKILL)


def kill_both_servers(nodes: Nodes, out: Path) -> None:
    for pid in running(nodes, "GraphServer"):
        os.kill(pid, signal.SIGKILL)


def remove_a_node(nodes: Nodes, out: Path) -> None:
    raylets = nodes.ask("nodes")
    with_server = {nodes.node_of(pid) for pid in running(nodes, "GraphServer")}
    gone_raylet = next(raylet for raylet in raylets if raylet in with_server)
    nodes.ask(f"remove {gone_raylet}")
    nodes.ask("add")


def kill_a_trainer(nodes: Nodes, out: Path) -> None:
    begin = json.loads((out / "batches-1.txt").read_text().splitlines()[0])
    os.kill(begin["pid"], signal.SIGKILL)


Batches = dict[tuple[int, int], str]
Losses = dict[tuple[int, int], float]


def expected_of(parts: Path, settings: Mapping[str, Any] = SETTINGS) -> Batches:
    """Hashes by rank and step, of one process that has all partitions."""
    found: Batches = {}
    with halohop.open(parts) as graph:
        for rank in range(settings["trainers"]):
            loader = loader_of(graph, settings, halohop.World(rank=rank, size=settings["trainers"]))
            for epoch in range(settings["epochs"]):
                for step, batch in enumerate(loader, epoch * len(loader)):
                    found[rank, step] = digest(batch)
    return found


def run(
    nodes: Nodes,
    parts: Path,
    out: Path,
    *,
    pause: float,
    event: Callable[[Nodes, Path], None] | None,
    settings: Mapping[str, Any] = SETTINGS,
) -> tuple[Batches, Losses]:
    """What trainers report by rank and step, where something happens in mid-epoch; steps that are repeated agree."""
    settings = {**settings, "address": nodes.address, "parts": str(parts), "out": str(out), "pause": pause}
    (out / "settings.json").write_text(json.dumps(settings))
    driver = Driver(["-m", "tests.support.ray_training", str(out / "settings.json")], nodes.env, out / "driver.log")
    try:
        assert len(driver.says()["servers"]) == 2
        if event is not None:
            until(lambda: len(lines(out, 0)) > STEPS_UNTIL_EVENT, 120, "the first batches")
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
    for rank in range(settings["trainers"]):
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
