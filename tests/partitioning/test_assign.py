"""Balance, cut and determinism of the methods, and what is refused."""

import ctypes
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning import assign as assign_module
from halohop.partitioning import libmetis
from halohop.partitioning.assign import chosen
from halohop.partitioning.division import Assignment
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE


def assign(*args: Any, **options: Any) -> Assignment:
    return assign_module.assign(*args, **options).part


def graph(src: Tensor, dst: Tensor, num_nodes: int, **columns: Tensor) -> GraphTables:
    return GraphTables(nodes={"node": NodeTable(num_nodes=num_nodes, columns=columns)}, edges={EDGE: EdgeTable(src=src, dst=dst)})


def power_law(num_nodes: int = 4000, num_edges: int = 40_000) -> GraphTables:
    generator = torch.Generator().manual_seed(0)
    weight = torch.arange(1, num_nodes + 1).double() ** -0.7
    src, dst = (torch.multinomial(weight, num_edges, replacement=True, generator=generator) for _ in range(2))
    return graph(src, dst, num_nodes, train_mask=torch.rand(num_nodes, generator=generator) < 0.1)


def clustered(clusters: int = 20, size: int = 100, in_cluster: int = 10) -> GraphTables:
    """Dense clusters, numbered at random; the first of them are for training."""
    generator = torch.Generator().manual_seed(0)
    name = torch.randperm(clusters * size, generator=generator)
    dst = torch.arange(clusters * size).repeat_interleave(in_cluster)
    near = dst // size * size + torch.randint(size, dst.shape, generator=generator)
    far = torch.randint(clusters * size, dst.shape, generator=generator)
    src = torch.where(torch.rand(dst.shape, generator=generator) < 0.95, near, far)
    train = torch.zeros(clusters * size, dtype=torch.bool)
    train[name[: 4 * size]] = True
    return graph(name[src], name[dst], clusters * size, train_mask=train)


def mixed() -> GraphTables:
    """Two node types, three relations; parallel edges and loops; nodes without edges."""
    generator = torch.Generator().manual_seed(1)

    def ends(high: int) -> Tensor:
        return torch.randint(high, (3000,), generator=generator)

    train = torch.rand(500, generator=generator) < 0.2
    return GraphTables(
        nodes={"paper": NodeTable(num_nodes=500, columns={"train_mask": train}), "author": NodeTable(num_nodes=300)},
        edges={
            ("paper", "cites", "paper"): EdgeTable(src=ends(450), dst=ends(450)),
            ("author", "writes", "paper"): EdgeTable(src=ends(300), dst=ends(500)),
            ("paper", "by", "author"): EdgeTable(src=ends(500).int(), dst=ends(300).int()),
        },
    )


def balances(tables: GraphTables, assignment: Assignment, num_parts: int) -> list[float]:
    """Maximum over mean (rounded up) of nodes, training nodes and in-edges, counted the slow way."""
    counts = torch.zeros(3, num_parts)
    for name, table in tables.nodes.items():
        for row, part in enumerate(assignment[name].tolist()):
            counts[0, part] += 1
            counts[1, part] += bool(table.columns["train_mask"][row]) if "train_mask" in table.columns else 0
    for (_, _, destination), edges in tables.edges.items():
        counts[2] += torch.bincount(assignment[destination][edges.dst.long()], minlength=num_parts)
    return (counts.max(1).values / counts.mean(1).ceil()).tolist()


def cut(tables: GraphTables, assignment: Assignment) -> float:
    crossing = [
        assignment[source][edges.src.long()] != assignment[destination][edges.dst.long()]
        for (source, _, destination), edges in tables.edges.items()
    ]
    return float(torch.cat(crossing).double().mean())


@pytest.mark.parametrize("num_parts", [2, 4, 13])
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
