"""Slices that several processes write become the files of `halohop.partition`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
from halohop.errors import CorruptDatasetError, IdError, IncompleteDatasetError, InputError, SchemaError
from halohop.partitioning.assigners.division import Assignment
from halohop.slices import SliceWriter, join_slices
from halohop.store.tables import EdgeTable, GraphTables, NodeTable, is_dense

BUYS, SIMILAR, NEVER = ("user", "buys", "item"), ("item", "similar", "item"), ("item", "never", "user")
TO = ("node", "to", "node")


def shop(*, constant: bool) -> GraphTables:
    generator = torch.Generator().manual_seed(0)
    users, items, buys, similar = 40, 25, 200, 90

    def some(high: int, count: int) -> torch.Tensor:
        return torch.randint(high, (count,), generator=generator)

    words = torch.eye(items, 6) if constant else torch.eye(items, 6) * torch.arange(1, items + 1).view(-1, 1)
    columns = {
        "x": torch.rand(users, 3, generator=generator).bfloat16(),
        "a/b": some(50, users),
        "train_mask": some(2, users) > 0,
    }
    return GraphTables(
        nodes={
            "user": NodeTable(num_nodes=users, columns=columns),
            "item": NodeTable(
                num_nodes=items, columns={"words": words.to_sparse(), "y": some(2, items)}, names={"y": ("pen", "book")}
            ),
            "shop": NodeTable(num_nodes=3),
        },
        edges={
            BUYS: EdgeTable(src=some(users, buys), dst=some(items - 5, buys), columns={"time": torch.arange(buys)}),
            SIMILAR: EdgeTable(src=some(items, similar), dst=some(items, similar), columns={"w": torch.rand(similar, 2)}),
            NEVER: EdgeTable(src=some(1, 0), dst=some(1, 0)),
        },
    )


def path(num_nodes: int = 12) -> GraphTables:
    """Edges in the order of their destinations, so that their ids are their gids where partitions are ranges."""
    node = torch.arange(num_nodes)
    edges = EdgeTable(src=node[:-1], dst=node[1:])
    return GraphTables(nodes={"node": NodeTable(num_nodes=num_nodes, columns={"x": node.float()})}, edges={TO: edges})


def write(tables: GraphTables, folder: Path, owner: Assignment, num_parts: int, **options: Any) -> None:
    """By three writers, each with a third of all rows, in a random order and in several steps."""
    for number in range(3):
        relations = list(tables.edges)
        with SliceWriter(folder, writer=number, num_parts=num_parts, owner=owner, relations=relations, **options) as writer:
            for name, table in tables.nodes.items():
                for ids in share(table.num_nodes, number) if table.columns else ():
                    columns = {
                        key: column[ids] if is_dense(column) else column.to_dense()[ids].to_sparse()
                        for key, column in table.columns.items()
                    }
                    writer.add_nodes(name, ids, columns, names=table.names)
            for relation, edges in tables.edges.items():
                for ids in share(edges.num_edges, number):
                    columns = {key: column[ids] for key, column in edges.columns.items()}
                    writer.add_edges(relation, torch.stack([edges.src, edges.dst])[:, ids], ids, columns)


def share(count: int, number: int) -> tuple[torch.Tensor, ...]:
    return torch.randperm(count, generator=torch.Generator().manual_seed(3))[number::3].split(7)


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def mixed(tables: GraphTables, num_parts: int) -> Assignment:
    return {name: (torch.arange(table.num_nodes) * 7 // 3) % num_parts for name, table in tables.nodes.items()}


@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize(
    ("make", "kind", "num_parts", "halo"),
    [
        (lambda: shop(constant=True), "mixed", 4, ("a/b", "raw_id")),
        (lambda: shop(constant=False), "mixed", 3, ("y",)),
        (lambda: shop(constant=True), "one is empty", 3, ()),
        (lambda: shop(constant=True), "mixed", 1, ("raw_id",)),
        (path, "mixed", 2, ("raw_id", "x")),
        (path, "ranges", 3, ("x",)),
    ],
)
def test_files_are_those_of_the_whole_graph(tmp_path, make, kind, num_parts, halo, edge_dir):
    tables = make()
    owner = mixed(tables, num_parts)
    if kind == "one is empty":
        owner = {name: part.clamp(max=num_parts - 2) for name, part in owner.items()}
    elif kind == "ranges":
        owner = {name: part.sort().values for name, part in owner.items()}
    halohop.partition(tables, tmp_path / "whole", num_parts=num_parts, method=owner, halo=halo, edge_dir=edge_dir)
    write(tables, tmp_path / "slices", owner, num_parts, edge_dir=edge_dir)
    report = join_slices(tmp_path / "slices", tmp_path / "joined", num_writers=3, owner=owner, halo=halo)
    assert files(tmp_path / "joined") == files(tmp_path / "whole")
    assert len(report.parts) == num_parts


# What is refused. A ring of six nodes, of two writers and two partitions.

OWNER = {"node": torch.tensor([0, 1, 0, 1, 0, 1])}


def ring(folder: Path, *, writer: int = 0, **options: Any) -> SliceWriter:
    return SliceWriter(folder, **{"writer": writer, "num_parts": 2, "owner": OWNER, "relations": [TO], **options})


def feed(slices: SliceWriter, ids: list[int], **columns: torch.Tensor) -> None:
    own = torch.tensor(ids)
    slices.add_nodes("node", own, columns or {"x": own.float()})
    slices.add_edges(TO, torch.stack([own, (own + 1) % 6]), own)


@pytest.fixture
def slices(tmp_path: Path) -> Path:
    for writer, ids in enumerate(([0, 1, 2], [5, 4, 3])):
        with ring(tmp_path / "slices", writer=writer) as own:
            feed(own, ids)
    return tmp_path / "slices"


def join(slices: Path, **options: Any) -> None:
    join_slices(slices, slices.parent / "parts", **{"num_writers": 2, "owner": OWNER, **options})


def rewritten(ids: list[int], *, options: dict[str, Any] | None = None, **columns: torch.Tensor) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with ring(folder, **{"writer": 1, **(options or {})}) as own:
            feed(own, ids, **columns)

    return change


JOINED: dict[str, tuple[Callable[[Path], None], dict[str, Any], type[Exception], str]] = {
    "a writer that has not finished": (
        lambda folder: None,
        {"num_writers": 3},
        IncompleteDatasetError,
        "writer-0002 is missing or",
    ),
    "no writers": (lambda folder: None, {"num_writers": 0}, InputError, "num_writers=0; give the number of writers"),
    "other owners": (
        lambda folder: None,
        {"owner": {"node": torch.tensor([0, 1, 0, 1, 1, 0])}},
        InputError,
        "writer-0000 was written with other owners of nodes than are given now",
    ),
    "writers with other relations": (
        rewritten([3, 4, 5], options={"relations": [TO, ("node", "back", "node")]}),
        {},
        InputError,
        "writer-0001 was written with another num_parts, edge_dir or relations than",
    ),
    "writers with another direction": (
        rewritten([3, 4, 5], options={"edge_dir": "out"}),
        {},
        InputError,
        "another num_parts, edge_dir or relations",
    ),
    "other columns": (
        rewritten([3, 4, 5], x=torch.zeros(3, 2)),
        {},
        InputError,
        r"rows of 'node' have the columns \['x'\] in .*writer-0001 and \['x'\] in .*writer-0000, or these of other dtypes",
    ),
    "an edge that is missing": (rewritten([3, 5]), {}, InputError, "edge ids of .* are not 0 to 4, each once"),
    "an edge id twice": (rewritten([3, 4, 0]), {}, InputError, "edge ids of .* are not 0 to 5, each once"),
    "halo that is no number": (lambda folder: None, {"halo": ("z",)}, InputError, "halo names 'z', which is no column of nodes"),
    "halo that no kernel can compare": (
        lambda folder: [
            rewritten(ids, options={"writer": writer}, x=torch.zeros(3).half())(folder)
            for writer, ids in enumerate(([0, 1, 2], [3, 4, 5]))
        ],
        {"halo": ("x",)},
        InputError,
        "halo names 'x', which is not one number per node",
    ),
    "halo that is a text": (lambda folder: None, {"halo": "x"}, InputError, "halo='x' is a text"),
}


@pytest.mark.parametrize("name", JOINED)
def test_slices_that_do_not_fit_are_refused(slices, name):
    change, options, kind, message = JOINED[name]
    change(slices)
    with pytest.raises(kind, match=message):
        join(slices, **options)
    assert not (slices.parent / "parts").exists()


def test_a_node_that_is_missing_or_comes_twice_is_named(slices):
    with ring(slices, writer=1) as own:
        own.add_nodes("node", torch.tensor([3, 5]), {"x": torch.zeros(2)})
        own.add_edges(TO, torch.tensor([[3, 4, 5], [4, 5, 0]]), torch.tensor([3, 4, 5]))
    with pytest.raises(InputError, match="partition 0 owns node 4 of 'node', but has no row of it"):
        join(slices)
    with ring(slices, writer=1) as own:
        own.add_nodes("node", torch.tensor([3, 5, 4, 2]), {"x": torch.zeros(4)})
        own.add_edges(TO, torch.tensor([[3, 4, 5], [4, 5, 0]]), torch.tensor([3, 4, 5]))
    with pytest.raises(InputError, match="node 2 of 'node' is given twice"):
        join(slices)


def test_a_file_that_was_cut_short_is_named(slices):
    file = slices / "writer-0001" / "part-0000" / "nodes" / "node" / "column-0"
    os.truncate(file, 3)
    with pytest.raises(CorruptDatasetError, match=r"column-0 has 3 bytes, expected 4; run its writer again"):
        join(slices)


def test_a_writer_that_is_opened_again_begins_anew(slices):
    before, own = files(slices), ring(slices, writer=1)
    with pytest.raises(IdError, match="name node 9"), own:
        feed(own, [9])
    for _ in range(2):
        with own:
            feed(own, [5, 4, 3])
    assert files(slices) == before


def test_nothing_is_added_to_a_writer_that_is_not_open(slices, tmp_path, monkeypatch):
    monkeypatch.chdir(slices / "writer-0000")  # a folder that has the files of a writer
    before, own = files(slices), ring(slices, writer=1)
    for _ in range(2):
        with pytest.raises(InputError, match="this SliceWriter is not open"):
            feed(own, [1])
        with own:
            feed(own, [5, 4, 3])
    assert files(slices) == before


def test_a_writer_that_fails_leaves_what_was_there(slices):
    before = files(slices)
    with pytest.raises(IdError, match="name node 9"), ring(slices, writer=1) as own:
        feed(own, [9])
    assert files(slices) == before


@pytest.mark.parametrize(
    ("feed", "kind", "message"),
    [
        (lambda own: own.add_nodes("other", torch.tensor([0])), SchemaError, "unknown node type 'other'"),
        (lambda own: own.add_nodes("node", torch.tensor([6])), IdError, "nodes of 'node' name node 6, which has no owner"),
        (lambda own: own.add_nodes("node", torch.tensor([1]), {"x": torch.zeros(2)}), InputError, "there are 1 nodes"),
        (lambda own: own.add_edges(("a", "b", "c"), torch.zeros(2, 1), torch.zeros(1)), SchemaError, "unknown relation"),
        (lambda own: own.add_edges(TO, torch.tensor([[0], [9]]), torch.tensor([0])), IdError, "name node 9, which has no owner"),
        (lambda own: own.add_edges(TO, torch.tensor([[0, 1]]), torch.tensor([0])), InputError, r"shape \(1, 2\), expected"),
        (lambda own: own.add_edges(TO, torch.tensor([[0], [1]]), torch.tensor([0, 1])), InputError, "edge_id has 2 entries"),
    ],
)
def test_rows_that_cannot_be_are_refused(tmp_path, feed, kind, message):
    with pytest.raises(kind, match=message), ring(tmp_path / "slices") as own:
        feed(own)


def test_rows_with_other_columns_than_before_are_refused(tmp_path):
    with ring(tmp_path / "slices") as own:
        own.add_nodes("node", torch.tensor([1]), {"x": torch.zeros(1)})
        with pytest.raises(InputError, match="rows of 'node' have the columns"):
            own.add_nodes("node", torch.tensor([2]), {"y": torch.zeros(1)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"writer": -1}, "writer=-1 is below 0"),
        ({"edge_dir": "both"}, "edge_dir='both'"),
        ({"owner": {"node": torch.tensor([0, 2])}}, "the owner of node node 1 is 2"),
        ({"relations": [("node", "to", "other")]}, "uses node type 'other'"),
    ],
)
def test_writers_that_cannot_be_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        ring(tmp_path, **options)
