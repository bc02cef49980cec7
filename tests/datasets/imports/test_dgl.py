"""Partitions that DGL 1.1.3 and 2.1.0 wrote, and what they were made of: see make_dgl_partitions.py."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import halohop
from halohop.datasets import dgl_owners, read_dgl
from halohop.datasets.estimate import source_bytes
from halohop.datasets.imports import dgl
from halohop.datasets.imports.dgl_files import read_graph
from halohop.datasets.sizing import source_sizes
from halohop.datasets.staging import Staging
from halohop.errors import DatasetError, HalohopError, InputError
from halohop.partitioning.planning.sizes import GraphSizes
from halohop.typing import EDGE, NODE
from tests.support.archives import unpack

HERE = Path(__file__).parent
VERSIONS = ("1.1.3", "2.1.0")
WITHOUT_IDS, WITH_IDS = ("homogeneous", "by-source", "one", "typed"), ("compressed", "typed-with-ids")
RENAMED = {"feat": "x", "label": "y"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dgl")
    for version in VERSIONS:
        unpack(HERE / f"dgl-{version}.tar.xz", folder / version)
    return folder


@pytest.fixture
def typed(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(written / "2.1.0" / "typed", tmp_path / "typed"))


def original(folder: Path) -> dict[str, dict[str, Tensor]]:
    """By table, its columns before DGL divided the graph, its "ends", and "old": for each id of DGL's, the one before."""
    tables: dict[str, dict[str, Tensor]] = {}
    for key, array in np.load(folder / "original.npz").items():
        kind, table, *name = key.split("/")
        tables.setdefault(table, {})[name[0] if name else kind] = torch.from_numpy(array)
    return tables


def same_rows(found: dict[str, Tensor], wanted: dict[str, Tensor], old: Tensor, renamed: dict[str, str]) -> None:
    names = {renamed.get(name, name): name for name in wanted if name not in ("old", "ends")}
    assert set(found) == set(names)
    for ours, theirs in names.items():
        assert found[ours].dtype == wanted[theirs].dtype
        assert torch.equal(found[ours], wanted[theirs][old]), ours


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", WITHOUT_IDS + WITH_IDS)
def test_every_node_edge_and_column_is_that_of_the_graph_before(written: Path, version: str, name: str) -> None:
    folder = written / version / name
    imported, before = read_dgl(folder / "graph.json"), original(folder)
    # The ids that our nodes and edges have, as ids from before: those themselves, or what DGL made of them.
    old = {table: torch.arange(len(parts["old"])) if name in WITH_IDS else parts["old"] for table, parts in before.items()}
    for node_type, nodes in imported.tables.nodes.items():
        table = "_N" if node_type == NODE else node_type
        assert nodes.num_nodes == len(old[table])
        same_rows(nodes.columns, before[table], old[table], RENAMED)
    for relation, edges in imported.tables.edges.items():
        table = "_N:_E:_N" if relation == EDGE else ":".join(relation)
        src_type, _, dst_type = table.split(":")
        src, dst = before[table]["ends"][:, old[table]]
        assert torch.equal(old[src_type][edges.src], src)
        assert torch.equal(old[dst_type][edges.dst], dst)
        same_rows(edges.columns, before[table], old[table], {"feat": "edge_attr"})
    assert len(imported.tables.edges) == sum(":" in table for table in before)


@pytest.mark.parametrize("name", WITHOUT_IDS + WITH_IDS)
def test_nodes_stay_where_they_are(written: Path, name: str) -> None:
    folder = written / "2.1.0" / name
    config, before, owners = json.loads((folder / "graph.json").read_text()), original(folder), dgl_owners(folder / "graph.json")
    assert owners.num_parts == config["num_parts"]
    for node_type, part in owners.part.items():
        table = "_N" if node_type == NODE else node_type
        wanted = torch.repeat_interleave(torch.tensor([last - first for first, last in config["node_map"][table]])).int()
        assert torch.equal(part[before[table]["old"]] if name in WITH_IDS else part, wanted)
    report = halohop.partition(
        read_dgl(folder / "graph.json").tables, folder.parent / f"{name}-ours", num_parts=owners.num_parts, method=owners.part
    )
    assert [part.edges for part in report.parts] == [
        sum(ranges[part][1] - ranges[part][0] for ranges in config["edge_map"].values()) for part in range(owners.num_parts)
    ]


