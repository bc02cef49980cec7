"""Partitions in memory: the same arrays as of the same division of the whole graph, and what is refused."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import halohop
from halohop.cluster.in_memory import OwnParts
from halohop.errors import ClusterError, IdError, InputError, SchemaError
from halohop.net.partitions import all_records
from halohop.partitioning.assigners.division import Assignment
from halohop.partitioning.building.build import build_parts
from halohop.slices import EdgeSlice, MemoryPartition, NodeSlice
from halohop.store.part import EdgePart, NodePart
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.worlds import TOKEN, divided, free_addresses, memory_hosts

BUYS, SIMILAR = ("user", "buys", "item"), ("item", "similar", "item")
TO = ("node", "to", "node")


def shop() -> GraphTables:
    """Two node types, some nodes without edges, columns of many kinds, times that rise within lists and times that do not."""
    generator = torch.Generator().manual_seed(0)
    users, items, buys, similar = 40, 25, 200, 90

    def some(high: int, count: int) -> Tensor:
        return torch.randint(high, (count,), generator=generator)

    x = torch.rand(users, 3, generator=generator)
    return GraphTables(
        nodes={
            "user": NodeTable(num_nodes=users, columns={"x": x, "when": some(50, users), "train_mask": some(2, users).bool()}),
            "item": NodeTable(num_nodes=items, columns={"words": torch.eye(items, 4).to_sparse(), "y": some(3, items)}),
        },
        edges={
            BUYS: EdgeTable(
                src=some(users, buys),
                dst=some(items - 5, buys),
                columns={"time": torch.arange(buys), "weight": torch.rand(buys, 2, generator=generator).half()},
            ),
            SIMILAR: EdgeTable(
                src=some(items, similar).int(), dst=some(items, similar).int(), columns={"time": some(9, similar)}
            ),
        },
    )


def assignments(num_parts: int) -> dict[str, Assignment]:
    tables = shop()
    mixed = {name: (torch.arange(table.num_nodes) * 7 // 3) % num_parts for name, table in tables.nodes.items()}
    return {
        "mixed": mixed,
        "ranges": {name: owner.sort().values for name, owner in mixed.items()},
        "last is empty": {name: owner % max(num_parts - 1, 1) for name, owner in mixed.items()},
        "first is empty": {name: owner.clamp(min=min(1, num_parts - 1)) for name, owner in mixed.items()},
    }


def assert_equal_nodes(one: NodePart, other: NodePart) -> None:
    assert one.num_nodes == other.num_nodes
    assert_equal(one.raw_id, other.raw_id)
    assert list(one.columns) == list(other.columns)
    assert list(one.sparse) == list(other.sparse)
    for name in one.columns:
        assert_equal(one.columns[name], other.columns[name])
    for name in one.sparse:
        assert_equal(one.sparse[name].dense(None), other.sparse[name].dense(None))


def assert_equal_edges(one: EdgePart, other: EdgePart) -> None:
    assert_equal(one.indptr, other.indptr)
    assert_equal(one.indices, other.indices)
    assert_equal(one.edge_id, other.edge_id)
    assert one.ascending == other.ascending
    for mine, theirs in ((one.columns, other.columns), (one.halo, other.halo)):
        assert list(mine) == list(theirs)
        for name in mine:
            assert_equal(mine[name], theirs[name])


def assert_equal(one: Tensor | None, other: Tensor | None) -> None:
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", ["mixed", "ranges", "last is empty", "first is empty"])
@pytest.mark.parametrize("num_parts", [1, 2, 4])
def test_arrays_are_those_of_the_same_division(num_parts, kind):
    tables, assignment = shop(), assignments(num_parts)[kind]
    own = divided(tables, assignment, num_parts)
    with halohop.open(own) as whole:
        own = [one.with_halo(whole, ("when", "raw_id")) for one in own]
    found = OwnParts.of(own).holding()
    build = build_parts(tables, assignment, num_parts, halo=("when", "raw_id"))
    assert found.book == build.book
    assert found.manifest.schema == build.schema
    for index, part in enumerate(build.parts):
        for name in tables.nodes:
            assert_equal_nodes(found.parts[index].nodes[name], part.nodes[name])
        for relation in tables.edges:
            assert_equal_edges(found.parts[index].edges[relation], part.edges[relation])


def test_ranges_may_be_given_by_their_bounds():
    tables, assignment = shop(), assignments(4)["ranges"]
    own = [
        replace(
            one,
            nodes={
                name: replace(nodes, owner=[0, *torch.bincount(nodes.owner, minlength=4).cumsum(0).tolist()])
                for name, nodes in one.nodes.items()
            },
        )
        for one in divided(tables, assignment, 4)
    ]
    assert OwnParts.of(own).holding().fingerprint == OwnParts.of(divided(tables, assignment, 4)).holding().fingerprint


def test_without_edge_ids_edges_are_numbered_by_partition_and_destination():
    ring = [replace(one, edges={TO: replace(one.edges[TO], edge_id=None, owner=None)}) for one in path()]
    with halohop.open(ring) as graph:
        found = graph.edges(TO)
        assert found.edge_id.tolist() == [0, 1, 2, 3]
        assert graph.book.edges[TO] == (0, 2, 4)
        raw = graph.select()[1][torch.argsort(graph.select()[0])]
        assert raw[found.dst_gid].tolist() == [2, 4, 1, 3]


@pytest.mark.parametrize("given", ["owners of edges", "all partitions"])
def test_how_many_edges_others_have_is_known_from(given):
    """One partition alone says what all say together, where it knows the owners of all edges."""
    own = divided(shop(), assignments(2)["mixed"], 2)
    alone = OwnParts.of(own[1]).holding()
    assert alone.document == OwnParts.of(own).holding().document
    bare = [replace(one, edges={relation: replace(edges, owner=None) for relation, edges in one.edges.items()}) for one in own]
    assert OwnParts.of(bare).holding().book == alone.book
    with pytest.raises(ClusterError, match=r"partitions \[0\] of 2 are not here.*give the owner of all edges"):
        OwnParts.of(bare[1]).holding()


# What is refused. A path 0 -> 1 -> 2 -> 3 -> 4; partition 0 owns nodes 0, 2 and 4, partition 1 nodes 1 and 3.

OWNER, EDGE_OWNER = torch.tensor([0, 1, 0, 1, 0]), torch.tensor([1, 0, 1, 0])


def path() -> list[MemoryPartition]:
    owned = {0: torch.tensor([4, 0, 2]), 1: torch.tensor([1, 3])}
    leads = {0: torch.tensor([3, 1]), 1: torch.tensor([0, 2])}
    return [
        MemoryPartition(
            part=part,
            num_parts=2,
            nodes={"node": NodeSlice(owner=OWNER, id=owned[part], columns={"x": owned[part].float()})},
            edges={TO: EdgeSlice(edge_index=torch.stack([leads[part], leads[part] + 1]), edge_id=leads[part], owner=EDGE_OWNER)},
        )
        for part in (0, 1)
    ]


def with_nodes(part: int = 0, **changes: Any) -> Callable[[], list[MemoryPartition]]:
    def change() -> list[MemoryPartition]:
        own = path()
        own[part] = replace(own[part], nodes={"node": replace(own[part].nodes["node"], **changes)})
        return own

    return change


def with_edges(part: int = 0, **changes: Any) -> Callable[[], list[MemoryPartition]]:
    def change() -> list[MemoryPartition]:
        own = path()
        changed = {"owner": None, **changes}
        bare = [replace(one, edges={TO: replace(one.edges[TO], owner=changed["owner"])}) for one in own]
        bare[part] = replace(own[part], edges={TO: replace(own[part].edges[TO], **changed)})
        return bare

    return change


ids, ends = torch.tensor, torch.tensor
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an owner that is no partition": (
        with_nodes(owner=ids([0, 1, 2, 1, 0])),
        InputError,
        "the owner of node node 2 is 2, which is no partition; name one of 0 to 1",
    ),
    "a node that no partition owns": (
        with_nodes(owner=ids([0, 1, -1, 1, 0])),
        InputError,
        "the owner of node node 2 is -1, which is no partition",
    ),
    "owners of the wrong length": (
        with_nodes(owner=OWNER[:4]),
        InputError,
        "node 4 of 'node' has no owner: the owner book has 4 nodes; give an owner for every id",
    ),
    "owners that are no integers": (with_nodes(owner=OWNER.float()), InputError, "owners of node nodes are torch.float32"),
    "ranges that fall": (with_nodes(owner=[0, 3, 2]), InputError, r"the ranges of node nodes are \[0, 3, 2\]"),
    "too few ranges": (with_nodes(owner=[0, 3]), InputError, r"the ranges of node nodes are \[0, 3\]; 2 partitions need 3"),
    "a node twice": (with_nodes(id=ids([4, 0, 4])), InputError, "node 4 of 'node' is given twice; give each node one row"),
    "a node of another partition": (
        with_nodes(id=ids([4, 0, 3])),
        InputError,
        "node 3 of 'node' is given to partition 0, but its owner is partition 1",
    ),
    "no row of an own node": (
        with_nodes(id=ids([4, 0]), columns={"x": torch.zeros(2)}),
        InputError,
        "partition 0 owns node 2 of 'node', but has no row of it",
    ),
    "rows without ids, too few": (
        with_nodes(id=None, columns={"x": torch.zeros(2)}),
        InputError,
        "column 'x' has shape .2,., but there are 3 nodes of 'node' in partition 0",
    ),
    "different owner books": (
        with_nodes(1, owner=ids([1, 1, 0, 1, 0]), id=ids([0, 1, 3]), columns={"x": torch.zeros(3)}),
        InputError,
        "partitions 0 and 1 have different owner books of 'node', of 5 and 5 nodes; give every process the same one",
    ),
    "different columns": (
        with_nodes(1, columns={"x": torch.zeros(2, 3)}),
        InputError,
        r"column 'x' of 'node' is float32 \[\] and float32 \[3\] in partitions 0 and 1",
    ),
    "a column that one partition lacks": (
        with_nodes(1, columns={}),
        InputError,
        r"column 'x' of 'node' is float32 \[\] and none in partitions 0 and 1; give the same columns everywhere",
    ),
    "an edge to an unknown node": (
        with_edges(edge_index=ends([[3, 1], [4, 7]])),
        IdError,
        "edge 1 of node__to__node names node 7, which has no owner: the owner book has 5 nodes",
    ),
    "an edge from an unknown node": (
        with_edges(edge_index=ends([[3, -1], [4, 2]])),
        IdError,
        "edge 1 of node__to__node names node -1, which has no owner",
    ),
    "an edge to a node of another partition": (
        with_edges(edge_index=ends([[3, 2], [4, 3]])),
        InputError,
        "edge 1 of node__to__node in partition 0 leads to node 3, which partition 1 owns; give every edge to the owner of its",
    ),
    "an edge id twice": (with_edges(edge_id=ids([1, 1])), InputError, "edge id 1 of node__to__node is given twice"),
    "an edge id twice, in two partitions": (
        with_edges(edge_id=ids([0, 1])),
        InputError,
        r"the edge ids of .* in all partitions are not 0 to 3, each once",
    ),
    "a negative edge id": (with_edges(edge_id=ids([-1, 1])), InputError, "edge id -1 of node__to__node is below 0"),
    "edge ids in one partition only": (
        with_edges(edge_id=None),
        InputError,
        "of partitions 0 and 1 only one has edge_id",
    ),
    "owners of edges that are not those of destinations": (
        with_edges(owner=ids([0, 1, 0, 1])),
        InputError,
        "edge 3 of node__to__node is given to partition 0, but its owner is partition 1",
    ),
    "owners of other edges": (
        with_edges(owner=ids([1, 0, 1])),
        InputError,
        "partition 0 owns 1 edges of node__to__node, but has 2",
    ),
    "owners of too few edges": (
        with_edges(owner=ids([1, 0, 0])),
        InputError,
        "edge 3 of node__to__node has no owner: the owner book has 3 edges",
    ),
    "owners of edges without ids": (
        with_edges(owner=ids([1, 0, 1, 0]), edge_id=None),
        InputError,
        "edges of node__to__node have owners, but no ids by which to look these up; give edge_id",
    ),
    "one partition twice": (lambda: [path()[0], path()[0]], InputError, "partition 0 is given twice"),
    "a partition that is not there": (lambda: with_edges()()[:1], ClusterError, r"partitions \[1\] of 2 are not here"),
    "different numbers of partitions": (
        lambda: [path()[0], replace(path()[1], num_parts=3)],
        InputError,
        "partitions 0 and 1 say num_parts=2 and 3",
    ),
    "other relations": (lambda: [path()[0], replace(path()[1], edges={})], InputError, r"have the relations .* and \[\]"),
    "no partitions": (lambda: [], InputError, "list is neither a folder nor a halohop.slices.MemoryPartition"),
    "a number": (lambda: 5, InputError, "int is neither a folder"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    given, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        halohop.open(given())


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: replace(path()[0], part=2), InputError, "part=2 of num_parts=2"),
        (lambda: replace(path()[0], nodes={}, edges={}), InputError, "partition 0 has no node type"),
        (lambda: replace(path()[0], nodes={"other": path()[0].nodes["node"]}), SchemaError, "uses node type 'node'"),
        (lambda: EdgeSlice(edge_index=torch.zeros(3, 2, dtype=torch.int64)), InputError, r"shape \(3, 2\), expected \[2"),
        (lambda: EdgeSlice(edge_index=torch.zeros(2, 2)), InputError, "edge_index must be one-dimensional int64 or int32"),
        (lambda: EdgeSlice(edge_index=path()[0].edges[TO].edge_index, edge_id=ids([1])), InputError, "edge_id has 1 entries"),
        (lambda: EdgeSlice(edge_index=path()[0].edges[TO].edge_index, columns={"w": ids([1])}), InputError, "column 'w'"),
        (lambda: NodeSlice(owner=OWNER, id=ids([1, 2]), columns={"x": ids([1])}), InputError, "there are 2 nodes"),
        (lambda: NodeSlice(owner=OWNER, columns={"x": torch.zeros(1, device="meta")}), InputError, "'x' lies on meta"),
        (lambda: NodeSlice(owner=OWNER, id=ids([1]).to("meta")), InputError, "'id' lies on meta"),
        (lambda: NodeSlice(owner=OWNER, id=[1]), InputError, "id of nodes is a list; give a tensor"),
        (lambda: NodeSlice(owner=OWNER, id=torch.tensor(1)), InputError, r"id of nodes must be one-dimensional"),
        (lambda: NodeSlice(owner=OWNER, columns={"x": [1]}), InputError, "column 'x' is a list; give a tensor"),
        (lambda: EdgeSlice(edge_index=np.zeros((2, 1), np.int64)), InputError, "edge_index is a ndarray; give a tensor"),
        (lambda: replace(path()[0].edges[TO], edge_id=[1]), InputError, "edge_id is a list; give a tensor"),
        (
            lambda: EdgeSlice(edge_index=path()[0].edges[TO].edge_index[:, :0], halo={"x": torch.zeros(0, 2)}),
            InputError,
            "halo names 'x', which is not one number per node",
        ),
    ],
)
def test_slices_that_cannot_be_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_options_of_folders_are_refused():
    for options in ({"partitions": [0]}, {"verify": True}):
        with pytest.raises(InputError, match="partitions in memory have no files"):
            halohop.open(path(), **options)


def test_columns_that_cannot_be_borrowed_are_refused():
    with halohop.open(path()) as graph:
        with pytest.raises(InputError, match="halo names 'z', which is no column of nodes"):
            path()[0].with_halo(graph, ["z"])
        with pytest.raises(InputError, match="halo='x' is a text"):
            path()[0].with_halo(graph, "x")
    for x in (torch.zeros(3, 1), torch.zeros(3, dtype=torch.bool)):
        own = [with_nodes(part, columns={"x": x[: 3 - part]})()[part] for part in (0, 1)]
        with halohop.open(own) as graph, pytest.raises(InputError, match="halo names 'x', which is not one number per node"):
            own[0].with_halo(graph, ["x"])


@pytest.mark.parametrize(
    "name",
    ["different owner books", "different columns", "different numbers of partitions", "an edge id twice, in two partitions"],
)
def test_hosts_that_disagree_all_say_so(name):
    """Not one that raises, and another that waits for it."""
    given, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message), memory_hosts([[one] for one in given()], deadline=5.0):
        pass


def test_a_partition_that_does_not_come_is_named():
    first, _ = with_edges()()
    other = replace(first, part=0)
    with (
        pytest.raises(ClusterError, match=r"partition 1 of 2 did not come within 0.2 s"),
        memory_hosts([[first], [other]], deadline=0.2),
    ):
        pass


def test_two_processes_that_give_one_partition_differently_are_refused():
    own, board = with_edges()(), dist.HashStore()
    first = own[0].edges[TO]
    fewer = replace(own[0], edges={TO: replace(first, edge_index=first.edge_index[:, :1], edge_id=ids([1]))})
    all_records(board, "graph", OwnParts.of(own).records, deadline=1.0)
    with pytest.raises(InputError, match="partition 0 is given by two processes, and not alike"):
        all_records(board, "graph", OwnParts.of(fewer).records, deadline=1.0)


def test_two_hosts_may_give_one_partition():
    own = with_edges()()
    with memory_hosts([[own[0]], own]) as graphs:
        for graph in graphs:
            assert graph.rows("x", torch.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_servers_agree_on_a_board_how_many_edges_each_has():
    own, board, addresses = with_edges()(), dist.HashStore(), free_addresses(2)

    def start(part: int) -> Any:
        options = {"listen": addresses[part], "peers": [addresses[1 - part]], "token": TOKEN, "board": board}
        return stack.enter_context(halohop.serve(own[part], **options))

    with ExitStack() as stack:
        with ThreadPoolExecutor(2) as pool:
            assert len(list(pool.map(start, range(2), timeout=30))) == 2
        graph = stack.enter_context(halohop.connect(addresses, token=TOKEN))
        (batch,) = halohop.NeighborLoader(graph, [-1, -1], torch.tensor([4]))
        assert batch.n_id.tolist() == [4, 3, 2]
        assert batch.e_id.tolist() == [3, 2]


def test_a_server_that_cannot_know_the_others_edges_is_refused():
    with pytest.raises(ClusterError, match=r"partitions \[1\] of 2 are not here.* or a `board` where all processes meet"):
        halohop.serve(with_edges()()[0], token=TOKEN)
