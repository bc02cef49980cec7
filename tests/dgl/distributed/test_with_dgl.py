"""Partitions both ways, with DGL 2.1 in an environment of its own: .bench/dgl, or what HALOHOP_BENCH_DGL names."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import halohop.dgl as dgl
from halohop.dgl.distributed import DistGraph, partition_graph
from tests.support.dgl_parts import plain_graph, typed_graph

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("HALOHOP_BENCH_DGL", ROOT / ".bench" / "dgl")) / "bin" / "python"

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not PYTHON.is_file(), reason="DGL 2.1 is not installed in .bench/dgl"),
]

READS = """
import json, sys
from dgl.distributed import load_partition_book
found = {}
for part in range(int(sys.argv[2])):
    book, name, ntypes, etypes = load_partition_book(sys.argv[1], part)
    nodes = {ntype: len(book.partid2nids(part, ntype)) for ntype in ntypes}
    edges = {":".join(etype): len(book.partid2eids(part, etype)) for etype in etypes}
    found[part] = {"name": name, "nodes": nodes, "edges": edges, "partitions": book.num_partitions()}
json.dump(found, open(sys.argv[3], "w"))
"""

WRITES = """
import sys
import dgl, torch
given = torch.load(sys.argv[1])
g = dgl.heterograph(given["ends"], given["counts"])
for ntype, columns in given["nodes"].items():
    for name, rows in columns.items():
        g.nodes[ntype].data[name] = rows
for etype, columns in given["edges"].items():
    for name, rows in columns.items():
        g.edges[etype].data[name] = rows
nodes, edges = dgl.distributed.partition_graph(g, "theirs", 2, sys.argv[2], part_method="random", return_mapping=True)
torch.save({"nodes": nodes, "edges": edges}, sys.argv[3])
"""


def with_dgl(script: str, *arguments: object) -> None:
    command = [str(PYTHON), "-c", script, *map(str, arguments)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"DGLBACKEND": "pytorch"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=200, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [plain_graph, typed_graph])
def test_dgl_reads_our_partition_book(kind, tmp_path: Path) -> None:
    g = kind()
    partition_graph(g, "ours", 3, tmp_path, part_method="random")
    with_dgl(READS, tmp_path / "ours.json", 3, tmp_path / "found.json")
    dist = DistGraph("ours", part_config=tmp_path / "ours.json")
    book = dist.get_partition_book()
    for part, found in json.loads((tmp_path / "found.json").read_text()).items():
        assert (found["name"], found["partitions"]) == ("ours", 3)
        assert found["nodes"] == {name: len(book.partid2nids(int(part), name)) for name in g.ntypes}
        assert found["edges"] == {":".join(etype): len(book.partid2eids(int(part), etype)) for etype in g.canonical_etypes}
    dgl.distributed.exit_client()


def without_small_types() -> dgl.DGLGraph:
    """The typed graph without its type of one node, which DGL 2.1 does not divide in two."""
    g = typed_graph()
    kept = [etype for etype in g.canonical_etypes if g.num_edges(etype)]
    found = dgl.heterograph({etype: g.edges(etype=etype) for etype in kept}, {"author": 30, "paper": 40})
    for name in found.ntypes:
        for column, rows in g.nodes[name].data.items():
            found.nodes[name].data[column] = rows
    found.edges["cites"].data["w"] = g.edges["cites"].data["w"]
    return found


@pytest.mark.parametrize("kind", [plain_graph, without_small_types])
def test_we_read_what_dgl_wrote(kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ids that DGL gave, which its mapping leads back to those from before."""
    g = kind()
    given = {
        "ends": {etype: g.edges(etype=etype) for etype in g.canonical_etypes},
        "counts": {name: g.num_nodes(name) for name in g.ntypes},
        "nodes": {name: dict(g.nodes[name].data) for name in g.ntypes},
        "edges": {etype: dict(g.edges[etype].data) for etype in g.canonical_etypes},
    }
    torch.save(given, tmp_path / "given.pt")
    with_dgl(WRITES, tmp_path / "given.pt", tmp_path / "theirs", tmp_path / "mapping.pt")
    monkeypatch.setattr(sys, "argv", ["convert.py", str(tmp_path / "theirs/theirs.json"), str(tmp_path / "ours")])
    runpy.run_path(str(ROOT / "examples" / "dgl" / "convert.py"), run_name="__main__")
    dist = DistGraph("theirs", part_config=tmp_path / "ours/theirs.json")
    mapping = torch.load(tmp_path / "mapping.pt", weights_only=True)
    old_nodes, old_edges = mapping["nodes"], mapping["edges"]
    if g.is_homogeneous:
        old_nodes, old_edges = {"_N": old_nodes}, {("_N", "_E", "_N"): old_edges}
    assert sorted(dist.ntypes) == sorted(g.ntypes)
    for name in g.ntypes:
        for column, rows in g.nodes[name].data.items():
            found = dist.nodes[name].data[column][torch.arange(g.num_nodes(name))]
            assert torch.equal(found.to(rows.dtype), rows[old_nodes[name]])
    for etype in g.canonical_etypes:
        src, dst = dist.find_edges(torch.arange(g.num_edges(etype)), etype)
        ours = torch.stack([old_nodes[etype[0]][src], old_nodes[etype[2]][dst]])
        assert torch.equal(ours, torch.stack(g.find_edges(old_edges[etype], etype)))
    dgl.distributed.exit_client()
