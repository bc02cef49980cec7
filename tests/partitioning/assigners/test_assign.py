"""Balance, cut and determinism of the methods, and what is refused."""

import ctypes
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning.assigners import assign as assign_module
from halohop.partitioning.assigners import libmetis
from halohop.partitioning.assigners.assign import chosen
from halohop.partitioning.assigners.division import Assignment
from tests.support.assigning import balances, clustered, cut, graph, mixed, power_law


def assign(*args: Any, **options: Any) -> Assignment:
    return assign_module.assign(*args, **options).part


@pytest.mark.parametrize("num_parts", [2, pytest.param(4, marks=pytest.mark.full), 13])
@pytest.mark.parametrize("make", [power_law, clustered, mixed])
@pytest.mark.parametrize("method", ["metis", "fennel"])
def test_nodes_training_nodes_and_edges_are_balanced(make: type, num_parts: int, method: str) -> None:
    tables = make()
    assignment = assign(tables, num_parts, method)
    assert max(balances(tables, assignment, num_parts)) <= 1.05 + 1e-6
    assert all(part.dtype == torch.int32 for part in assignment.values())
    looser = assign(tables, num_parts, method, tolerance=0.2)
    assert max(balances(tables, looser, num_parts)) <= 1.2 + 1e-6


@pytest.mark.parametrize(("method", "of_clusters", "of_hubs"), [("metis", 0.35, 0.95), ("fennel", 0.4, 0.95)])
def test_clusters_stay_together(method: str, of_clusters: float, of_hubs: float) -> None:
    for make, factor in ((clustered, of_clusters), (power_law, of_hubs)):
        tables = make()
        assert cut(tables, assign(tables, 4, method)) < factor * cut(tables, assign(tables, 4, "random"))


def test_a_node_with_half_of_the_edges_is_lived_with() -> None:
    """No balance can be reached: nothing loops, and the other nodes go elsewhere."""
    hub = torch.zeros(2000, dtype=torch.int64)
    others = torch.arange(2000) % 400
    tables = graph(torch.cat([others, others]), torch.cat([hub, others.roll(7)]), 400)
    assignment = assign(tables, 4)
    nodes, _, edges = balances(tables, assignment, 4)
    assert nodes <= 1.34  # as when the hub is alone
    assert edges < 2.1  # its 2000 edges of 4000 are twice the mean


@pytest.mark.parametrize("method", ["metis", "fennel", "random"])
def test_same_seed_same_assignment(method: str) -> None:
    tables = power_law()
    first, again, other = (assign(tables, 4, method, seed=seed)["node"] for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("num_parts", [1, 2, 3, 7, 1000])
def test_random_deals_every_type_and_split_evenly(num_parts: int) -> None:
    tables = mixed()
    assignment = assign(tables, num_parts, "random")
    train = tables.nodes["paper"].columns["train_mask"]
    total = torch.cat(list(assignment.values()))
    for part in (assignment["paper"], assignment["author"], assignment["paper"][train], assignment["paper"][~train], total):
        counts = torch.bincount(part, minlength=num_parts)
        assert counts.max() - counts.min() <= 1


def test_no_global_random_state_is_touched() -> None:
    before = torch.random.get_rng_state()
    assign(mixed(), 3, "random")
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(("num_nodes", "num_parts"), list(product([0, 1, 2, 3, 8, 9, 21, 70], [1, 2, 3, 8, 9, 70])))
def test_metis_on_small_graphs(capfd: pytest.CaptureFixture[str], num_nodes: int, num_parts: int) -> None:
    """METIS prints complaints and empties partitions there; empty ones are right only where nodes are fewer than partitions."""
    rows = torch.arange(num_nodes)
    for src in (rows.roll(1), rows, rows[:0]):
        part = assign(graph(src, rows[: len(src)], num_nodes), num_parts)["node"]
        counts = torch.bincount(part, minlength=num_parts)
        assert (counts > 0).sum() == min(num_nodes, num_parts)
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""


def test_given_assignments() -> None:
    tables = mixed()
    given = {"author": torch.arange(300) % 3, "paper": torch.zeros(500, dtype=torch.uint8)}
    assignment = assign(tables, 3, given)
    assert list(assignment) == ["paper", "author"]
    assert assignment["author"].tolist() == given["author"].tolist()
    assert assignment["paper"].dtype == torch.int32
    assert assign(power_law(), 4, torch.full((4000,), 3))["node"].unique().tolist() == [3]


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ("louvain", r"'louvain'; known: \['auto', 'metis', 'kaminpar', 'ldg', 'fennel', 'random', 'range'\]"),
        (torch.zeros(500, dtype=torch.int32), "one tensor"),
        ({"paper": torch.zeros(500, dtype=torch.int32)}, "node types"),
        ({"paper": torch.zeros(500), "author": torch.zeros(300)}, "integers"),
        ({"paper": torch.zeros(499, dtype=torch.int32), "author": torch.zeros(300, dtype=torch.int32)}, r"\(500,\)"),
        ({"paper": torch.full((500,), 2), "author": torch.zeros(300, dtype=torch.int32)}, "holds 2"),
        ({"paper": torch.full((500,), -1), "author": torch.zeros(300, dtype=torch.int32)}, "holds -1"),
    ],
)
def test_what_is_refused(method: str | Assignment | Tensor, says: str) -> None:
    with pytest.raises(InputError, match=says):
        assign(mixed(), 2, method)


def test_other_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="num_parts=0"):
        assign(mixed(), 0)
    monkeypatch.setattr(libmetis, "_library_files", lambda: None)
    with pytest.raises(InputError, match=r"halohop\[metis\].*fennel"):
        assign(mixed(), 2, "metis")
    assign(mixed(), 1, "metis")  # divides nothing


def test_without_metis_the_default_is_fennel(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = power_law()
    assert chosen("auto") == "metis"
    assert torch.equal(assign(tables, 4)["node"], assign(tables, 4, "metis")["node"])
    monkeypatch.setattr(libmetis, "_library_files", lambda: None)
    assert chosen("auto") == "fennel"
    assert torch.equal(assign(tables, 4)["node"], assign(tables, 4, "fennel")["node"])
    assert chosen("random") == "random"