@pytest.mark.parametrize("name", ["typed", "typed-with-ids", "one"])
def test_a_graph_larger_than_memory_is_read_into_files(written: Path, tmp_path: Path, name: str) -> None:
    wanted = read_dgl(written / "2.1.0" / name / "graph.json").tables
    for _ in range(2):  # the second time, as after a kill, what is finished is there
        staging = Staging(folder=tmp_path / name, chunk_bytes=100)
        found = read_dgl(written / "2.1.0" / name / "graph.json", staging=staging).tables
        for table in (*wanted.nodes, *wanted.edges):
            ours, theirs = (tables.nodes.get(table) or tables.edges[table] for tables in (found, wanted))
            assert set(ours.columns) == set(theirs.columns)
            for column, values in theirs.columns.items():
                assert torch.equal(ours.columns[column], values)
        for relation, edges in wanted.edges.items():
            assert torch.equal(found.edges[relation].src, edges.src)
            assert torch.equal(found.edges[relation].dst, edges.dst)
    mapped = Path("/proc/self/maps").read_text()
    assert name == "one" or str(tmp_path / name) in mapped


@pytest.mark.parametrize("name", WITHOUT_IDS + WITH_IDS)
def test_sizes_are_known_before_rows_are_read(written: Path, name: str) -> None:
    source = f"dgl:{written}/2.1.0/{name}/graph.json"
    found, wanted = source_sizes(source), GraphSizes.of(halohop.load_source(source))
    assert (found.nodes, found.edges) == (wanted.nodes, wanted.edges)
    assert found.read_bytes > 0
    assert source_bytes(source) >= found.read_bytes


def test_labels_and_splits_lie_beside(typed: Path) -> None:
    np.save(typed / "ids.npy", np.array([3, 1]))
    torch.save(torch.arange(12) % 4, typed / "group.pt")
    tables = halohop.load_source(f"dgl:{typed}/graph.json?user:val_mask={typed}/ids.npy&user:group={typed}/group.pt")
    assert tables.nodes["user"].columns["val_mask"].nonzero().flatten().tolist() == [1, 3]
    assert tables.nodes["user"].columns["group"].tolist() == [0, 1, 2, 3] * 3
    for query, message in (
        ("group=group.pt", r"of which of the node types \['item', 'shop', 'user'\]"),
        ("group:y=group.pt", "no node type 'group'"),
        (f"item:y={typed}/ids.npy", r"has shape \(2,\), but there are 12 nodes of type 'item'"),
        (f"user:val_mask={typed}/absent.npy", "there is no file"),
    ):
        with pytest.raises(HalohopError, match=message):
            halohop.load_source(f"dgl:{typed}/graph.json?{query}")


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def without_magic(file: Path) -> None:
    file.write_bytes(bytes(8) + file.read_bytes()[8:])


@pytest.mark.parametrize("file", ["part1/graph.dgl", "part1/node_feat.dgl", "part2/edge_feat.dgl"])
def test_a_file_that_is_missing_or_damaged_is_named(typed: Path, file: str) -> None:
    whole = (typed / file).read_bytes()
    for damage, message in (
        (Path.unlink, "there is no file .*; copy the whole folder"),
        (cut_in_half, "ends early, after .* bytes; copy it again"),
        (without_magic, "is not a file of .* that DGL 0.5 or newer wrote"),
    ):
        (typed / file).write_bytes(whole)
        damage(typed / file)
        with pytest.raises((InputError, DatasetError), match=message) as caught:
            read_dgl(typed / "graph.json")
        assert file in str(caught.value)


