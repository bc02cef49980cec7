"""A DistGraph answers as the graph that was divided, by the same ids."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import halohop
import halohop.dgl as dgl
from halohop.dgl.distributed import DistGraph, DistTensor, load_partition_book, partition_graph
from halohop.errors import IdError, InputError, SchemaError
from tests.support.dgl_parts import plain_graph, typed_graph
from tests.support.dgl_ranks import folders_of_hosts, in_ranks


def opened(folder: Path) -> DistGraph:
    return DistGraph("it", part_config=folder / "it.json")


def same_as(g: dgl.DGLGraph, dist: DistGraph) -> None:
    """Counts, types, columns, ends and degrees, by random ids, twice the same ones too."""
    assert (dist.ntypes, dist.canonical_etypes, dist.etypes) == (g.ntypes, g.canonical_etypes, g.etypes)
    assert (dist.num_nodes(), dist.number_of_edges()) == (g.num_nodes(), g.num_edges())
    chance = torch.Generator().manual_seed(3)
    for number, name in enumerate(g.ntypes):
        assert (dist.num_nodes(name), dist.get_ntype_id(name)) == (g.num_nodes(name), number)
        ids = torch.randint(g.num_nodes(name), (25,), generator=chance)
        columns = dist.nodes[name].data
        assert sorted(columns) == sorted(g.nodes[name].data)
        for column, rows in g.nodes[name].data.items():
            assert (columns[column].shape, columns[column].dtype) == (tuple(rows.shape), rows.dtype)
            assert torch.equal(columns[column][ids], rows[ids])
    for number, etype in enumerate(g.canonical_etypes):
        assert (dist.num_edges(etype), dist.get_etype_id(etype)) == (g.num_edges(etype), number)
        ids = torch.randint(max(g.num_edges(etype), 1), (25 if g.num_edges(etype) else 0,), generator=chance)
        for ours, theirs in zip(dist.find_edges(ids, etype), g.find_edges(ids, etype), strict=True):
            assert torch.equal(ours, theirs)
        for column, rows in g.edges[etype].data.items():
            assert torch.equal(dist.edges[etype].data[column][ids], rows[ids])
        assert torch.equal(dist.in_degrees(etype=etype), g.in_degrees(etype=etype))
        assert torch.equal(dist.out_degrees(etype=etype), g.out_degrees(etype=etype))
        assert dist.in_degrees(0, etype) == g.in_degrees(0, etype)


def test_it_answers_as_the_graph_that_was_divided(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    same_as(g, opened(folder))


def test_the_book_says_who_owns_what(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    for book in (opened(folder).get_partition_book(), load_partition_book(folder / "it.json", 0)[0]):
        assert sum(part["num_edges"] for part in book.metadata()) == g.num_edges()
        for name in g.ntypes:
            owned = [book.partid2nids(part, name) for part in range(book.num_partitions())]
            assert torch.equal(torch.cat(owned).sort().values, torch.arange(g.num_nodes(name)))
            for part, ids in enumerate(owned):
                assert book.nid2partid(ids, name).tolist() == [part] * len(ids)
                assert torch.equal(book.nid2localnid(ids.flip(0), part, name), torch.arange(len(ids)).flip(0))
        for etype in g.canonical_etypes:
            ids = torch.arange(g.num_edges(etype))
            dst = g.find_edges(ids, etype)[1]
            assert torch.equal(book.eid2partid(ids, etype), book.nid2partid(dst, etype[2]))
            homo = book.map_to_homo_eid(ids, etype)
            kind, back = book.map_to_per_etype(homo)
            assert torch.equal(back, ids)
            assert set(kind.tolist()) <= {g.canonical_etypes.index(etype)}


def test_the_near_partition_is_a_graph(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    near = opened(folder).local_partition
    own = {}
    for name in g.ntypes:
        data = near.nodes[name].data
        inner = data["inner_node"].bool()
        own[name] = data[dgl.NID][inner]
        assert bool(inner[: len(own[name])].all())
    for etype in g.canonical_etypes:
        src, dst = near.edges(etype=etype)
        ids = near.edges[etype].data[dgl.EID]
        src, dst = near.nodes[etype[0]].data[dgl.NID][src], near.nodes[etype[2]].data[dgl.NID][dst]
        assert torch.equal(torch.stack(g.find_edges(ids, etype)), torch.stack([src, dst]))
        wanted = torch.isin(g.edges(etype=etype)[1], own[etype[2]]).nonzero().view(-1)
        assert torch.equal(ids.sort().values, wanted)


def test_edge_subgraphs_are_those_of_the_edges(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    dist = opened(folder)
    etype = max(g.canonical_etypes, key=g.num_edges)
    ids = torch.tensor([7, 3, 11])
    whole = dist.edge_subgraph({etype: ids}, relabel_nodes=False)
    assert whole.num_nodes(etype[0]) == g.num_nodes(etype[0])
    assert torch.equal(torch.stack(whole.edges(etype=etype)), torch.stack(g.find_edges(ids, etype)))
    small = dist.edge_subgraph({etype: ids})
    src, dst = small.edges(etype=etype)
    src, dst = small.nodes[etype[0]].data[dgl.NID][src], small.nodes[etype[2]].data[dgl.NID][dst]
    assert torch.equal(torch.stack([src, dst]), torch.stack(g.find_edges(ids, etype)))
    assert torch.equal(small.edges[etype].data[dgl.EID], ids)


def test_tables_are_made_assigned_and_found(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    dist = opened(folder)
    for name in g.ntypes:
        count = g.num_nodes(name)
        dist.nodes[name].data["h"] = DistTensor((count, 2), name="h", part_policy=dist.get_node_partition_policy(name))
        dist.nodes[name].data["h"][torch.arange(count)] = torch.full((count, 2), float(len(name)))
    for name in g.ntypes:
        found = dist.nodes[name].data["h"]
        assert (found.tensor_name, found.name, len(found)) == ("h", f"node~{name}~h", g.num_nodes(name))
        assert found[[0, 0]].tolist() == [[len(name)] * 2] * 2
        assert found.part_policy.policy_str == f"node~{name}"
        assert found.local_partition.shape == (dist.get_node_partition_policy(name).get_part_size(), 2)
    etype = g.canonical_etypes[0]
    weights = DistTensor(
        (g.num_edges(etype),),
        torch.int64,
        "n",
        lambda shape, dtype: torch.full(shape, 3, dtype=dtype),
        dist.get_edge_partition_policy(etype),
    )
    assert dist.edges[etype].data["n"] is weights
    assert weights[0:4].tolist() == [3] * 4
    assert weights.count_nonzero() == g.num_edges(etype)
    del dist.edges[etype].data["n"]
    with pytest.raises(KeyError, match="has no 'n', only"):
        dist.edges[etype].data["n"]


def test_it_goes_to_other_processes(divided: tuple[dgl.DGLGraph, Path]) -> None:
    g, folder = divided
    same_as(g, pickle.loads(pickle.dumps(opened(folder))))


def masks() -> tuple[DistTensor, DistTensor]:
    count = torch.arange(60)
    first = DistTensor((60,), torch.bool, "a", lambda shape, dtype: torch.ones(shape, dtype=dtype))
    first[count] = count % 2 == 0
    second = DistTensor((60,), torch.bool, "b")
    second[count] = count % 3 == 0
    return first, second


def test_masks_are_united(tmp_path: Path) -> None:
    partition_graph(plain_graph(), "it", 2, tmp_path, part_method="random")
    opened(tmp_path)
    first, second = masks()
    count = torch.arange(60)
    assert torch.equal((first | second)[count], (count % 2 == 0) | (count % 3 == 0))


def imported(folder: Path) -> Path:
    """What `halohop partition dgl:...` writes of DGL's own partitions, by name: columns are called x, y."""
    data = plain_graph().to_pyg()
    data.x, data.y = data.pop("feat"), data.pop("label")
    halohop.partition(data, folder, num_parts=2, method="random")
    return folder


