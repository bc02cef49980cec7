"""What partitioning is said to take is what it takes: disk to the byte, memory within the budget, time by recorded rates."""

from pathlib import Path
from typing import Any

import pytest
import torch

from halohop.errors import InputError
from halohop.partitioning.building.build import partition
from halohop.partitioning.building.narrowing import FeatureDtype, stored_shares, with_narrow_features
from halohop.partitioning.planning import rates as rates_module
from halohop.partitioning.planning.budget import Budget
from halohop.partitioning.planning.estimate import PartitionPlan, Rates, disk_bytes, estimate
from halohop.partitioning.planning.rates import measured_rates
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE

RATES = Rates(
    read=64_955_135,
    number=2_530_634,
    count=18_198_116,
    move=115_000_744,
    sort=46_683_099,
    finish=11_445_009,
    assign={"random": 1_250_000, "metis": 45_000, "ldg": 240_000},
)
"""Of a machine with two busy cores."""

RUN = {"read": 7.87, "assign": 0.73, "number": 1.66, "count": 0.28, "divide": 0.07, "move": 1.88, "sort": 1.73, "finish": 0.33}
PUBLISHED = 1.43
"""Seconds of a run on the same machine, right after its rates were measured: `MILLION` in 700 MB."""

MILLION = GraphSizes(
    nodes={NODE: TableSizes(rows=10**6, columns={"x": 256, "y": 8, "train_mask": 1, "val_mask": 1, "test_mask": 1})},
    edges={EDGE: TableSizes(rows=8 * 10**6)},
    read_bytes=395 * 10**6,
)


def typed(own_ids: bool = False) -> GraphTables:
    torch.manual_seed(0)
    users, items = 3000, 500
    raw = torch.randperm(users) + 7 if own_ids else None
    return GraphTables(
        nodes={
            "user": NodeTable(
                num_nodes=users, raw_id=raw, columns={"x": torch.rand(users, 16), "when": torch.arange(users).double()}
            ),
            "item": NodeTable(num_nodes=items, columns={"y": torch.arange(items) % 5}),
        },
        edges={
            ("user", "buys", "item"): EdgeTable(
                src=torch.randint(users, (40_000,)),
                dst=torch.randint(items, (40_000,)),
                columns={"edge_attr": torch.rand(40_000, 3).half(), "rating": torch.rand(40_000)},
            ),
            ("user", "knows", "user"): EdgeTable(src=torch.randint(users, (9_000,)), dst=torch.randint(users, (9_000,))),
        },
    )


@pytest.mark.parametrize(
    ("own_ids", "options"),
    [
        (False, {"num_parts": 1, "method": "random"}),
        (False, {"num_parts": 4, "method": "random"}),
        (True, {"num_parts": 4, "method": "random"}),
        (True, {"num_parts": 1, "method": "random"}),
        (False, {"num_parts": 4, "method": "range"}),
        (False, {"num_parts": 2, "method": "random", "halo": ("when", "raw_id")}),
        (False, {"num_parts": 3, "method": "random", "edge_dir": "out", "halo": ("when",)}),
        (False, {"num_parts": 4, "method": "metis"}),
        (True, {"num_parts": 2, "method": "random", "weight_sums": ("rating",)}),
    ],
)
def test_disk_is_what_is_written(tmp_path: Path, own_ids: bool, options: dict[str, Any]) -> None:
    tables = typed(own_ids)
    partition(tables, tmp_path / "parts", **options)
    written = sum(file.stat().st_size for file in (tmp_path / "parts").rglob("*") if file.is_file())
    plan = PartitionPlan(**options, ordered=options["method"] == "range")
    assert disk_bytes(GraphSizes.of(tables), plan) == pytest.approx(written, rel=0.02)


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_narrow_features_take_less(tmp_path: Path, dtype: FeatureDtype) -> None:
    tables = typed()
    partition(with_narrow_features(tables, {"x": dtype}), tmp_path / "parts", num_parts=2, method="random")
    written = sum(file.stat().st_size for file in (tmp_path / "parts").rglob("*") if file.is_file())
    plan = PartitionPlan(num_parts=2, method="random", stored=stored_shares({"x": dtype}))
    assert disk_bytes(GraphSizes.of(tables), plan) == pytest.approx(written, rel=0.02)


def test_time_of_a_graph_of_some_seconds_is_right_within_a_factor_of_two() -> None:
    found = estimate(MILLION, PartitionPlan(num_parts=4, method="random"), RATES, Budget.parse("700MB"))
    took = sum(RUN.values()) + PUBLISHED
    assert took / 2 < found.total_seconds < took * 2
    for name in ("read", "move", "sort"):
        assert RUN[name] / 3 < found.seconds[name] < RUN[name] * 3


def test_memory_is_within_the_budget_and_small_graphs_take_little() -> None:
    plan = PartitionPlan(num_parts=4, method="random")
    for memory in ("600MB", "4GB"):
        assert estimate(MILLION, plan, RATES, Budget.parse(memory)).peak_bytes <= Budget.parse(memory).bytes
    small = GraphSizes(nodes={NODE: TableSizes(rows=1000)}, edges={EDGE: TableSizes(rows=5000)})
    assert estimate(small, plan, RATES, Budget.parse("64GB")).peak_bytes < 2**29
    with pytest.raises(InputError, match=r"memory='.*' is too little: the numbers of 1,000,000 nodes .* give at least \d+MiB"):
        estimate(MILLION, plan, RATES, Budget.parse("200MB"))


def test_a_method_that_holds_the_graph_says_so() -> None:
    metis, ldg = (
        estimate(MILLION, PartitionPlan(num_parts=4, method=method), RATES, Budget.parse("700MB")) for method in ("metis", "ldg")
    )
    assert metis.peak_bytes > metis.budget.bytes
    assert any("metis holds the graph in memory" in note for note in metis.notes)
    assert ldg.peak_bytes <= ldg.budget.bytes
    assert not ldg.notes
    with pytest.raises(InputError, match="method='kaminpar' has not been measured"):
        estimate(MILLION, PartitionPlan(num_parts=4, method="kaminpar"), RATES, Budget.parse("4GB"))


def test_what_fits_needs_no_files_meanwhile() -> None:
    plan = PartitionPlan(num_parts=4, method="random")
    assert estimate(MILLION, plan, RATES, Budget.parse("700MB")).scratch_bytes > MILLION.table_bytes
    roomy = estimate(MILLION, plan, RATES, Budget.parse("64GB"))
    assert roomy.scratch_bytes == 0
    assert "count" not in roomy.seconds


def test_what_is_guessed_of_a_source_is_said() -> None:
    guessed = GraphSizes(nodes=MILLION.nodes, edges=MILLION.edges, guessed=("rows are guessed",), decode_seconds=100.0)
    found = estimate(guessed, PartitionPlan(num_parts=2, method="random"), RATES, Budget.parse("4GB"))
    assert "rows are guessed" in found.notes
    assert found.seconds["read"] == 100.0


@pytest.mark.parametrize("method", ["random", "fennel"])
def test_rates_are_measured_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(rates_module, "_NODES", 4000)
    monkeypatch.setattr(rates_module, "_EDGES", 40_000)
    found = measured_rates(tmp_path / "disk", method)
    assert list(found.assign) == [method]
    for rate in (found.read, found.number, found.count, found.move, found.sort, found.finish, *found.assign.values()):
        assert rate > 1000
    assert list((tmp_path / "disk").iterdir()) == []
