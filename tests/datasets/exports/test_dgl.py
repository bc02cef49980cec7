"""Data sets as DGL's partitions: read back by our reader always, and by DGL 1.1.3 and 2.1 where they are installed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import halohop
from halohop.datasets import dgl_owners, read_dgl, write_dgl
from halohop.datasets.exports import dgl_columns
from halohop.errors import HalohopError
from halohop.launch.cli import app
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import EDGE, NODE, RAW_TEXT
from tests.support.featured import featured_tables, random_parts
from tests.support.real_dgl import real_dgl

DTYPES = (torch.float16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool)
DGL_2 = Path(os.environ.get("HALOHOP_BENCH_DGL", Path(__file__).parents[3] / ".bench" / "dgl")) / "bin" / "python"

LOADS = """
import os, sys
os.environ.update(DGL_DIST_DEBUG="1", DGL_DIST_MODE="standalone", DGLBACKEND="pytorch")
import dgl, torch
from dgl.data.utils import load_tensors
config, count, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
found = []
for part in range(count):
    g, nodes, edges, book, name, _, _ = dgl.distributed.load_partition(config, part)
    src, dst = g.edges(order="eid")
    node_type, node = book.map_to_per_ntype(g.ndata[dgl.NID])
    edge_type, edge = book.map_to_per_etype(g.edata[dgl.EID])
    folder = os.path.join(os.path.dirname(config), f"part{part}")
    found.append({
        "ends": torch.stack([src, dst]), "node_type": node_type, "node": node, "edge_type": edge_type, "edge": edge,
        "nodes": nodes, "edges": edges, "owner": book.nid2partid(g.ndata[dgl.NID]),
        "edge_owner": book.eid2partid(g.edata[dgl.EID]),
        "part_id": g.ndata["part_id"], "inner_node": g.ndata["inner_node"], "inner_edge": g.edata["inner_edge"], "name": name,
        "types": (g.ndata.get("_TYPE"), g.edata.get("_TYPE")), "in_degrees": g.in_degrees(),
        "old_nodes": load_tensors(folder + "/orig_nids.dgl"), "old_edges": load_tensors(folder + "/orig_eids.dgl"),
    })
whole = {}
if count == 1:
    dgl.distributed.initialize("none.txt")
    dist = dgl.distributed.DistGraph(found[0]["name"], part_config=config)
    for ntype in dist.ntypes:
        rows = torch.arange(dist.num_nodes(ntype))
        whole.update({f"{ntype}/{column}": data[rows] for column, data in dist.nodes[ntype].data.items()})
    for etype in dist.canonical_etypes:
        rows = torch.arange(len(found[0]["old_edges"][":".join(etype)]))
        whole.update({f"{':'.join(etype)}/{column}": data[rows] for column, data in dist.edges[etype].data.items()})
    if len(dist.ntypes) == 1 and len(dist.canonical_etypes) == 1:
        whole["degrees"] = dist.in_degrees(torch.arange(dist.num_nodes())), dist.out_degrees(torch.arange(dist.num_nodes()))
        whole["drawn"] = dgl.distributed.sample_neighbors(dist, torch.arange(dist.num_nodes()), -1).num_edges()
torch.save((found, whole), out)
"""


def pairs(src: int, dst: int, count: int, seed: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return torch.randint(src, (count,), generator=chance), torch.randint(dst, (count,), generator=chance)


def columns(count: int, dtypes: tuple[torch.dtype, ...] = DTYPES) -> dict[str, Tensor]:
    """One of each dtype that DGL knows, of several shapes."""
    rows = torch.arange(count * 3).view(count, 3) % 7
    found = {str(dtype)[6:]: rows.to(dtype) for dtype in dtypes}
    return found | {"feat": torch.rand(count, 2, 2), "label": torch.arange(count) % 3, "train_mask": torch.arange(count) % 2 == 0}


def plain() -> GraphTables:
    """With parallel edges, loops, and columns that DGL's reader would call otherwise."""
    src, dst = pairs(20, 18, 70, 1)
    edges = EdgeTable(src=src, dst=dst, columns={"feat": torch.rand(70, 2).half(), "w": torch.rand(70, dtype=torch.float64)})
    return GraphTables(nodes={NODE: NodeTable(num_nodes=20, columns=columns(20))}, edges={EDGE: edges})


