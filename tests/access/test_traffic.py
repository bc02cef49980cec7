"""What the sampled batches are said to read is what hosts really ask each other for."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import halohop
from halohop.access.traffic import HostTraffic, traffic
from halohop.datasets import synthetic
from halohop.errors import InputError
from halohop.launch.pages.needs import row_bytes
from halohop.loading.locality import Locality
from halohop.pyg.inputs import fanouts_of, seed_dataset
from halohop.store.disk import map_replica, read_manifest
from halohop.store.part import Part
from halohop.store.replica import Replica
from halohop.testing.graphs import ring
from halohop.testing.worlds import hosts
from halohop.typing import EDGE, NODE
from halohop.world import World

BATCH = 32


@pytest.mark.parametrize(("locality", "copied"), [("none", None), ("owner", None), ("owner", False), ("owner", True)])
def test_rows_and_bytes_are_those_that_hosts_ask_each_other_for(tmp_path: Path, locality: Locality, copied: bool | None) -> None:
    """`copied`: whether partitions have copies of the lists of hot nodes, too; None: no copies."""
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=2, method="fennel")
    if copied is not None:
        halohop.add_replicas(tmp_path / "parts", halohop.Replicas(fanouts=[5, 3], batch_size=BATCH, ratio=0.4, lists=copied))
    manifest = read_manifest(tmp_path / "parts")
    with halohop.open(tmp_path / "parts") as graph:
        found = traffic(
            graph,
            seed_dataset(graph, "train"),
            fanouts_of([5, 3], graph.schema),
            batch_size=BATCH,
            locality=locality,
            row_bytes=row_bytes(manifest),
            batches=10**6,  # all
            copies=[map_replica(tmp_path / "parts", manifest, part) for part in range(2)],
        )
    with hosts(tmp_path / "parts", [[0], [1]], cache=None) as graphs:
        for rank, graph in enumerate(graphs):
            world = World(rank=rank, size=2)
            options = {"batch_size": BATCH, "shuffle": True, "seed": 0, "world": world, "num_workers": 0, "locality": locality}
            loader = halohop.NeighborLoader(graph, [5, 3], "train", **options)
            begun = graph.statistics()
            remote = [int((graph.owners(batch.n_id) != rank).sum()) for batch in loader]
            host = found[rank]
            assert (host.steps, host.sampled) == (len(remote), len(remote))
            asked = sum(remote) / len(remote)
            assert host.remote_rows == asked if copied is None else 0 < host.remote_rows < 0.75 * asked
            ended = graph.statistics()
            received, calls = (ended[f"transport_{name}"] - begun[f"transport_{name}"] for name in ("bytes_received", "calls"))
            assert 0 < received - host.remote_bytes * host.steps < 1000 * calls  # the heads of messages


def on_a_ring(tmp_path: Path, copies: Sequence[Replica] = (), batches: int = 8) -> tuple[HostTraffic, ...]:
    """A ring of 8 in two halves; the seeds of a batch are one node, which asks for the two before it."""
    halohop.partition(ring(8), tmp_path / "ring", num_parts=2, method=torch.arange(8) // 4)
    with halohop.open(tmp_path / "ring") as graph:
        return traffic(
            graph,
            seed_dataset(graph, None),
            fanouts_of([-1], graph.schema),
            batch_size=1,
            locality="owner",
            row_bytes={NODE: 100.0, EDGE: 0.0},
            batches=batches,
            copies=copies,
        )


def test_of_a_ring_each_half_needs_two_nodes_of_the_other(tmp_path: Path) -> None:
    for host in on_a_ring(tmp_path):
        assert (host.steps, host.sampled, host.rows) == (4, 4, 3.0)
        assert host.remote_rows == 0.75  # of its four batches, one has two, and one has one
        assert host.bytes_from[1 - host.host] == pytest.approx(0.75 * (100 + 8))  # its row; the list of the seed is here
        assert host.bytes_from[host.host] == 0
        assert host.remote_rows_error == pytest.approx(float(torch.tensor([2.0, 1, 0, 0]).std()) / 2)


def test_rows_that_are_copied_are_not_asked_for(tmp_path: Path) -> None:
    seven = Replica(gid={NODE: torch.tensor([7])}, first={}, part=Part(nodes={}, edges={}))
    first, second = on_a_ring(tmp_path, copies=[seven, seven])
    assert (first.remote_rows, second.remote_rows) == (0.25, 0.75)


def test_one_batch_has_no_error_and_none_is_refused(tmp_path: Path) -> None:
    assert on_a_ring(tmp_path, batches=1)[0].remote_rows_error is None
    with pytest.raises(InputError, match="batches=0: at least one"):
        on_a_ring(tmp_path / "again", batches=0)
