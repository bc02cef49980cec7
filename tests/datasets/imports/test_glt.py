"""Folders as GLT's partitioners write them, written here: tensors by `torch.save`, features as pickles one behind the other."""

import os
import pickle
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import halohop
from halohop.datasets import Imported, glt_owners, read_glt
from halohop.datasets.imports.restricted import unpickled
from halohop.datasets.sizing import source_sizes
from halohop.datasets.staging import Staging
from halohop.errors import DatasetError, InputError
from halohop.partitioning.assigners.division import Assignment
from halohop.partitioning.planning.sizes import GraphSizes
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.worlds import random_assignment
from halohop.typing import EDGE, NODE, relation_text

PARTS, CHUNK = 3, 4


def homogeneous() -> GraphTables:
    generator = torch.Generator().manual_seed(1)
    columns = {"weight": torch.rand(50, generator=generator), "edge_attr": torch.randn(50, 3, generator=generator)}
    src, dst = (torch.randint(0, 20, (50,), generator=generator) for _ in range(2))
    return GraphTables(
        nodes={NODE: NodeTable(num_nodes=20, columns={"x": torch.randn(20, 5, generator=generator)})},
        edges={EDGE: EdgeTable(src=src, dst=dst, columns=columns)},
    )


def typed() -> GraphTables:
    generator = torch.Generator().manual_seed(2)
    src, dst = torch.randint(0, 9, (30,), generator=generator), torch.randint(0, 2, (30,), generator=generator)
    return GraphTables(
        nodes={
            "user": NodeTable(num_nodes=9, columns={"x": torch.randn(9, 2, generator=generator).half()}),
            "shop": NodeTable(num_nodes=2),
        },
        edges={
            ("user", "at", "shop"): EdgeTable(src=src, dst=dst, columns={"edge_attr": torch.randn(30, 1, generator=generator)}),
            ("user", "knows", "user"): EdgeTable(src=src[:9], dst=src[9:18]),
        },
    )


def write_glt(
    folder: Path, tables: GraphTables, owner: Assignment, *, by: int = 0, pickled: bool = True, cached: bool = False
) -> Path:
    """What GLT's partitioner writes; `by` 0: "by_src", 1: "by_dst"."""
    is_typed = len(tables.nodes) > 1
    meta = {
        "num_parts": PARTS,
        "data_cls": "hetero" if is_typed else "homo",
        "node_types": list(tables.nodes) if is_typed else None,
        "edge_types": list(tables.edges) if is_typed else None,
    }
    folder.mkdir(parents=True)
    (folder / "META").write_bytes(pickle.dumps(meta, pickle.HIGHEST_PROTOCOL))
    for name, nodes in tables.nodes.items():
        save(folder / f"node_pb{f'/{name}' if is_typed else ''}.pt", owner[name].long())
        for part in range(PARTS):
            ids = (owner[name] == part).nonzero().flatten()
            ids = torch.cat([chunk[torch.randperm(len(chunk))] for chunk in ids.split(CHUNK)])  # at random within a chunk
            if "x" in nodes.columns:
                room = folder / f"part{part}" / "node_feat" / (name if is_typed else "")
                save_features(room, ids, nodes.columns["x"][ids], pickled)
                if cached:
                    save(room / "cache_ids.pt", torch.tensor([0]))
                    save(room / "cache_feats.pt", nodes.columns["x"][:1])
    for relation, edges in tables.edges.items():
        text = relation_text(relation)
        whose = owner[relation[2 * by]][edges.ends[by]]
        save(folder / f"edge_pb{f'/{text}' if is_typed else ''}.pt", whose.long())
        for part in range(PARTS):
            ids = (whose == part).nonzero().flatten()
            room = folder / f"part{part}" / "graph" / (text if is_typed else "")
            arrays = {"rows": edges.src[ids], "cols": edges.dst[ids], "eids": ids}
            if "weight" in edges.columns:
                arrays["weights"] = edges.columns["weight"][ids]
            for file, array in arrays.items():
                save(room / f"{file}.pt", array)
            if "edge_attr" in edges.columns:
                room = folder / f"part{part}" / "edge_feat" / (text if is_typed else "")
                save_features(room, ids, edges.columns["edge_attr"][ids], pickled)
    return folder


