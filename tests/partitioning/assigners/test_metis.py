"""METIS: nested blocks, balance of every load, and cuts that evening out does not undo."""

import gzip
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning.assigners import libmetis
from halohop.partitioning.assigners.assign import assign, chosen
from halohop.partitioning.assigners.loads import Loads, carried_by
from halohop.partitioning.assigners.union import union_graph
from halohop.partitioning.planning.budget import Budget
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from tests.support.assigning import balances, clustered, cut, graph, mixed, power_law


def numbers(found: dict[str, Tensor] | None) -> Tensor:
    assert found is not None
    return torch.cat(list(found.values())).long()


@pytest.mark.parametrize("num_blocks", [pytest.param(16, marks=pytest.mark.full), 64, pytest.param(512, marks=pytest.mark.full)])
def test_partitions_are_runs_of_blocks_which_do_not_depend_on_them(num_blocks: int) -> None:
    tables = power_law()
    found = [assign(tables, num_parts, "metis", num_blocks=num_blocks) for num_parts in (2, 16)]
    for num_parts, division in zip((2, 16), found, strict=True):
        assert division.num_blocks == num_blocks
        assert torch.equal(numbers(division.block), numbers(found[0].block))
        assert torch.equal(numbers(division.part), numbers(division.block) * num_parts // num_blocks)
        assert max(balances(tables, division.part, num_parts)) <= 1.05 + 1e-6
    assert found[0].block is not None
    assert found[0].block["node"].dtype == (torch.uint8 if num_blocks < 500 else torch.int16)
    assert len(numbers(found[0].block).unique()) >= 0.97 * num_blocks  # of 512, some have a single node or none


@pytest.mark.parametrize(
    ("num_nodes", "num_parts", "expected"),
    [(100, 2, 0), (200, 2, 16), (200, 3, 0), (200, 1, 0), (9000, 16, 16), (9000, 32, 64), (300, 32, 0), (9000, 128, 0)],
)
def test_how_many_blocks_there_are(num_nodes: int, num_parts: int, expected: int) -> None:
    rows = torch.arange(num_nodes)
    division = assign(graph(rows, rows.roll(1), num_nodes), num_parts, "metis")
    assert division.num_blocks == expected
    assert (division.block is None) == (expected == 0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_blocks": 48}, "blocks=48; give a power of two"),
        ({"num_blocks": 2**15}, "blocks=32768; give a power of two"),
        ({"num_blocks": 16, "num_parts": 3}, "3 partitions cannot be runs of 16 blocks"),
        ({"num_blocks": 16, "method": "ldg"}, "blocks=16, but method='ldg' makes none"),
        ({"tolerance": -0.1}, r"tolerance=-0\.1"),
        ({"tolerance": float("nan")}, "tolerance=nan"),
    ],
)
def test_what_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        assign(mixed(), **({"num_parts": 2, "method": "metis"} | options))


def test_blocks_give_way_to_balance_unless_they_were_asked_for() -> None:
    """One node has half of the edges: halves that are even in edges are uneven in nodes, and METIS at once does better."""
    others = torch.arange(2000) % 400
    tables = graph(torch.cat([others, others]), torch.cat([torch.zeros(2000).long(), others.roll(7)]), 400)
    assert assign(tables, 4, "metis").num_blocks == 0
    assert assign(tables, 4, "metis", num_blocks=16).num_blocks == 16


@pytest.mark.parametrize("num_parts", [4, 16])
@pytest.mark.parametrize("num_blocks", [None, 0])
@pytest.mark.full
def test_cuts_are_those_of_metis_at_the_same_tolerance(num_parts: int, num_blocks: int | None) -> None:
    for tables in (clustered(), power_law()):
        loads, union = Loads(tables), union_graph(tables)
        slack = loads.limit(num_parts, 0.05) * num_parts / loads.totals
        alone = libmetis.part_graph(union, loads.rows(0, union.num_nodes), num_parts, slack=slack, seed=0)
        found = assign(tables, num_parts, "metis", num_blocks=num_blocks).part
        assert cut(tables, found) <= 1.05 * cut(tables, {"node": alone})
        assert max(balances(tables, found, num_parts)) <= 1.05 + 1e-6