def test_imported_columns_have_the_names_that_dgl_gave_them(tmp_path: Path) -> None:
    dist, g = DistGraph("it", str(imported(tmp_path / "parts"))), plain_graph()
    ids = torch.tensor([4, 1])
    assert torch.equal(dist.ndata["feat"][ids], g.ndata["feat"][ids])
    assert torch.equal(dist.ndata["label"][ids], g.ndata["label"][ids])
    assert dist.ndata["x"].dtype == torch.float32


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (
            lambda g: g.ndata["feat"].__setitem__(torch.tensor([0]), 1.0),
            InputError,
            "'feat' is a stored column, which is only read",
        ),
        (lambda g: g.ndata.__setitem__("x", torch.ones(60)), InputError, "'x' of '_N' is a Tensor; give DistTensor"),
        (lambda g: g.ndata.__delitem__("feat"), InputError, "'feat' is a stored column, which stays"),
        (lambda g: g.ndata["feet"], KeyError, "'_N' has no 'feet', only"),
        (lambda g: g.ndata["feat"][torch.tensor([60])], IdError, "the first is 60"),
        (lambda g: g.ndata["feat"][torch.ones(60) > 0], InputError, "these are bools"),
        (lambda g: g.find_edges([240]), IdError, "240"),
        (lambda g: g.nodes["paper"].data, SchemaError, "there is no type 'paper' of nodes"),
        (lambda g: g.num_edges("cites"), SchemaError, "'cites' names 0 relations"),
        (lambda g: DistTensor((61, 2)), InputError, "61 rows: 0 types of nodes and edges"),
        (lambda g: DistGraph("it", "no.json"), InputError, "there is no file no.json"),
        (lambda g: g.get_partition_book().partid2nids(2), InputError, "partition 2 is none of 0 to 1"),
        (lambda g: g.get_partition_book().nid2localnid([*range(60)], 0), IdError, "is not in partition 0"),
        (lambda g: g.add_edges([1], [2]), InputError, "DistGraph.add_edges of DGL is not offered: a partitioned graph"),
        (lambda g: dgl.distributed.KVServer(), InputError, "distributed.KVServer of DGL is not offered"),
        (lambda g: dgl.distributed.initialize("x", colour=3), InputError, "colour=3 is no argument"),
    ],
)
def test_wrong_use_is_refused_by_name(wrong: Any, kind: type[Exception], message: str, tmp_path: Path) -> None:
    partition_graph(plain_graph(), "it", 2, tmp_path, part_method="random")
    with pytest.raises(kind, match=message):
        wrong(opened(tmp_path))