def typed() -> GraphTables:
    """Two relations of the same types, one without edges, a type of one node, ids of the user's own."""
    ends = {("user", "buys", "item"): pairs(12, 9, 40, 2), ("user", "likes", "item"): pairs(12, 9, 30, 3)}
    ends |= {("item", "at", "shop"): pairs(9, 1, 9, 4), ("shop", "rev_at", "item"): pairs(1, 9, 0, 5)}
    return GraphTables(
        nodes={
            "user": NodeTable(num_nodes=12, columns=columns(12)),
            "item": NodeTable(num_nodes=9, columns={"year": torch.arange(9).int()}, raw_id=torch.arange(9).flip(0) * 100),
            "shop": NodeTable(num_nodes=1),
        },
        edges={
            relation: EdgeTable(src=src, dst=dst, columns={"price": torch.rand(len(src))} if relation[1] == "buys" else {})
            for relation, (src, dst) in ends.items()
        },
    )


def owners(tables: GraphTables, parts: int) -> dict[str, Tensor]:
    """The second partition has nothing."""
    used = torch.tensor([part for part in range(parts) if part != 1])
    return {name: used[torch.arange(nodes.num_nodes) % len(used)] for name, nodes in tables.nodes.items()}


def by_id(tables: GraphTables) -> GraphTables:
    """The same graph with its nodes in the order of their ids."""
    orders = {
        name: torch.arange(nodes.num_nodes) if nodes.raw_id is None else nodes.raw_id.argsort()
        for name, nodes in tables.nodes.items()
    }
    return GraphTables(
        nodes={
            name: NodeTable(
                num_nodes=nodes.num_nodes,
                columns={column: rows.to_dense()[orders[name]] for column, rows in nodes.columns.items()},
                raw_id=None if nodes.raw_id is None else nodes.raw_id[orders[name]],
            )
            for name, nodes in tables.nodes.items()
        },
        edges={
            relation: EdgeTable(
                src=orders[relation[0]].argsort()[edges.src.long()],
                dst=orders[relation[2]].argsort()[edges.dst.long()],
                columns=edges.columns,
            )
            for relation, edges in tables.edges.items()
        },
    )


def same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert set(found) == set(wanted)
    for name, rows in wanted.items():
        assert found[name].dtype == rows.dtype, name
        assert torch.equal(found[name], rows), name


def written(tables: GraphTables, parts: int, folder: Path, **options: Any) -> Path:
    if parts == 1:  # where each partition has rows of them
        for nodes in tables.nodes.values():
            nodes.columns["halves"] = torch.arange(nodes.num_nodes).to(torch.bfloat16)
    halohop.partition(tables, folder / "parts", num_parts=parts, method=owners(tables, parts), **options)
    return write_dgl(folder / "parts", folder / "dgl", name="graph")


def check(config: Path, tables: GraphTables) -> None:
    """What our reader finds is the graph, and its owners are those of before."""
    found, wanted = read_dgl(config).tables, by_id(tables)
    assert list(found.nodes) == list(wanted.nodes)
    assert list(found.edges) == list(wanted.edges)
    for name, nodes in wanted.nodes.items():
        assert found.nodes[name].num_nodes == nodes.num_nodes
        raw, before = (
            torch.arange(table.num_nodes) if table.raw_id is None else table.raw_id for table in (found.nodes[name], nodes)
        )
        assert torch.equal(raw, before)
        same(found.nodes[name].columns, nodes.columns)
    for relation, edges in wanted.edges.items():
        assert torch.equal(found.edges[relation].src, edges.src.long())
        assert torch.equal(found.edges[relation].dst, edges.dst.long())
        same(found.edges[relation].columns, edges.columns)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("make", [plain, typed])
def test_our_reader_finds_the_graph_of_before(make: Any, parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dgl_columns, "CHUNK_BYTES", 64)  # several pieces of everything
    tables = make()
    config = written(tables, parts, tmp_path)
    assert config == tmp_path / "dgl" / "graph.json"
    assert {path.name for path in (tmp_path / "dgl").iterdir()} == {"graph.json", *(f"part{part}" for part in range(parts))}
    check(config, tables)
    for name, part in owners(by_id(tables), parts).items():
        order = tables.nodes[name].raw_id
        ours = part if order is None else owners(tables, parts)[name][order.argsort()]
        assert torch.equal(dgl_owners(config).part[name], ours.int())


