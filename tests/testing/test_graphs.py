import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.store.tables import GraphTables
from halohop.testing import checks, graphs
from halohop.typing import EDGE, NODE

TYPES = {"user": 40, "item": 30, "shop": 0}
RELATIONS = {("user", "buys", "item"): 120, ("item", "like", "item"): 60, ("shop", "sells", "item"): 0}


def edges(tables: GraphTables) -> list[tuple[int, int]]:
    table = tables.edges[EDGE]
    return list(zip(table.src.tolist(), table.dst.tolist(), strict=True))


def raw_ids(tables: GraphTables, node_type: str = NODE) -> torch.Tensor:
    table = tables.nodes[node_type]
    return torch.arange(table.num_nodes) if table.raw_id is None else table.raw_id


@pytest.mark.parametrize("num_nodes", [0, 1, 2, 3, 10])
def test_ring(num_nodes: int) -> None:
    steps = [(v, (v + step) % num_nodes) for step in (1, 2) for v in range(num_nodes)]
    assert edges(graphs.ring(num_nodes)) == steps


def test_small_shapes() -> None:
    assert edges(graphs.star(3)) == [(1, 0), (2, 0), (3, 0)]
    assert edges(graphs.star(2, outward=True)) == [(0, 1), (0, 2)]
    assert edges(graphs.star(0)) == []
    assert edges(graphs.isolated(3)) == []
    assert edges(graphs.multi_edges(2, 3)) == [(0, 1)] * 3 + [(1, 0)] * 3


@pytest.mark.parametrize("shuffled", [True, False])
def test_power_law_has_hubs_and_lonely_nodes(shuffled: bool) -> None:
    tables = graphs.power_law(500, 4, shuffled_ids=shuffled)
    degree = torch.bincount(tables.edges[EDGE].dst, minlength=500)
    assert tables.edges[EDGE].num_edges == 2000
    assert int(degree.max()) > 100
    assert int((degree == 0).sum()) > 20
    assert len(set(edges(tables))) < 2000
    assert (tables.nodes[NODE].raw_id is not None) == shuffled
    assert edges(graphs.power_law(500, 4)) == edges(graphs.power_law(500, 4)) != edges(graphs.power_law(500, 4, seed=1))


@pytest.mark.parametrize(
    "tables",
    [
        graphs.ring(9, dim=3),
        graphs.ring(4, raw_id=torch.tensor([9, 2, 7, 5])),
        graphs.power_law(20, 2, shuffled_ids=True),
        graphs.star(0),
    ],
)
def test_everything_follows_from_ids(tables: GraphTables) -> None:
    raw, columns = raw_ids(tables), tables.nodes[NODE].columns
    assert (columns["x"] == raw[:, None]).all()
    assert torch.equal(columns["y"], raw % 4)
    assert torch.equal(columns["train_mask"], raw % 5 <= 2)
    assert torch.equal(columns["val_mask"], raw % 5 == 3)
    assert torch.equal(columns["test_mask"], raw % 5 == 4)
    edge_columns, ids = tables.edges[EDGE].columns, torch.arange(tables.edges[EDGE].num_edges)
    assert (edge_columns["edge_attr"] == ids[:, None]).all()
    assert torch.equal(edge_columns["weight"], 1 + (ids % 7).float())
    assert torch.equal(edge_columns["time"], ids)


def test_types_share_no_raw_id_and_no_width() -> None:
    tables = graphs.typed(TYPES, RELATIONS, dim=2)
    raw = torch.cat([raw_ids(tables, name) for name in TYPES])
    assert len(raw.unique()) == 70
    assert not torch.equal(raw_ids(tables, "user"), raw_ids(tables, "user").sort().values)
    assert [tables.nodes[name].columns["x"].shape[1] for name in TYPES] == [2, 3, 4]
    assert {relation: table.num_edges for relation, table in tables.edges.items()} == RELATIONS


def test_what_cannot_verify_itself_is_refused() -> None:
    with pytest.raises(InputError, match="float32"):
        graphs.ring(1, raw_id=torch.tensor([2**24]))
    with pytest.raises(InputError, match="3 edges cannot lie"):
        graphs.typed({"a": 0, "b": 1}, {("a", "to", "b"): 3})


# A batch of typed(): two users, three items, and some of the edges between them.


@pytest.fixture
def tables() -> GraphTables:
    return graphs.typed(TYPES, RELATIONS)


@pytest.fixture
def batch(tables: GraphTables) -> dict:
    """All nodes in another order, and every second edge."""
    rng = np.random.default_rng(0)
    order = {name: torch.from_numpy(rng.permutation(count)) for name, count in TYPES.items()}
    place = {name: torch.argsort(rows) for name, rows in order.items()}
    ids = {relation: torch.arange(0, count, 2) for relation, count in RELATIONS.items()}
    return {
        "nodes": {name: raw_ids(tables, name)[rows] for name, rows in order.items()},
        "edges": {
            relation: torch.stack([place[relation[0]][table.src[ids[relation]]], place[relation[2]][table.dst[ids[relation]]]])
            for relation, table in tables.edges.items()
        },
        "edge_ids": ids,
        "node_columns": {name: {"x": tables.nodes[name].columns["x"][rows]} for name, rows in order.items()},
        "edge_columns": {
            relation: {name: column[ids[relation]] for name, column in table.columns.items()}
            for relation, table in tables.edges.items()
        },
    }


def test_a_right_batch_passes(tables: GraphTables, batch: dict) -> None:
    checks.check_batch(tables, **batch)
    checks.check_batch(tables, batch["nodes"], batch["edges"])


