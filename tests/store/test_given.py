"""Columns that are given beside a data set: the rows that each partition gets, and what cannot be given."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from halohop import partition
from halohop.cluster.holding import Holding
from halohop.errors import InputError, SchemaError
from halohop.store.given import given_names, other_columns, with_absolute_paths
from halohop.store.manifest import decode
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE

LIKES, MAKES = ("user", "likes", "item"), ("item", "made by", "user")
USERS, ITEMS, LIKED, MADE = 40, 9, 120, 30


def tables() -> GraphTables:
    """Users with ids of their own, the last few isolated; items have their rows as ids, and are fewer than partitions."""
    generator = torch.Generator().manual_seed(0)

    def ends(rows: int, count: int) -> torch.Tensor:
        return torch.randint(rows, (count,), generator=generator)

    raw_id = torch.randperm(USERS, generator=generator) * 10**9 + 7
    return GraphTables(
        nodes={
            "user": NodeTable(num_nodes=USERS, raw_id=raw_id, columns={"x": torch.rand(USERS, 3)}),
            "item": NodeTable(num_nodes=ITEMS),
        },
        edges={
            LIKES: EdgeTable(src=ends(USERS - 5, LIKED), dst=ends(ITEMS, LIKED)),
            MAKES: EdgeTable(src=ends(ITEMS, MADE), dst=ends(USERS - 5, MADE)),
        },
    )


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("given") / "parts"
    assignment = {"user": torch.arange(USERS) % 3, "item": torch.arange(ITEMS) % 2}  # none of the items in the last two
    partition(tables(), path, num_parts=4, method=assignment, halo=("raw_id",))
    return path


def rows_of(count: int, like: torch.Tensor) -> torch.Tensor:
    values = torch.arange(count * like[0].numel()).reshape(count, *like.shape[1:])
    return values % 2 == 0 if like.dtype == torch.bool else values.to(like.dtype)


KINDS = {
    "int64": torch.zeros(1, dtype=torch.int64),
    "float64": torch.zeros(1, dtype=torch.float64),
    "bool": torch.zeros(1, dtype=torch.bool),
    "bfloat16": torch.zeros(1, 2, dtype=torch.bfloat16),
    "matrices": torch.zeros(1, 2, 3, dtype=torch.uint8),
    "rows without an entry": torch.zeros(1, 0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_partition_gets_the_rows_of_its_own_ids(parts, kind):
    stored = tables()
    raw = stored.nodes["user"].raw_id
    users, items, liked = (rows_of(count, KINDS[kind]) for count in (USERS, ITEMS, LIKED))
    order = torch.randperm(USERS)
    holding = Holding.of(parts).with_columns(
        {"user": {"new": (raw[order], users[order])}, "item": {"new": items}, LIKES: {"new": liked}}
    )
    seen = {"user": 0, "item": 0, LIKES: 0}
    row_of = {int(id_): row for row, id_ in enumerate(raw)}
    for index, part in holding.parts.items():
        own = part.nodes["user"].raw_id
        assert torch.equal(part.nodes["user"].columns["new"], users[[row_of[int(id_)] for id_ in own]])
        held = part.nodes["item"]
        own = torch.arange(held.num_nodes) + holding.book.offset("item", index) if held.raw_id is None else held.raw_id
        assert torch.equal(held.columns["new"], items[own])
        edges = part.edges[LIKES]
        own = torch.arange(edges.num_edges) + holding.book.offset(LIKES, index) if edges.edge_id is None else edges.edge_id
        assert torch.equal(edges.columns["new"], liked[own.long()])
        seen["user"] += part.nodes["user"].num_nodes
        seen["item"] += held.num_nodes
        seen[LIKES] += edges.num_edges
    assert seen == {"user": USERS, "item": ITEMS, LIKES: LIKED}
    described = decode(holding.document, "the document")
    assert described.schema == holding.manifest.schema
    assert list(described.schema.nodes["user"].columns) == ["x", "new"]
    assert len(given_names(described)) == 3


def test_a_file_is_mapped_and_only_owned_rows_are_read(tmp_path):
    """One partition of one type has its ids in order, so its rows are the file's own pages; a hole in the file stays one."""
    count = 1 << 20
    table = GraphTables(
        nodes={"node": NodeTable(num_nodes=count)},
        edges={("node", "to", "node"): EdgeTable(src=torch.tensor([0]), dst=torch.tensor([1]))},
    )
    assignment = {"node": (torch.arange(count) >= count // 2).int()}
    partition(table, tmp_path / "parts", num_parts=2, method=assignment)
    with (tmp_path / "wide.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": (count, 64)})
        begin = stream.tell()
        os.truncate(stream.fileno(), begin + count * 256)  # 256 MiB, none of them on the disk
    before = resident()
    holding = Holding.of(tmp_path / "parts", partitions=[1]).with_columns({"node": {"wide": tmp_path / "wide.npy"}})
    column = holding.parts[1].nodes["node"].columns["wide"]
    assert column.shape == (count // 2, 64)
    assert resident() - before < 1 << 25
    with (tmp_path / "wide.npy").open("r+b") as stream:
        stream.seek(begin + (count // 2 + 5) * 256)
        stream.write(np.full(64, 3.0, np.float32).tobytes())
    assert column[5].tolist() == [3.0] * 64


def resident() -> int:
    """Bytes of this process's memory that are in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_arrays_that_cannot_be_written_and_files_in_another_order(parts, tmp_path):
    frozen = np.arange(ITEMS * 2, dtype=np.float32).reshape(ITEMS, 2)
    np.save(tmp_path / "columns.npy", np.asfortranarray(frozen))
    frozen.flags.writeable = False
    holding = Holding.of(parts).with_columns({"item": {"frozen": frozen, "fortran": str(tmp_path / "columns.npy")}})
    for part in holding.parts.values():
        columns = part.nodes["item"].columns
        assert torch.equal(columns["frozen"], columns["fortran"])
        assert columns["fortran"].is_contiguous()
    assert frozen[0, 1] == 1


def test_sparse_rows(parts):
    raw = tables().nodes["user"].raw_id
    dense = torch.eye(USERS, 50) * 2
    holding = Holding.of(parts).with_columns({"user": {"words": (raw, dense.to_sparse())}})
    assert holding.manifest.schema.nodes["user"].columns["words"].sparse
    for part in holding.parts.values():
        rows = [raw.tolist().index(int(id_)) for id_ in part.nodes["user"].raw_id]
        assert torch.equal(part.nodes["user"].sparse["words"].dense(), dense[rows])


def test_partitions_elsewhere_need_no_rows(parts):
    holding = Holding.of(parts, partitions=[2])
    own = holding.parts[2].nodes["user"].raw_id
    given = holding.with_columns({"user": {"y": (own.flip(0), torch.arange(len(own)))}})
    assert given.parts[2].nodes["user"].columns["y"].tolist() == list(range(len(own)))[::-1]


def test_without_partitions_there_is_still_a_description(parts):
    holding = Holding.of(parts, partitions=[])
    given = holding.with_columns({"item": {"y": torch.arange(ITEMS)}, "user": {"y": (torch.tensor([], dtype=torch.int64),) * 2}})
    assert given.manifest.schema.nodes["item"].columns["y"].dtype == "int64"
    full = Holding.of(parts).with_columns({"user": {"y": (tables().nodes["user"].raw_id, torch.arange(USERS))}} | ITEM_Y)
    assert given.fingerprint == full.fingerprint != holding.fingerprint


ITEM_Y = {"item": {"y": torch.arange(ITEMS)}}


def test_the_order_in_which_columns_are_given_does_not_matter(parts):
    one, other = torch.rand(ITEMS), torch.rand(LIKED)
    holding = Holding.of(parts)
    documents = {
        holding.with_columns(columns).document
        for columns in (
            {"item": {"a": one, "b": one}, LIKES: {"w": other}},
            {LIKES: {"w": other}, "item": {"b": one, "a": one}},
        )
    }
    assert len(documents) == 1


def bad_file(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def truncated(folder: Path) -> Path:
    np.save(folder / "short.npy", np.arange(ITEMS, dtype=np.float64))
    os.truncate(folder / "short.npy", 140)
    return folder / "short.npy"


def archive(folder: Path) -> Path:
    np.savez(folder / "several.npz", a=np.arange(ITEMS))
    return folder / "several.npz"


BAD = {
    "too short": (lambda _: {"item": {"y": torch.arange(8)}}, r"columns\['item'\]\['y'\] has 8 rows, but there are 9 nodes"),
    "too long": (
        lambda _: {"item": {"y": torch.arange(10)}},
        r"10 rows, but there are 9 nodes of 'item'; .* 0 to 8, or a pair",
    ),
    "of edges": (
        lambda _: {LIKES: {"w": torch.rand(119)}},
        r"119 rows, but there are 120 edges of \('user', 'likes', 'item'\)",
    ),
    "sparse ids": (
        lambda _: {"user": {"y": torch.arange(USERS)}},
        r"the ids 0 to 39, but the graph has id \d+; give a pair",
    ),
    "a missing id": (
        lambda _: {"user": {"y": (tables().nodes["user"].raw_id[1:], torch.arange(USERS - 1))}},
        rf"has no row for id {int(tables().nodes['user'].raw_id[0])}; give rows for all ids that are held here",
    ),
    "no ids": (lambda _: {"user": {"y": (torch.tensor([], dtype=torch.int64),) * 2}}, r"has no row for id \d+; give"),
    "an id twice": (lambda _: {"item": {"y": (torch.zeros(2, dtype=torch.int64), torch.ones(2))}}, r"ids of .* hold 0 twice"),
    "ids of floats": (lambda _: {"item": {"y": (torch.rand(9), torch.ones(9))}}, r"ids of .* are torch.float32 of shape \(9,\)"),
    "fewer ids": (lambda _: {"item": {"y": (torch.arange(8), torch.ones(9))}}, "has 8 ids and 9 rows; give a row for each id"),
    "a triple": (lambda _: {"item": {"y": (1, 2, 3)}}, "is a tuple of 3; give rows, or a pair of ids and their rows"),
    "a list": (lambda _: {"item": {"y": [0] * 9}}, "is a list; give a tensor, an array, or the path of a .npy file"),
    "a number": (lambda _: {"item": {"y": torch.tensor(3)}}, "is a single number; give a row for each id"),
    "words": (lambda _: {"item": {"y": np.array(["a"] * 9)}}, "holds <U1, which torch cannot take"),
    "byte order": (lambda _: {"item": {"y": np.arange(9, dtype=">i8")}}, "holds >i8, .* native byte order"),
    "on another device": (lambda _: {"item": {"y": torch.ones(9, device="meta")}}, r"on meta; give one .* on the CPU"),
    "sparse edges": (lambda _: {LIKES: {"w": torch.eye(LIKED).to_sparse()}}, r"only columns of nodes may be sparse"),
    "a sparse vector": (lambda _: {"item": {"w": torch.ones(9).to_sparse()}}, r"columns\['item'\]\['w'\]: a torch.sparse_coo"),
    "stored": (lambda _: {"user": {"x": torch.ones(USERS)}}, "'user' has a column 'x' stored already; give yours another name"),
    "halo": (lambda _: {LIKES: {"raw_id": torch.ones(LIKED)}}, "of its sources stored .halo.; give yours another name"),
    "no name": (lambda _: {"item": {"": torch.ones(9)}}, "'' cannot name a column"),
    "a reserved name": (lambda _: {"item": {"\0raw_id": torch.ones(9)}}, "cannot name a column"),
    "a name that is a number": (lambda _: {"item": {3: torch.ones(9)}}, "3 cannot name a column"),
    "another type": (lambda _: {"y": {"y": torch.ones(9)}}, r"unknown node type 'y'; known: \['user', 'item'\]"),
    "another relation": (lambda _: {("a", "b", "c"): {"y": torch.ones(9)}}, r"unknown relation \('a', 'b', 'c'\); known"),
    "a key": (lambda _: {5: {"y": torch.ones(9)}}, "the key 5; keys are node types and relations"),
    "no dict of columns": (lambda _: {"item": torch.ones(9)}, r"columns\['item'\] is a Tensor; give a dict of rows"),
    "no dict": (lambda _: torch.ones(9), "columns is a Tensor; give a dict such as"),
    "no file": (
        lambda folder: {"item": {"y": folder / "none.npy"}},
        r"no file .*none.npy; give the path of a .npy file",
    ),
    "a folder": (lambda folder: {"item": {"y": str(folder)}}, r"there is no file .*; give the path"),
    "a truncated file": (lambda folder: {"item": {"y": truncated(folder)}}, r"short.npy cannot be read as one array"),
    "an empty file": (lambda folder: {"item": {"y": bad_file(folder, "e.npy", b"")}}, r"e.npy cannot be read as one array"),
    "another file": (lambda folder: {"item": {"y": bad_file(folder, "t.csv", b"1,2\n")}}, r"t.csv cannot be read as one array"),
    "an archive": (lambda folder: {"item": {"y": archive(folder)}}, r"several.npz is an archive of arrays; save the one"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_given(parts, tmp_path, case):
    make, named = BAD[case]
    holding = Holding.of(parts)
    with pytest.raises(InputError, match=named) as caught:
        holding.with_columns(make(tmp_path))
    assert "\n" not in str(caught.value)
    schema = re.search(r"stored|cannot name|unknown", named)
    assert isinstance(caught.value, SchemaError) == bool(schema)


def test_files_are_named_in_errors(parts, tmp_path):
    np.save(tmp_path / "labels.npy", np.arange(8))
    with pytest.raises(InputError, match=r"columns\['item'\]\['y'\] \(.*labels.npy\) has 8 rows"):
        Holding.of(parts).with_columns({"item": {"y": tmp_path / "labels.npy"}})


def test_paths_for_another_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = torch.ones(3)
    assert with_absolute_paths(None) is None
    found = with_absolute_paths({"item": {"y": "labels.npy", "z": (rows, Path("rows.npy")), "w": rows}})
    assert found == {"item": {"y": tmp_path / "labels.npy", "z": (rows, tmp_path / "rows.npy"), "w": rows}}


def test_the_same_columns_are_no_difference():
    assert other_columns(("a", "b"), ("b", "a")) is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"node": {"w": torch.zeros(3)}}, "'w' is given for 'node', but .* has a column of that name"),
        ({EDGE: {"x": torch.zeros(2)}}, "'x' is given for .*, but 'node' has a column of that name"),
        ({"node": {"z": torch.zeros(3)}, EDGE: {"z": torch.zeros(2)}}, "a batch has one place for both; rename it"),
        ({EDGE: {"edge_index": torch.zeros(2)}}, "'edge_index' cannot name a column"),
        ({"node": {"num_nodes": torch.zeros(3)}}, "'num_nodes' cannot name a column"),
    ],
)
def test_names_that_batches_have_one_place_for_are_refused(tmp_path, columns, message):
    """A batch would have one of the two columns, or other edges than it has."""
    path = EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([1, 2]), columns={"w": torch.ones(2)})
    nodes = NodeTable(num_nodes=3, columns={"x": torch.ones(3)})
    partition(GraphTables(nodes={"node": nodes}, edges={EDGE: path}), tmp_path / "parts", num_parts=2, method="random")
    with pytest.raises(SchemaError, match=message):
        Holding.of(tmp_path / "parts").with_columns(columns)