def test_narrowed_and_sparse_columns_are_written_as_they_were_given(tmp_path: Path) -> None:
    dense = (torch.arange(40).view(10, 4) % 5 == 0).float()
    nodes = NodeTable(num_nodes=10, columns={"words": dense.to_sparse(), "x": dense + 0.5})
    tables = GraphTables(nodes={NODE: nodes}, edges={EDGE: EdgeTable(src=torch.arange(9), dst=torch.arange(1, 10))})
    check(written(tables, 2, tmp_path, feature_dtype="float16"), tables)


@pytest.mark.parametrize("seed", [seed for seed in range(9) if featured_tables(seed).edges])
def test_any_graph_that_dgl_knows(seed: int, tmp_path: Path) -> None:
    tables = featured_tables(seed)
    tables = GraphTables(
        nodes={
            name: NodeTable(
                num_nodes=nodes.num_nodes,
                raw_id=nodes.raw_id,
                columns={column: rows for column, rows in nodes.columns.items() if rows.dtype in DTYPES and column != RAW_TEXT},
            )
            for name, nodes in tables.nodes.items()
        },
        edges={
            relation: EdgeTable(
                src=edges.src,
                dst=edges.dst,
                columns={column: rows for column, rows in edges.columns.items() if rows.dtype in DTYPES},
            )
            for relation, edges in tables.edges.items()
        },
    )
    halohop.partition(tables, tmp_path / "parts", num_parts=3, method=random_parts(tables, 3, seed))
    check(write_dgl(tmp_path / "parts", tmp_path / "dgl"), tables)


def test_the_command(tmp_path: Path) -> None:
    tables = plain()
    halohop.partition(tables, tmp_path / "parts", num_parts=2, method="random")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "parts"), str(tmp_path / "dgl"), "--name", "shop"])
    assert done.exit_code == 0, done.output
    check(tmp_path / "dgl" / "shop.json", tables)
    again = CliRunner().invoke(app, ["export", str(tmp_path / "parts"), str(tmp_path / "dgl")])
    assert again.exit_code != 0
    check(tmp_path / "dgl" / "shop.json", tables)


