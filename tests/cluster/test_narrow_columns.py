"""Narrow columns side by side: batches have what the columns hold, and nothing that a user can write to is copied."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

import halohop
from halohop.cluster import narrow_columns, shard
from halohop.cluster.graph import Graph
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.telemetry import Gauge
from halohop.testing.worlds import hosts

EDGE_OF = {"paper": ("paper", "cites", "paper"), "author": ("author", "writes", "paper")}
COUNT = 120


def columns(count: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    whole = torch.randint(-3, 90, (count,), generator=generator)
    return {
        "x": torch.rand(count, 3, generator=generator),
        "y": whole,
        "train_mask": whole % 3 == 0,
        "day": (whole * 1000).to(torch.int32),
        "score": torch.rand(count, generator=generator).half(),
        "wide": torch.randint(-(2**62), 2**62, (count,), generator=generator),
    }


def tables() -> GraphTables:
    generator = torch.Generator().manual_seed(5)
    src, dst = torch.randint(COUNT, (2, 600), generator=generator)
    return GraphTables(
        nodes={
            "paper": NodeTable(num_nodes=COUNT, columns=columns(COUNT, 0)),
            "author": NodeTable(num_nodes=COUNT, columns={"y": torch.arange(COUNT), "x": torch.arange(2.0 * COUNT).view(-1, 2)}),
        },
        edges={relation: EdgeTable(src=src, dst=dst, columns={"w": src % 5, "t": dst}) for relation in EDGE_OF.values()},
    )


def divided(tmp_path_factory: pytest.TempPathFactory, num_parts: int) -> Path:
    folder = tmp_path_factory.mktemp("narrow") / "parts"
    halohop.partition(tables(), folder, num_parts=num_parts, method="random")
    return folder


@pytest.fixture(scope="module", params=[1, 3])
def parts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided(tmp_path_factory, request.param)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided(tmp_path_factory, 3)


def check(graph: Graph, **options: object) -> None:
    """Two epochs, through which rows are first read from columns and then from records."""
    given = tables()
    loader = halohop.NeighborLoader(
        graph, [4, 3], input_nodes=("paper", None), batch_size=16, shuffle=True, run="inline", **options
    )
    for _ in range(2):
        for batch in loader:
            for name, table in given.nodes.items():
                known = batch[name].n_id >= 0
                for key, column in table.columns.items():
                    rows = batch[name][key]
                    assert rows.dtype == column.dtype
                    assert torch.equal(rows[known], column[batch[name].n_id[known]]), (name, key)
                    assert bool((rows[~known] == (-100 if key == "y" else 0)).all())


@pytest.mark.parametrize("pad", [None, "measured"])
def test_batches_have_what_columns_hold(parts: Path, pad: str | None) -> None:
    with halohop.open(parts) as graph:
        assert "record_bytes" not in graph.statistics()
        check(graph, pad=pad)
        # papers: y, mask, day and score, and their ids in several partitions; an author has only y and ids
        several = graph.book.num_parts > 1
        assert graph.statistics()["record_bytes"] == COUNT * 8 + COUNT * 4 * several
        assert isinstance(graph.statistics()["record_bytes"], Gauge)


def test_rows_of_other_hosts_and_of_this_one_land_together(three: Path) -> None:
    with hosts(three, [[0, 2], [1]], cache=None) as graphs:
        for graph in graphs:
            check(graph)
        assert all(graph.statistics()["record_bytes"] > 0 for graph in graphs)


def test_a_column_that_a_user_gives_may_be_written_to(parts: Path) -> None:
    own = torch.zeros(COUNT, dtype=torch.int64)
    with halohop.open(parts, columns={"paper": {"own": own}}) as graph:
        for value in (1, 2):
            own.numpy()[:] = value  # which torch does not count
            for batch in halohop.NeighborLoader(graph, [4], input_nodes=("paper", None), batch_size=40, run="inline"):
                if graph.book.num_parts == 1:  # else rows are copied into the order of the partitions, once
                    assert bool((batch["paper"].own == value).all())
                assert torch.equal(batch["paper"].y, tables().nodes["paper"].columns["y"][batch["paper"].n_id])


def test_partitions_in_memory_are_read_where_they_lie(parts: Path) -> None:
    with halohop.open(parts) as graph:
        count = graph.book.num_parts
    own = [halohop.slices.read_partition(parts, part) for part in range(count)]
    with halohop.open(own) as graph:
        check(graph)
        assert "record_bytes" not in graph.statistics()


def test_copies_are_made_when_so_many_rows_were_read_that_it_pays(parts: Path) -> None:
    with halohop.open(parts) as graph:
        ids = torch.arange(COUNT // narrow_columns._SHARE - 1)
        graph.fetch_rows("paper", ["y", "train_mask"], ids)
        graph.fetch_rows("paper", ["y", "x"], torch.arange(COUNT))  # one narrow column is read where it lies
        assert "record_bytes" not in graph.statistics()
        graph.fetch_rows("paper", ["y", "train_mask"], ids[:1])
        assert graph.statistics()["record_bytes"] == COUNT * 8


def test_without_room_there_are_no_copies(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "spare_bytes", lambda: shard._SHARE * (narrow_columns.MOST_BYTES * COUNT - 1))
    with halohop.open(parts) as graph:
        check(graph)
        assert "record_bytes" not in graph.statistics()


def test_columns_on_disk_stay_there(parts: Path) -> None:
    with halohop.open(parts, memory=0) as graph:
        check(graph)
        assert "record_bytes" not in graph.statistics()