def save(file: Path, tensor: Tensor) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(tensor, file)


def save_features(folder: Path, ids: Tensor, rows: Tensor, pickled: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stem, column in (("feats", rows), ("ids", ids)):
        if pickled:
            with (folder / f"{stem}.pkl").open("ab") as stream:
                for chunk in column.split(CHUNK):
                    pickle.dump(chunk, stream)
        else:
            save(folder / f"{stem}.pt", column)


def same_graph(found: GraphTables, wanted: GraphTables) -> None:
    assert (list(found.nodes), list(found.edges)) == (list(wanted.nodes), list(wanted.edges))
    for name, nodes in wanted.nodes.items():
        assert found.nodes[name].num_nodes == nodes.num_nodes
        same_columns(found.nodes[name].columns, nodes.columns)
    for relation, edges in wanted.edges.items():
        assert torch.equal(found.edges[relation].src, edges.src)
        assert torch.equal(found.edges[relation].dst, edges.dst)
        same_columns(found.edges[relation].columns, edges.columns)


def same_columns(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert set(found) == set(wanted)
    for name, column in wanted.items():
        assert found[name].dtype == column.dtype
        assert torch.equal(found[name], column)


@pytest.mark.parametrize("make", [homogeneous, typed])
@pytest.mark.parametrize(("by", "pickled", "cached"), [(0, True, False), (1, False, True)])
def test_every_node_edge_and_column_is_that_of_the_graph_before(
    tmp_path: Path, make: Callable[[], GraphTables], by: int, pickled: bool, cached: bool
) -> None:
    tables = make()
    owner = random_assignment(tables, PARTS, seed=3)
    folder = write_glt(tmp_path / "glt", tables, owner, by=by, pickled=pickled, cached=cached)
    imported: Imported = read_glt(folder)
    same_graph(imported.tables, tables)
    staged = read_glt(folder, staging=Staging(folder=tmp_path / "scratch", chunk_bytes=100)).tables
    same_graph(staged, tables)
    assert str(tmp_path / "scratch") in Path("/proc/self/maps").read_text()
    assert imported.owners.num_parts == PARTS
    assert {name: part.tolist() for name, part in imported.owners.part.items()} == {k: v.tolist() for k, v in owner.items()}


@pytest.mark.parametrize("make", [homogeneous, typed])
@pytest.mark.parametrize("pickled", [False, True])
def test_sizes_are_known_before_rows_are_read(tmp_path: Path, make: Callable[[], GraphTables], pickled: bool) -> None:
    tables = make()
    folder = write_glt(tmp_path / "glt", tables, random_assignment(tables, PARTS, seed=3), pickled=pickled)
    found = source_sizes(f"glt:{folder}")
    assert (found.nodes, found.edges) == (GraphSizes.of(tables).nodes, GraphSizes.of(tables).edges)


def test_partitions_have_the_bytes_of_those_that_the_graph_before_makes(tmp_path: Path) -> None:
    tables = typed()
    owner = random_assignment(tables, PARTS, seed=3)
    imported = read_glt(write_glt(tmp_path / "glt", tables, owner, by=0))
    for name, graph, division in (("ours", tables, owner), ("theirs", imported.tables, imported.owners.part)):
        halohop.partition(graph, tmp_path / name, num_parts=PARTS, method=division, edge_dir="out")
    files = sorted(path.relative_to(tmp_path / "ours") for path in (tmp_path / "ours").rglob("*.npy"))
    assert files
    for file in files:
        assert (tmp_path / "ours" / file).read_bytes() == (tmp_path / "theirs" / file).read_bytes()


def test_a_graph_that_all_partitions_share_needs_no_edge_ids(tmp_path: Path) -> None:
    tables = homogeneous()
    folder = write_glt(tmp_path / "glt", tables, random_assignment(tables, PARTS))
    (folder / "edge_pb.pt").unlink()
    for part in range(PARTS):
        shutil.rmtree(folder / f"part{part}" / "graph")
    edges = tables.edges[EDGE]
    for file, array in (("rows", edges.src), ("cols", edges.dst), ("weights", edges.columns["weight"])):
        save(folder / "graph" / f"{file}.pt", array)
    same_graph(read_glt(folder).tables, tables)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tables = homogeneous()
    return write_glt(tmp_path / "glt", tables, random_assignment(tables, PARTS, seed=3))


def test_labels_and_splits_lie_beside(folder: Path) -> None:
    torch.save(torch.arange(20) % 4, folder / "label.pt")
    for part in range(2):  # as GLT's examples write the ids of each partition's seeds
        save(folder / "train" / f"partition{part}.pt", torch.tensor([part, part + 10]))
    np.save(folder / "test.npy", np.arange(20) > 17)
    source = f"glt:{folder}?y={folder}/label.pt&train_mask={folder}/train&test_mask={folder}/test.npy"
    columns = halohop.load_source(source).nodes[NODE].columns
    assert columns["y"].tolist() == [0, 1, 2, 3] * 5
    assert columns["train_mask"].nonzero().flatten().tolist() == [0, 1, 10, 11]
    assert columns["test_mask"].nonzero().flatten().tolist() == [18, 19]


class Hostile:
    """A pickle that runs code where it is read without care."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize(
    "file", ["META", "part1/node_feat/feats.pkl", "part0/edge_feat/ids.pkl", "node_pb.pt", "part2/graph/rows.pt"]
)
def test_a_hostile_pickle_is_refused_by_name_and_nothing_runs(folder: Path, tmp_path: Path, file: str) -> None:
    ran = tmp_path / "ran"
    if file.endswith(".pt"):
        torch.save({"rows": Hostile(ran)}, folder / file)
    else:
        with (folder / file).open("ab") as stream:
            pickle.dump(Hostile(ran), stream)
    with pytest.raises(InputError, match=rf"{file} is not read: it names posix\.mkdir; only"):
        read_glt(folder)
    assert not ran.exists()


def test_a_storage_in_a_pickle_is_not_read_by_any_other_pickle(folder: Path, tmp_path: Path) -> None:
    """torch's own reader of storages, which a pickled tensor names, reads any pickle."""

    class Nested:
        def __reduce__(self) -> Any:
            return torch.storage._load_from_bytes, (pickle.dumps(Hostile(tmp_path / "ran")),)

    with (folder / "part0" / "node_feat" / "feats.pkl").open("ab") as stream:
        pickle.dump(Nested(), stream)
    with pytest.raises(InputError, match=r"feats\.pkl is not read"):
        read_glt(folder)
    assert not (tmp_path / "ran").exists()


def written_twice(folder: Path) -> None:
    tables = homogeneous()
    for part, ids in enumerate((glt_owners(folder).part[NODE] == part).nonzero().flatten() for part in range(PARTS)):
        save_features(folder / f"part{part}" / "node_feat", ids, tables.nodes[NODE].columns["x"][ids], True)


def of_another_run(folder: Path) -> None:
    save(folder / "part1" / "graph" / "eids.pt", torch.load(folder / "part0" / "graph" / "eids.pt", weights_only=True)[:1])


def without_an_edge(folder: Path) -> None:
    for stem in ("rows", "cols", "eids", "weights"):
        file = folder / "part1" / "graph" / f"{stem}.pt"
        save(file, torch.load(file, weights_only=True)[1:].clone())


def compressed(folder: Path) -> None:
    save(folder / "part2" / "graph" / "rows.pt", torch.arange(3))


def meta(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        value = pickle.loads((folder / "META").read_bytes())
        (folder / "META").write_bytes(pickle.dumps({**value, **changes}))

    return change


def cut(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).write_bytes((folder / file).read_bytes()[:-9]) and None


def without(file: str) -> Callable[[Path], None]:
    return lambda folder: (folder / file).unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (written_twice, r"node of type 'node' 0 is in the partitions 2 times; they were written twice into one folder"),
        (of_another_run, r"rows of .* of partition 1 has \d+ rows, but 1 ids|edge of .* is in the partitions 2 times"),
        (without_an_edge, r"edge_pb\.pt has 50 edges, the partitions of .* have 49; copy the whole folder"),
        (compressed, r"part2/graph has 3 rows and \d+ cols, as CSR or CSC have; give GLT's partitioner edges as COO"),
        (without("META"), r"there is no file .*META; name the output_dir"),
        (without("part2/graph/cols.pt"), r"there is no file .*part2/graph/cols\.pt; copy the whole folder"),
        (without("part1/node_feat/ids.pkl"), r"there is no file .*part1/node_feat/ids\.pt"),
        (without("node_pb.pt"), r"there is no file .*node_pb\.pt"),
        (cut("part1/node_feat/feats.pkl"), r"feats\.pkl is not read"),
        (cut("part1/graph/eids.pt"), r"eids\.pt is not read"),
        (meta(num_parts=2), r"node_pb\.pt holds partition 2, but META says there are 2"),
        (meta(data_cls="other"), "is not what GLT's partitioner writes"),
        (meta(num_parts="many"), "is not what GLT's partitioner writes"),
    ],
)
def test_what_is_missing_damaged_or_of_another_run_is_named(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(folder)
    with pytest.raises((InputError, DatasetError), match=re.compile(message)):
        read_glt(folder)


class Book(Tensor):
    """A subclass of GLT's, by its name."""


Book.__module__, Book.__qualname__ = "graphlearn_torch.partition.base", "GLTPartitionBook"


def test_a_book_that_glt_has_given_a_class_of_its_own_is_a_tensor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(Book.__module__)
    module.GLTPartitionBook = Book  # type: ignore[attr-defined]
    for name in ("graphlearn_torch", "graphlearn_torch.partition"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, Book.__module__, module)
    wanted = torch.load(folder / "node_pb.pt", weights_only=True)
    torch.save(wanted.as_subclass(Book), folder / "node_pb.pt")
    monkeypatch.undo()
    found = glt_owners(folder).part[NODE]
    assert type(found) is Tensor
    assert torch.equal(found.long(), wanted)


def test_an_old_file_of_torch_is_read_too(folder: Path) -> None:
    file = folder / "part0" / "graph" / "rows.pt"
    torch.save(torch.load(file, weights_only=True), file, _use_new_zipfile_serialization=False)
    same_graph(read_glt(folder).tables, homogeneous())


class Claim:
    """A tensor of four entries whose pickle claims another shape."""

    def __init__(self, offset: Any, size: Any, stride: Any) -> None:
        self.claim = offset, size, stride

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (storage, _, _, _, *rest) = torch.arange(4.0).__reduce_ex__(2)
        return rebuild, (storage, *self.claim, *rest)


BEYOND = {
    "size": (0, (3_000_000_000,), (1,)),
    "one more": (0, (5,), (1,)),
    "offset": (4, (1,), (1,)),
    "stride": (0, (2,), (4,)),
    "two dimensions": (0, (2, 2), (2, 2)),
    "one entry many times": (0, (3_000_000_000,), (0,)),
    "negative offset": (-1, (2,), (1,)),
    "negative size": (0, (-2, -2), (1, 1)),
    "negative stride": (3, (2,), (-1,)),
    "fewer strides": (0, (2, 2), (1,)),
    "words": ("0", ("4",), ("1",)),
    "fractions": (3.5, (1,), (1,)),
    "past any integer": (0, (2**70,), (2**70,)),
}


@pytest.mark.parametrize("claim", BEYOND.values(), ids=BEYOND)
def test_a_pickled_tensor_stays_within_its_storage(tmp_path: Path, claim: tuple[Any, Any, Any]) -> None:
    file = tmp_path / "tensor.pkl"
    file.write_bytes(pickle.dumps(Claim(*claim)))
    with pytest.raises(InputError, match=r"tensor\.pkl is not read: .*; only tensors"):
        list(unpickled(file))


@pytest.mark.parametrize(
    "tensor", [torch.arange(4)[1:3], torch.arange(6).view(2, 3).T, torch.zeros(0, 3), torch.tensor(1.5), torch.arange(9)[::4]]
)
def test_views_and_empty_tensors_are_within_their_storage(tmp_path: Path, tensor: Tensor) -> None:
    (tmp_path / "tensor.pkl").write_bytes(pickle.dumps(tensor))
    (found,) = unpickled(tmp_path / "tensor.pkl")
    assert torch.equal(found, tensor)