def test_what_dgl_has_not_is_refused_by_name(tmp_path: Path) -> None:
    def refused(message: str, column: str = "x", dtype: torch.dtype = torch.float32, node: str = "n", **options: Any) -> None:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        tables = GraphTables(
            nodes={node: NodeTable(num_nodes=3, columns={column: torch.ones(3, 2).to(dtype)})},
            edges={(node, "to", node): EdgeTable(src=torch.tensor([0, 1]), dst=torch.tensor([1, 2]))},
        )
        name = options.pop("name", None)
        halohop.partition(tables, folder / "parts", num_parts=2, method="random", **options)
        with pytest.raises(HalohopError, match=message):
            write_dgl(folder / "parts", folder / "dgl", name=name)
        assert not (folder / "dgl").exists()

    refused("column 'x' of n is complex64, which DGL has not", dtype=torch.complex64)
    refused("column 'a/b' has a '/'", column="a/b")
    refused("type 'a:b' has a ':'", node="a:b")
    with pytest.raises(HalohopError, match="has no relation"):
        written(GraphTables(nodes={"n": NodeTable(num_nodes=3)}, edges={}), 1, tmp_path / "nodes")
    few = NodeTable(num_nodes=3, columns={"x": torch.ones(3, 2).bfloat16()})
    tables = GraphTables(nodes={NODE: few}, edges={EDGE: EdgeTable(src=torch.tensor([0]), dst=torch.tensor([1]))})
    with pytest.raises(HalohopError, match=r"no numbers of the bfloat16 column 'x' of node, which DGL does not load"):
        written(tables, 3, tmp_path / "halves")
    refused("lists of out-edges", edge_dir="out")
    refused("name='../up' is no name of a file", name="../up")
    halohop.partition(plain(), tmp_path / "some", num_parts=2, method="random")
    for file in sorted((tmp_path / "some" / "part-0001").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    (tmp_path / "some" / "part-0001").rmdir()
    with pytest.raises(HalohopError, match="partition 1 is not in"):
        write_dgl(tmp_path / "some", tmp_path / "out")


@pytest.mark.timeout(240)
@pytest.mark.parametrize("version", ["1.1.3", pytest.param("2.1", marks=pytest.mark.full)])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("make", [plain, typed])
def test_dgl_loads_every_partition(make: Any, parts: int, version: str, tmp_path: Path) -> None:
    if version == "2.1" and not DGL_2.is_file():
        pytest.skip("DGL 2.1 is not installed in .bench/dgl")
    if version == "1.1.3":
        real_dgl()
    tables = make()
    config = written(tables, parts, tmp_path)
    command = [str(DGL_2) if version == "2.1" else sys.executable, "-W", "ignore", "-c", LOADS, str(config), str(parts)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*command, str(tmp_path / "found.pt")], capture_output=True, text=True, env=env, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    found, whole = torch.load(tmp_path / "found.pt", weights_only=True)
    names = {name: "_N" if name == NODE else name for name in tables.nodes}
    relations = {relation: "_N:_E:_N" if relation == EDGE else ":".join(relation) for relation in tables.edges}
    raw = {name: torch.arange(nodes.num_nodes) if nodes.raw_id is None else nodes.raw_id for name, nodes in tables.nodes.items()}
    old = {name: torch.cat([part["old_nodes"][text] for part in found]) for name, text in names.items()}
    old_edges = {relation: torch.cat([part["old_edges"][text] for part in found]) for relation, text in relations.items()}
    seen = {relation: [] for relation in tables.edges}
    for number, part in enumerate(found):
        inner, own = part["inner_node"].bool(), part["inner_edge"].bool()
        assert part["name"] == "graph"
        assert torch.equal(part["owner"], part["part_id"])
        assert torch.equal(part["owner"] == number, inner)
        assert torch.equal(part["edge_owner"] == number, own)
        src, dst = part["ends"]
        assert torch.equal(inner[dst], own)  # an edge is its destination's
        assert bool((inner[src] | inner[dst]).all())
        if len(tables.nodes) > 1:
            assert torch.equal(part["types"][0].long(), part["node_type"])
            assert torch.equal(part["types"][1].long(), part["edge_type"])
        for kind, (relation, edges) in enumerate(tables.edges.items()):
            mine = part["edge_type"] == kind
            ids = old_edges[relation][part["edge"][mine]]
            seen[relation].append(ids[own[mine]])
            for end, name, wanted in ((src, relation[0], edges.src), (dst, relation[2], edges.dst)):
                assert bool((part["node_type"][end[mine]] == list(names).index(name)).all())
                assert torch.equal(old[name][part["node"][end[mine]]], raw[name][wanted[ids]])
            leaving = raw[relation[0]][edges.src][ids[~own[mine]]]  # copies: all edges from its nodes to others'
            away = torch.isin(raw[relation[0]][edges.src], part["old_nodes"][names[relation[0]]])
            away &= ~torch.isin(raw[relation[2]][edges.dst], part["old_nodes"][names[relation[2]]])
            assert torch.equal(leaving.sort().values, raw[relation[0]][edges.src][away].sort().values)
    assert all(
        torch.equal(torch.cat(ids).sort().values, torch.arange(len(ids_of.src)))
        for ids, ids_of in zip(seen.values(), tables.edges.values(), strict=True)
    )
    for table, text, kind in (*((n, t, "nodes") for n, t in names.items()), *((r, t, "edges") for r, t in relations.items())):
        for column, rows in (tables.nodes[table] if kind == "nodes" else tables.edges[table]).columns.items():
            for part in found:
                ids = part["old_nodes" if kind == "nodes" else "old_edges"][text]
                places = torch.argsort(raw[table])[torch.searchsorted(raw[table].sort().values, ids)] if kind == "nodes" else ids
                wanted = rows[places].byte() if rows.dtype == torch.bool else rows[places]
                same({"": part[kind][f"{text}/{column}"]}, {"": wanted})
                if parts == 1:
                    same({"": whole[f"{text}/{column}"]}, {"": wanted})
    if parts == 1 and "degrees" in whole:
        edges = tables.edges[EDGE]
        assert whole["drawn"] == edges.num_edges
        for degrees, ends in zip(whole["degrees"], (edges.dst, edges.src), strict=True):
            assert torch.equal(degrees, torch.bincount(ends, minlength=20)[old[NODE]])