BUYS = ("user", "buys", "item")


def _spoil(batch: dict, what: str) -> None:
    if what == "node twice":
        batch["nodes"]["user"][0] = batch["nodes"]["user"][1]
    elif what == "unknown node":
        batch["nodes"]["user"][3] = 10_000
    elif what == "node of another type":
        batch["nodes"]["user"][3] = batch["nodes"]["item"][3]
    elif what == "feature":
        batch["node_columns"]["item"]["x"][5, 1] += 1
    elif what == "features in another order":
        batch["node_columns"]["user"]["x"] = batch["node_columns"]["user"]["x"].flip(0)
    elif what == "dtype":
        batch["node_columns"]["user"]["x"] = batch["node_columns"]["user"]["x"].double()
    elif what == "shape":
        batch["node_columns"]["user"]["x"] = batch["node_columns"]["user"]["x"][:, 0]
    elif what == "edge":
        batch["edges"][BUYS][0, 0] = (batch["edges"][BUYS][0, 0] + 1) % 40
    elif what == "direction":
        relation = ("item", "like", "item")
        batch["edges"][relation] = batch["edges"][relation].flip(0)
    elif what == "edge id":
        batch["edge_ids"][BUYS] = batch["edge_ids"][BUYS].flip(0)
    elif what == "edge id outside":
        batch["edge_ids"][BUYS][-1] = 120
    elif what == "edge column":
        batch["edge_columns"][BUYS]["weight"][7] += 1
    elif what == "position":
        batch["edges"][BUYS][1, 2] = 30
    else:
        raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("node twice", "'user' is in the batch twice"),
        ("unknown node", r"'user' has the raw id \(10000,\)"),
        ("node of another type", "no node 'user' has the raw id"),
        ("feature", "'x' of node 'item' is wrong at id"),
        ("features in another order", "'x' of node 'user' is wrong"),
        ("dtype", "dtype torch.float64, expected torch.float32"),
        ("shape", "has shape"),
        ("edge", "is not what"),
        ("direction", "is not what"),
        ("edge id", "is not what"),
        ("edge id outside", r"no edge \(120,\)"),
        ("edge column", "column 'weight' of"),
        ("position", r"position \(30,\), but 30 nodes"),
    ],
)
def test_every_wrong_batch_is_found(tables: GraphTables, batch: dict, what: str, message: str) -> None:
    _spoil(batch, what)
    with pytest.raises(AssertionError, match=message):
        checks.check_batch(tables, **batch)


def test_edges_without_ids_must_exist() -> None:
    tables = graphs.ring(5)
    checks.check_edges(tables, torch.tensor([4, 4]), torch.tensor([0, 1]))
    checks.check_edges(tables, torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64))
    with pytest.raises(AssertionError, match=r"no edge \(0, 4\)"):
        checks.check_edges(tables, torch.tensor([4, 0]), torch.tensor([0, 4]))


@given(num_nodes=st.integers(1, 12), data=st.data())
def test_ring_batches_by_arithmetic_and_by_table_agree(num_nodes: int, data: st.DataObject) -> None:
    raw = torch.tensor(data.draw(st.permutations(range(num_nodes))))
    edge_id = torch.tensor(data.draw(st.lists(st.integers(0, 2 * num_nodes - 1), max_size=8)), dtype=torch.int64)
    place = torch.argsort(raw)
    tables = graphs.ring(num_nodes, dim=2)
    table = tables.edges[EDGE]
    edge_index = torch.stack([place[table.src[edge_id]], place[table.dst[edge_id]]])
    x = raw[:, None].float().repeat(1, 2)
    checks.check_ring_batch(num_nodes, raw, edge_index, edge_id, x)
    checks.check_batch(tables, {NODE: raw}, {EDGE: edge_index}, {EDGE: edge_id}, {NODE: {"x": x}})
    with pytest.raises(AssertionError):
        checks.check_ring_batch(num_nodes, raw, edge_index, edge_id, x + 1)
    if num_nodes > 2 and len(edge_id):
        with pytest.raises(AssertionError, match=r"no .edge id, src, dst"):
            checks.check_ring_batch(num_nodes, raw, edge_index.roll(1, 0), edge_id, x)
        with pytest.raises(AssertionError, match=r"no .edge id, src, dst"):
            checks.check_ring_batch(num_nodes, raw, edge_index, edge_id + 1, x)


def test_fanout() -> None:
    tables = graphs.star(5)
    hub = torch.tensor([0])

    def check(edge_id: list[int], fanout: int, *, replace: bool = False, expanded: torch.Tensor = hub) -> None:
        ids = torch.tensor(edge_id, dtype=torch.int64)
        checks.check_fanout(tables, torch.zeros(len(ids), dtype=torch.int64), ids, expanded, fanout, replace=replace)

    check([0, 1, 2, 3, 4], -1)
    check([4, 0], 2)
    check([0, 1, 2, 3, 4], 9)
    check([1, 1, 1], 3, replace=True)
    check([1] * 9, 9, replace=True, expanded=torch.tensor([0, 3]))
    check([], 0)
    for edge_id, fanout, replace in (
        ([0, 1], -1, False),
        ([0], 2, False),
        ([0, 1, 2], 2, False),
        ([0, 0], 2, False),
        ([0], 2, True),
    ):
        with pytest.raises(AssertionError):
            check(edge_id, fanout, replace=replace)
    with pytest.raises(AssertionError, match=r"\(0, 2, 5\)"):
        check([0, 1], 2, expanded=torch.tensor([3]))
