"""Partitions of a folder, read back: what was given, once each, and the batches of the folder when they are opened together."""

import shutil
from pathlib import Path

import pytest
import torch

import halohop
from halohop.errors import InputError, SchemaError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.graphs import power_law
from halohop.testing.worlds import hosts
from halohop.typing import EDGE, NODE

WRITES = ("author", "writes", "paper")


def tables() -> GraphTables:
    generator = torch.Generator().manual_seed(3)
    ends = [torch.randint(count, (150,), generator=generator) for count in (30, 50)]
    words = torch.zeros(50, 6)
    words[torch.arange(50), torch.arange(50) % 6] = 1.0
    papers = {"x": torch.rand(50, 3, generator=generator), "words": words.to_sparse(), "train_mask": torch.arange(50) < 20}
    papers["topic"] = torch.arange(50) % 2
    return GraphTables(
        nodes={
            "author": NodeTable(num_nodes=30),
            "paper": NodeTable(num_nodes=50, columns=papers, names={"topic": ("old", "new")}),
        },
        edges={
            WRITES: EdgeTable(src=ends[0], dst=ends[1], columns={"weight": torch.rand(150, generator=generator)}),
            ("paper", "cites", "paper"): EdgeTable(src=ends[1].flip(0), dst=ends[1].roll(7)),
        },
    )


@pytest.mark.parametrize("edge_dir", ["in", "out"])
@pytest.mark.parametrize(("num_parts", "method"), [(1, "random"), (3, "random"), (2, "range")])
def test_everything_is_read_back_once(tmp_path: Path, edge_dir: str, num_parts: int, method: str) -> None:
    given = tables()
    halohop.partition(given, tmp_path / "parts", num_parts=num_parts, method=method, edge_dir=edge_dir)
    parts = [halohop.slices.read_partition(tmp_path / "parts", part) for part in range(num_parts)]
    for name, table in given.nodes.items():
        ids = torch.cat([part.nodes[name].id for part in parts])
        assert torch.equal(ids.sort().values, torch.arange(table.num_nodes))
        assert list(parts[0].nodes[name].columns) == list(table.columns)
        for key, column in table.columns.items():
            rows = torch.cat([part.nodes[name].columns[key].to_dense() for part in parts])
            assert torch.equal(rows, column.to_dense()[ids])
    assert parts[0].nodes["paper"].names == {"topic": ("old", "new")}
    with halohop.open(tmp_path / "parts") as graph:
        for relation, table in given.edges.items():
            ids = torch.cat([part.edges[relation].edge_id for part in parts])
            ends = torch.cat([part.edges[relation].edge_index for part in parts], 1)
            assert torch.equal(ids.sort().values, torch.arange(table.num_edges))
            assert torch.equal(ends, torch.stack([table.src, table.dst])[:, ids])
            owners = torch.cat([torch.full((len(part.edges[relation].edge_id),), part.part) for part in parts])
            assert torch.equal(graph.edge_owners(relation, ids), owners)
            listed = 1 if edge_dir == "in" else 0
            assert torch.equal(graph.owners(ends[listed], relation[2 * listed]), owners)
            for key, column in table.columns.items():
                assert torch.equal(torch.cat([part.edges[relation].columns[key] for part in parts]), column[ids])


@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_what_was_read_makes_the_batches_of_the_folder(tmp_path: Path, edge_dir: str) -> None:
    halohop.partition(tables(), tmp_path / "parts", num_parts=3, method="random", edge_dir=edge_dir, halo=["raw_id"])
    parts = [halohop.slices.read_partition(tmp_path / "parts", part) for part in range(3)]
    with halohop.open(tmp_path / "parts") as stored, halohop.open(parts) as read:
        for one, other in zip(_batches(stored), _batches(read), strict=True):
            assert (one.node_types, one.edge_types) == (other.node_types, other.edge_types)
            for store, same in zip(one.stores, other.stores, strict=True):
                assert list(store.keys()) == list(same.keys())
                for key, value in store.items():
                    assert torch.equal(value, same[key]) if torch.is_tensor(value) else value == same[key]


def _batches(graph: halohop.Graph) -> halohop.NeighborLoader:
    return halohop.NeighborLoader(graph, [4, 3], ("paper", "train"), batch_size=5, shuffle=True, seed=2)


def test_rows_that_are_stored_narrow_have_the_users_dtype(tmp_path: Path) -> None:
    halohop.partition(tables(), tmp_path / "parts", num_parts=2, method="random", feature_dtype="float16")
    own = halohop.slices.read_partition(tmp_path / "parts", 1).nodes["paper"]
    assert own.columns["x"].dtype == torch.float32
    torch.testing.assert_close(own.columns["x"], tables().nodes["paper"].columns["x"][own.id], rtol=1e-3, atol=1e-3)


def test_what_cannot_be_read_back_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    halohop.partition(tables(), folder, num_parts=2, method="random")
    with pytest.raises(InputError, match=r"part=2, but .* has the partitions 0 to 1"):
        halohop.slices.read_partition(folder, 2)
    with halohop.open(folder) as graph, pytest.raises(SchemaError, match="unknown relation"):
        graph.edge_owners(EDGE, torch.tensor([0]))
    shutil.rmtree(folder / "part-0001")
    with pytest.raises(InputError, match=r"partitions \[1\] are not in"):
        halohop.slices.read_partition(folder, 0)
    halohop.partition(power_law(20, 3, shuffled_ids=True), tmp_path / "own", num_parts=2, method="random")
    with pytest.raises(InputError, match=r"ids of 'node' in .* are not 0 to 19"):
        halohop.slices.read_partition(tmp_path / "own", 0)


def test_edge_owners_over_hosts(tmp_path: Path) -> None:
    graph = power_law(60, 4, shuffled_ids=True)
    halohop.partition(graph, tmp_path / "parts", num_parts=3, method="random")
    raw, table = graph.nodes[NODE].raw_id, graph.edges[EDGE]
    wanted = torch.tensor([7, 0, 7, table.num_edges - 1])
    with hosts(tmp_path / "parts", [[0, 2], [1]]) as opened:
        for one in opened:
            assert torch.equal(one.edge_owners(EDGE, wanted), one.owners(raw[table.dst[wanted]]))