def test_a_book_of_another_division_is_refused(tmp_path: Path) -> None:
    for parts in (2, 3):
        partition_graph(plain_graph(), "it", parts, tmp_path / str(parts), part_method="random")
    book = load_partition_book(tmp_path / "2/it.json", 0)[0]
    assert DistGraph("it", book).num_nodes() == 60
    with pytest.raises(InputError, match="gpb is the partition book of another graph or division"):
        DistGraph("it", book, tmp_path / "3/it.json")
    (tmp_path / "3/it.json").write_text((tmp_path / "2/it.json").read_text())
    with pytest.raises(InputError, match=r"num_parts of .*it.json is 2, but the partitions beside it have 3"):
        DistGraph("it", part_config=tmp_path / "3/it.json")


def test_no_graph_is_no_place_for_tables() -> None:
    with pytest.raises(InputError, match="a DistTensor belongs to a graph; make a DistGraph before"):
        DistTensor((3, 2))
    with pytest.raises(InputError, match="no partitions are named"):
        DistGraph("it")


def of_rank(rank: int, host: int, folders: list[Path], kind: str) -> dict[str, Any]:
    """A rank of several opens the graph, writes its share of a table, and reads all of it."""
    dgl.distributed.initialize("ip_config.txt")
    g = plain_graph() if kind == "plain" else typed_graph()
    dist = DistGraph("it", part_config=folders[host] / "it.json")
    same_as(g, dist)
    name = g.ntypes[0]
    table = DistTensor((g.num_nodes(name), 2), name="h", part_policy=dist.get_node_partition_policy(name))
    unnamed = DistTensor((g.num_nodes(name),), torch.int64, part_policy=dist.get_node_partition_policy(name))
    own = torch.arange(rank, g.num_nodes(name), dist.world.size)
    table[own], unnamed[own] = own.float().view(-1, 1).expand(-1, 2), own
    dist.barrier()
    every = torch.arange(g.num_nodes(name))
    assert torch.equal(table[every], every.float().view(-1, 1).expand(-1, 2))
    assert torch.equal(unnamed[every], every)
    dist.barrier()
    book = dist.get_partition_book()
    dgl.distributed.exit_client()
    return {"part": book.partid, "rank": dist.rank()}


@pytest.mark.parametrize(
    ("kind", "size", "hosts"),
    [pytest.param("plain", 2, 1, marks=pytest.mark.full), pytest.param("typed", 4, 2, marks=pytest.mark.full), ("plain", 2, 2)],
)
def test_several_processes_see_one_graph(kind: str, size: int, hosts: int, tmp_path: Path) -> None:
    g = plain_graph() if kind == "plain" else typed_graph()
    partition_graph(g, "it", 4, tmp_path / "parts", part_method="random")
    folders = folders_of_hosts(tmp_path / "parts", hosts)
    found = in_ranks(of_rank, size, hosts, tmp_path, folders, kind)
    assert [one["rank"] for one in found] == list(range(size))
    assert len({one["part"] for one in found}) == size