def changed(config: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    return {name: entry for name, entry in {**config, key: value}.items() if entry is not None}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_parts", 4, "has ranges of item for 3 of 4 partitions"),
        ("num_nodes", 99, "says there are 99 nodes, but its ranges do not cover 0 to 98"),
        ("num_edges", 1, "says there are 1 edges"),
        ("node_map", "map.npy", r"keeps its nodes in another file, map\.npy"),
        ("node_map", {"user": 3}, "is not what DGL writes"),
        ("node_map", None, "has no 'node_map'"),
        ("edge_map", {"follows": [[0, 87], [87, 87], [87, 87]]}, "edge type 'follows' in an old form; DGL's tools/change_etype"),
        ("part-1", {"part_graph_graphbolt": "part1/fused_csc_sampling_graph.pt"}, "partition 1; .*use_graphbolt=False"),
        ("part-1", {}, "names no graph.dgl of partition 1; copy it again"),
        ("part-1", {"part_graph": "part1\0/graph.dgl"}, "the files of partition 1 are called .*; copy it again"),
        ("part-1", {"part_graph": 5}, "the files of partition 1 are called"),
        ("num_parts", "3", "num_parts is '3'; copy it again"),
        ("num_parts", 3.0, "num_parts is 3.0; copy it again"),
        ("num_nodes", "x", "num_nodes is 'x'; copy it again"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(typed: Path, key: str, value: Any, message: str) -> None:
    file = typed / "graph.json"
    file.write_text(json.dumps(changed(json.loads(file.read_text()), key, value)))
    with pytest.raises(InputError, match=message):
        read_dgl(file)


@pytest.mark.parametrize("key", ["part_graph", "node_feats", "edge_feats"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../../../../../../../../../../etc/passwd", "is not a file of (graphs|tensors)"),
        ("/etc/passwd", "is not a file of (graphs|tensors)"),
        ("/dev/zero", "is no regular file"),
        ("pipe", "is no regular file"),
        (".", "is no regular file"),
        ("loop", "cannot be read"),
        ("a" * 5000, "cannot be read"),
        ("huge", "is not a file of (graphs|tensors)"),
    ],
)
def test_hostile_paths_in_a_configuration_are_named_and_not_waited_for(typed: Path, key: str, path: str, message: str) -> None:
    os.mkfifo(typed / "pipe")
    (typed / "loop").symlink_to("loop")
    with (typed / "huge").open("wb") as file:
        file.truncate(2**40)
    config = json.loads((typed / "graph.json").read_text())
    (typed / "graph.json").write_text(json.dumps(changed(config, "part-1", {**config["part-1"], key: path})))
    with pytest.raises((InputError, DatasetError), match=message):
        read_dgl(typed / "graph.json")


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 1000, "[]", "null", '{"num_parts": 1e999}', "9" * 6000, "\xff", ""])
def test_a_hostile_configuration_is_named(typed: Path, text: str) -> None:
    (typed / "graph.json").write_text(text)
    with pytest.raises((InputError, DatasetError), match=r"graph\.json"):
        read_dgl(typed / "graph.json")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda graph: replace(graph, src=graph.src + 10**6), r"part0/graph\.dgl has edges with nodes \d+ to 10\d+"),
        (lambda graph: replace(graph, dst=graph.dst - 10**6), r"part0/graph\.dgl has edges with nodes -\d+ to \d+"),
        (lambda graph: replace(graph, src=graph.src[:-1]), r"part0/graph\.dgl has \d+ edges, but not one id for each"),
    ],
)
def test_a_graph_that_does_not_fit_its_own_ids_is_refused(
    typed: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Any], Any], message: str
) -> None:
    monkeypatch.setattr(dgl, "read_graph", lambda file: damage(read_graph(file)))
    with pytest.raises(InputError, match=message):
        read_dgl(typed / "graph.json")


def test_partitions_of_another_graph_do_not_mix(written: Path, typed: Path) -> None:
    shutil.copy(written / "2.1.0" / "homogeneous" / "part1" / "graph.dgl", typed / "part1" / "graph.dgl")
    with pytest.raises(InputError, match="copy the whole folder"):
        read_dgl(typed / "graph.json")
    with pytest.raises(DatasetError, match=r"there is no file .*absent\.json; name the JSON file"):
        read_dgl(typed / "absent.json")


def test_ranges_of_old_versions_are_their_ends(written: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written / "1.1.3" / "homogeneous", tmp_path / "old"))
    file, wanted = folder / "graph.json", read_dgl(folder / "graph.json")
    config = json.loads(file.read_text())
    for key in ("node_map", "edge_map"):
        (ranges,) = config[key].values()
        config[key] = [last for _, last in ranges]
    file.write_text(json.dumps(config))
    assert torch.equal(read_dgl(file).tables.edges[EDGE].src, wanted.tables.edges[EDGE].src)
    assert torch.equal(read_dgl(file).owners.part[NODE], wanted.owners.part[NODE])
