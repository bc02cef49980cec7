"""Partitions are written with all that a graph has, and read back; the file beside them is in DGL's schema."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
import halohop.dgl as dgl
from halohop.dgl.distributed import load_partition, load_partition_book, load_partition_feats, partition_graph
from halohop.errors import DatasetError, InputError
from tests.support.dgl_parts import plain_graph, typed_graph


def test_partitions_hold_every_node_edge_and_row_once(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    parts = halohop.describe(folder).num_parts
    for name in g.ntypes:
        rows = []
        for part in range(parts):
            graph, nodes, edges, book, called, ntypes, etypes = load_partition(folder / "it.json", part)
            assert (book.partid, called, ntypes, etypes) == (part, "it", g.ntypes, g.canonical_etypes)
            data = graph.nodes[name].data
            ids = data[dgl.NID][data["inner_node"].bool()]
            rows.append(ids)
            for column, whole in g.nodes[name].data.items():
                assert torch.equal(nodes[f"{name}/{column}"], whole[ids])
            for etype in g.canonical_etypes:
                of_edges = graph.edges[etype].data[dgl.EID].sort().values
                for column, whole in g.edges[etype].data.items():
                    assert torch.equal(edges[f"{':'.join(etype)}/{column}"], whole[of_edges])
            assert load_partition(folder / "it.json", part, load_feats=False)[1:3] == ({}, {})
            assert load_partition_feats(folder / "it.json", part, load_edges=False)[1] is None
        assert torch.equal(torch.cat(rows).sort().values, torch.arange(g.num_nodes(name)))


def test_the_file_counts_as_dgl_does(divided: tuple[dgl.DGLGraph, Path]) -> None:
    """Partition by partition and in each type by type, without a gap."""
    g, folder = divided
    config = json.loads((folder / "it.json").read_text())
    assert (config["num_nodes"], config["num_edges"], config["graph_name"]) == (g.num_nodes(), g.num_edges(), "it")
    assert config["ntypes"] == {name: number for number, name in enumerate(g.ntypes)}
    assert list(config["etypes"]) == [":".join(etype) for etype in g.canonical_etypes]
    for of_types, total in ((config["node_map"], g.num_nodes()), (config["edge_map"], g.num_edges())):
        ranges = [of_type[part] for part in range(config["num_parts"]) for of_type in of_types.values()]
        assert ranges[0][0] == 0
        assert ranges[-1][1] == total
        assert all(before[1] == after[0] for before, after in pairwise(ranges))
    for part in range(config["num_parts"]):
        assert (folder / config[f"part-{part}"]["part_graph"]).is_dir()
    for name, ranges in config["node_map"].items():
        book = load_partition_book(folder / "it.json", 0)[0]
        assert [len(book.partid2nids(part, name)) for part in range(len(ranges))] == [last - first for first, last in ranges]


def test_ids_stay_and_the_mapping_says_so(tmp_path: Path) -> None:
    nodes, edges = partition_graph(plain_graph(), "it", 2, tmp_path, part_method="random", return_mapping=True) or (None, None)
    assert torch.equal(nodes, torch.arange(60))
    assert torch.equal(edges, torch.arange(240))
    nodes, edges = partition_graph(typed_graph(), "it", 2, tmp_path, part_method="random", return_mapping=True) or (None, None)
    assert {name: len(ids) for name, ids in nodes.items()} == {"author": 30, "paper": 40, "venue": 1}
    assert edges["paper", "cites", "paper"].tolist() == [*range(120)]


def test_a_division_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    partition_graph(plain_graph(), "it", 2, tmp_path, part_method="random")
    with pytest.raises(InputError, match="num_parts=0"):
        partition_graph(typed_graph(), "it", 0, tmp_path, part_method="random")
    assert load_partition_book(tmp_path / "it.json", 0)[0].num_partitions() == 2


@pytest.mark.parametrize("balance", [None, "train_mask", "one"])
def test_metis_evens_out_what_it_is_asked_to(balance: str | None, tmp_path: Path) -> None:
    g = plain_graph(400, 1600)
    classes = {None: None, "train_mask": g.ndata["train_mask"], "one": torch.zeros(400)}[balance]
    partition_graph(g, "it", 4, tmp_path, balance_ntypes=classes, balance_edges=True)
    book = load_partition_book(tmp_path / "it.json", 0)[0]
    trained = [int(g.ndata["train_mask"][book.partid2nids(part)].sum()) for part in range(4)]
    assert max(trained) <= 1.1 * sum(trained) / 4
    assert max(part["num_edges"] for part in book.metadata()) <= 1.1 * 400


@pytest.mark.parametrize("method", ["metis", "ldg"])
def test_any_classes_are_evened_out(method: str, tmp_path: Path) -> None:
    """Those of a chain lie in four places, one behind the other: without them a part has nodes of two."""
    here = torch.arange(800)
    g = dgl.graph((here[:-1], here[1:]), num_nodes=800)
    g.nodes["_N"].data["feat"] = torch.zeros(800)
    classes = here // 200 * 10
    partition_graph(g, "it", 2, tmp_path, part_method=method, balance_ntypes=classes)
    book = load_partition_book(tmp_path / "it.json", 0)[0]
    for part in range(2):
        assert (classes[book.partid2nids(part)] // 10).bincount(minlength=4).max() <= 1.05 * 100


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"balance_ntypes": torch.arange(50), "part_method": "ldg"},
            r"balance_classes of 'node' is torch.int64 of shape \(50,\)",
        ),
        ({"balance_ntypes": torch.arange(60), "part_method": "ldg"}, "has 60 classes, and 32 can be balanced"),
        ({"balance_ntypes": {"paper": torch.zeros(60)}}, "balance_ntypes is of type 'paper', and node types are"),
        ({"part_method": "magic"}, "unknown method 'magic'"),
        ({"num_parts": 0}, "num_parts=0"),
        ({"graph_name": "a/b"}, "graph_name='a/b' is no name of a file"),
    ],
)
def test_what_cannot_be_is_refused_by_name(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        partition_graph(
            plain_graph(), **({"graph_name": "it", "num_parts": 2, "out_path": tmp_path, "part_method": "random"} | given)
        )


def test_options_that_change_nothing_are_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="num_trainers_per_machine changes nothing here: node_split deals"):
        partition_graph(plain_graph(), "it", 2, tmp_path, part_method="random", num_trainers_per_machine=2)


def test_files_that_are_none_of_ours_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dgl.json").write_text(json.dumps({"num_parts": 2, "graph_name": "products"}))
    with pytest.raises(InputError, match=r"is of DGL's own partitions; convert them: halohop partition 'dgl:.*dgl.json' OUT"):
        load_partition_book(tmp_path / "dgl.json", 0)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(DatasetError, match="cannot be read as JSON"):
        load_partition_book(tmp_path / "bad.json", 0)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="has no 'num_parts'"):
        load_partition_book(tmp_path / "other.json", 0)
    partition_graph(plain_graph(), "it", 2, tmp_path / "parts", part_method="random")
    with pytest.raises(InputError, match="part_id=2 is none of the partitions 0 to 1"):
        load_partition_book(tmp_path / "parts/it.json", 2)
