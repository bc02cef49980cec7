"""Cut, halo and balance against a count edge by edge."""

from pathlib import Path

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.partitioning.building.build import partition
from halohop.partitioning.building.report import PartReport, Report
from halohop.store.tables import EdgeTable, GraphTables, NodeTable


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4]))
@pytest.mark.full
def test_numbers_are_those_of_a_count(tmp_path_factory: pytest.TempPathFactory, seed: int, num_parts: int) -> None:
    generator = torch.Generator().manual_seed(seed)

    def draw(high: int, count: int) -> torch.Tensor:
        return torch.randint(high, (count,), generator=generator)

    sizes = {"a": 7, "b": 4}
    mask = draw(2, 7).bool()
    tables = GraphTables(
        nodes={"a": NodeTable(num_nodes=7, columns={"train_mask": mask}), "b": NodeTable(num_nodes=4)},
        edges={
            (source, name, destination): EdgeTable(src=draw(sizes[source], 12), dst=draw(sizes[destination], 12))
            for source, name, destination in (("a", "x", "a"), ("a", "y", "b"), ("b", "z", "a"), ("a", "u", "a"))
        },
    )
    assignment = {name: draw(num_parts, size) for name, size in sizes.items()}
    out = tmp_path_factory.mktemp("report") / "parts"
    report = partition(tables, out, num_parts=num_parts, method=assignment)
    cut_edges = 0
    for index, part in enumerate(report.parts):
        edges, halo, cut = 0, set(), 0
        for (source, _, destination), table in tables.edges.items():
            for src, dst in zip(table.src.tolist(), table.dst.tolist(), strict=True):
                if assignment[destination][dst] == index:
                    edges += 1
                    if assignment[source][src] != index:
                        cut += 1
                        halo.add((source, src))
        assert (part.edges, part.cut_edges, part.halo) == (edges, cut, len(halo))
        assert part.nodes == {name: int((assignment[name] == index).sum()) for name in sizes}
        assert part.train_nodes == int((assignment["a"][mask] == index).sum())
        assert part.bytes == sum(file.stat().st_size for file in (out / f"part-{index:04d}").rglob("*.npy"))
        cut_edges += cut
    assert report.cut == cut_edges / 48
    assert report.edge_balance == max(part.edges for part in report.parts) * num_parts / 48


def test_plain_form_is_json_and_comes_back() -> None:
    part = PartReport(nodes={"a": 3, "b": 0}, train_nodes=2, edges=5, cut_edges=1, halo=1, bytes=10)
    report = Report(parts=(part, part))
    plain = msgspec.json.decode(msgspec.json.encode(report.to_dict()))
    assert plain["cut"] == 0.2
    assert Report.from_dict(plain) == report


def test_nothing_to_divide_is_balanced() -> None:
    empty = PartReport(nodes={"a": 0}, train_nodes=0, edges=0, cut_edges=0, halo=0, bytes=0)
    report = Report(parts=(empty, empty))
    assert (report.cut, report.node_balance, report.train_balance, report.edge_balance) == (0.0, 1.0, 1.0, 1.0)


def test_masks_of_several_splits_and_other_types(tmp_path: Path) -> None:
    several = torch.tensor([[True, True], [False, True], [False, False]])
    tables = GraphTables(
        nodes={
            "a": NodeTable(num_nodes=3, columns={"train_mask": several}),
            "b": NodeTable(num_nodes=3, columns={"train_mask": torch.ones(3)}),
        },
        edges={},
    )
    report = partition(tables, tmp_path / "out", num_parts=1, method="random")
    assert report.parts[0].train_nodes == 2