def uneven_communities() -> GraphTables:
    """A ring of 64 dense communities with hardly an edge between them; a quarter has eight times the edges, an eighth elsewhere
    most of the training nodes: communities from all over can be put together so that all is even."""
    generator = torch.Generator().manual_seed(0)
    community, size = torch.arange(64).repeat_interleave(60), 60
    degree = torch.where(community < 16, 40, 5)
    dst = torch.arange(64 * size).repeat_interleave(degree)
    src = dst // size * size + torch.randint(size, dst.shape, generator=generator)
    bridge = torch.arange(64) * size
    train = (community // 8 == 3) | (torch.rand(64 * size, generator=generator) < 0.02)
    return graph(torch.cat([src, bridge]), torch.cat([dst, bridge.roll(1)]), 64 * size, train_mask=train)


@pytest.mark.parametrize("num_blocks", [None, 0])
def test_evening_out_does_not_undo_metis(num_blocks: int | None) -> None:
    tables = uneven_communities()
    found = assign(tables, 4, "metis", num_blocks=num_blocks).part
    assert max(balances(tables, found, 4)) <= 1.05 + 1e-6
    assert cut(tables, found) < 0.01


def test_types_are_balanced_together_or_each_on_its_own() -> None:
    """Papers and their authors lie in two places: together they can be even where neither is."""
    rows = torch.arange(400)
    tables = GraphTables(
        nodes={"paper": NodeTable(num_nodes=400), "author": NodeTable(num_nodes=400), "venue": NodeTable(num_nodes=0)},
        edges={
            ("paper", "cites", "paper"): EdgeTable(src=rows.repeat(4), dst=torch.cat([rows.roll(k) for k in (1, 2, 3, 4)])),
            ("author", "knows", "author"): EdgeTable(src=rows.repeat(4), dst=torch.cat([rows.roll(k) for k in (1, 2, 3, 4)])),
        },
    )
    together, each = (assign(tables, 2, "metis", balance_types=balance_types).part for balance_types in (False, True))
    assert cut(tables, together) == 0
    assert 0 < cut(tables, each) < 0.1
    for name in ("paper", "author"):
        assert each[name].bincount(minlength=2).max() <= 1.05 * 200
    assert len(each["venue"]) == 0


@pytest.mark.parametrize("tolerance", [0.0, 0.01, 0.3])
def test_the_tolerance_is_kept(tolerance: float) -> None:
    rows = torch.arange(3000)
    ring = graph(rows.repeat(2), torch.cat([rows.roll(1), rows.roll(5)]), 3000)
    found = assign(ring, 4, "metis", tolerance=tolerance).part
    assert max(balances(ring, found, 4)) <= 1 + tolerance + 1e-6


def test_seeds_that_are_near_differ() -> None:
    tables = power_law()
    first, other = (assign(tables, 4, "metis", seed=seed).part["node"] for seed in (0, 1))
    assert not torch.equal(first, other)


def test_a_graph_beyond_metis_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libmetis, "_LARGEST", 1000)
    with pytest.raises(InputError, match=r"METIS holds 1000; use method=\"kaminpar\" or \"ldg\""):
        assign(power_law(), 4, "metis")


def test_what_does_not_fit_into_memory_is_refused_or_streamed() -> None:
    tables, little = power_law(), Budget(bytes=1 << 20)
    with pytest.raises(InputError, match=r"METIS takes about 3\.01 MiB .* partitioning is 1 MiB; give more memory, or use"):
        assign(tables, 4, "metis", memory=little)
    assert (chosen("auto", tables, little), chosen("auto", tables), chosen("metis", tables, little)) == ("ldg", "metis", "metis")
    assert torch.equal(assign(tables, 4, memory=little).part["node"], assign(tables, 4, "ldg").part["node"])


@pytest.mark.data
@pytest.mark.full
def test_a_web_graph(shared_data: Path) -> None:
    """METIS alone cuts 0.1 % of it; evening out made that 7.9 %."""
    with gzip.open(shared_data / "cnr2000/cnr-2000.graph-txt.gz", "rt") as lines:
        count = int(next(lines))
        lists = [np.array(line.split(), np.int64) for line in lines]
    src = torch.arange(count).repeat_interleave(torch.tensor([len(own) for own in lists]))
    dst = torch.from_numpy(np.concatenate(lists))
    train = torch.rand(count, generator=torch.Generator().manual_seed(0)) < 0.1
    web_graph = graph(torch.cat([src, dst]), torch.cat([dst, src]), count, train_mask=train)
    found = assign(web_graph, 4, "metis").part
    loads = Loads(web_graph)
    carried = carried_by(found["node"], loads, 4)
    assert (carried <= loads.limit(4, 0.05)).all()
    assert cut(web_graph, found) <= 0.004


class Terminated(BaseException):
    """What a handler of SIGTERM raises, as that of the command line does."""


def stopped(*_: object) -> int:
    """In place of METIS: it catches SIGTERM, and returns that it was stopped."""
    return libmetis._STOPPED


@pytest.mark.parametrize("handled", [True, False])
def test_sigterm_while_metis_divides_reaches_the_handler_of_the_process(monkeypatch: pytest.MonkeyPatch, handled: bool) -> None:
    functions = dict.fromkeys(("METIS_SetDefaultOptions", "METIS_PartGraphRecursive", "METIS_PartGraphKway"), stopped)
    monkeypatch.setattr(libmetis, "_library", lambda: SimpleNamespace(**functions))

    def end(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end if handled else signal.SIG_DFL)
    try:
        with pytest.raises(Terminated if handled else InputError, match=None if handled else "METIS was stopped"):
            assign(power_law(), 2, "metis")
    finally:
        signal.signal(signal.SIGTERM, before)
