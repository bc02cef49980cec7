"""Batches of servers that are actors of Ray are those of one process, whatever is killed meanwhile; on three nodes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import halohop
from tests.support.ray_cluster import Nodes
from tests.support.ray_runs import (
    SETTINGS,
    Batches,
    Losses,
    expected_of,
    kill_a_server,
    kill_a_trainer,
    kill_both_servers,
    lines,
    remove_a_node,
    run,
)
from tests.support.ray_training import loader_of

on_a_cluster = [pytest.mark.timeout(900), pytest.mark.xdist_group("ray")]
pytestmark = [pytest.mark.full, *on_a_cluster]


@pytest.fixture(scope="module")
def expected(ray_parts: Path) -> Batches:
    """Hashes by rank and step, of one process that has all partitions."""
    return expected_of(ray_parts)


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
