"""Batches of the face are those of halohop's loaders, under GLT's names."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.errors import InputError
from halohop.glt.batches import WEIGHT, EdgeIndex, options_of
from halohop.glt.loader import LinkNeighborLoader, NeighborLoader, SubGraphLoader
from halohop.glt.typing import reverse_edge_type
from tests.support.glt_data import BOUGHT, BUYS, KNOWS, numbers, one_type, same, several_types

RENAMED = {"n_id": "node", "e_id": "edge"}
SEEDS = torch.tensor([3, 44, 0, 9, 9, 17, 30, 2, 5, 42, 1])  # 42 and 44 have no edge, 9 stands twice


def expected(store: Any, *, edge_dir: str, with_edge: bool, labels: bool) -> dict[str, Any]:
    """What a store of halohop's batch should have become."""
    found = dict(store)
    found.pop("input_id", None)
    if not labels:
        found.pop("y", None)
    if not with_edge:
        for name in ("e_id", "edge_attr"):
            found.pop(name, None)
    found.pop(WEIGHT, None)
    for name in ("edge_index", "edge_label_index"):
        if name in found and edge_dir == "out":
            found[name] = found[name].flip(0)
    return {RENAMED.get(name, name): value for name, value in found.items()}


def check_store(mine: Any, wanted: dict[str, Any]) -> None:
    assert set(mine) == {*wanted}
    for name, value in wanted.items():
        assert same(mine[name], value), name


def check(mine: Any, theirs: Any, *, edge_dir: str, with_edge: bool, input_type: Any = None) -> None:
    """Whether a batch of the face is that of halohop's loader."""
    how = {"edge_dir": edge_dir, "with_edge": with_edge}
    if isinstance(theirs, Data):
        wanted = expected(theirs.stores[0], **how, labels=True)
        size = theirs.get("batch_size", theirs.num_sampled_nodes[0])
        check_store(mine.stores[0], wanted | {"batch": theirs.n_id[:size], "batch_size": size})
        return
    assert mine.num_sampled_nodes.keys() == {*theirs.node_types}
    for name in theirs.node_types:
        wanted = expected(theirs[name], **how, labels=name == input_type)
        if name == input_type or (isinstance(input_type, tuple) and name in input_type[::2]):
            size = theirs[name].get("batch_size", theirs[name].num_sampled_nodes[0])
            wanted |= {"batch": theirs[name].n_id[:size], "batch_size": size}
        assert mine.num_sampled_nodes[name].tolist() == wanted.pop("num_sampled_nodes")
        check_store(mine[name], wanted)
    turned = {etype: reverse_edge_type(etype) if edge_dir == "out" else etype for etype in theirs.edge_types}
    assert set(mine.edge_types) == {*turned.values()}
    for etype, new in turned.items():
        wanted = expected(theirs[etype], **how, labels=True)
        assert mine.num_sampled_edges[new].tolist() == wanted.pop("num_sampled_edges")
        check_store(mine[new], wanted)


@pytest.mark.parametrize("with_edge", [False, True], ids=["without edges", "with edges"])
@pytest.mark.parametrize("with_weight", [False, True], ids=["uniform", "weights"])
def test_neighbourhoods_of_one_type(edge_dir: str, with_edge: bool, with_weight: bool) -> None:
    dataset, graph = one_type(edge_dir)
    how: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 5}
    loader = NeighborLoader(dataset, [3, 2], SEEDS, with_edge=with_edge, with_weight=with_weight, **how)
    theirs = halohop.NeighborLoader(graph, [3, 2], SEEDS, weight_attr=WEIGHT if with_weight else None, **how)
    for _ in range(2):  # epochs differ; a list keeps all batches
        for batch, other in zip(list(loader), list(theirs), strict=True):
            check(batch, other, edge_dir=edge_dir, with_edge=with_edge)
    assert len(loader) == 3


@pytest.mark.parametrize("with_edge", [False, True], ids=["without edges", "with edges"])
@pytest.mark.parametrize("with_weight", [False, True], ids=["uniform", "weights"])
def test_neighbourhoods_of_several_types(edge_dir: str, with_edge: bool, with_weight: bool) -> None:
    dataset, graph = several_types(edge_dir)
    fanouts = {BUYS: [3, 1], BOUGHT: [2, 2], KNOWS: [0, -1]}  # by the user's names
    for input_type, seeds in (("user", torch.arange(20)), ("item", torch.arange(20))):
        how: dict[str, Any] = {"batch_size": 8, "shuffle": True, "seed": 2}
        loader = NeighborLoader(dataset, fanouts, (input_type, seeds), with_edge=with_edge, with_weight=with_weight, **how)
        theirs = halohop.NeighborLoader(graph, fanouts, (input_type, seeds), weight_attr=WEIGHT if with_weight else None, **how)
        for batch, other in zip(list(loader), list(theirs), strict=True):
            check(batch, other, edge_dir=edge_dir, with_edge=with_edge, input_type=input_type)
            assert batch["user"].x.dtype == torch.float16


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_links_of_one_type(edge_dir: str, mode: str | None) -> None:
    dataset, graph = one_type(edge_dir)
    how: dict[str, Any] = {"batch_size": 4, "seed": 1, "shuffle": True, "neg_sampling": mode}
    links = numbers(40, 2, 10)
    loader = LinkNeighborLoader(dataset, [2, 2], edge_label_index=links, with_edge=True, **how)
    theirs = halohop.LinkNeighborLoader(graph, [2, 2], links, strict_negatives=mode == "binary", **how)
    for batch, other in zip(list(loader), list(theirs), strict=True):
        check(batch, other, edge_dir=edge_dir, with_edge=True)


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_links_of_several_types(edge_dir: str, mode: str | None) -> None:
    dataset, graph = several_types(edge_dir)
    how: dict[str, Any] = {"batch_size": 4, "seed": 1, "neg_sampling": mode}
    links = (BUYS, torch.stack([numbers(40, 10), numbers(30, 10)]))
    loader = LinkNeighborLoader(dataset, [2, 2], edge_label_index=links, **how)
    theirs = halohop.LinkNeighborLoader(graph, [2, 2], links, strict_negatives=mode == "binary", **how)
    for batch, other in zip(list(loader), list(theirs), strict=True):
        check(batch, other, edge_dir=edge_dir, with_edge=False, input_type=BUYS)


@pytest.mark.parametrize("fanouts", [None, [2, 2]], ids=["seeds alone", "two hops"])
def test_subgraphs(edge_dir: str, fanouts: list[int] | None) -> None:
    dataset, graph = one_type(edge_dir)
    loader = SubGraphLoader(dataset, torch.arange(12), fanouts, batch_size=5, with_edge=True, seed=3)
    theirs = halohop.SubGraphLoader(graph, fanouts or [], torch.arange(12), batch_size=5, seed=3)
    for batch, other in zip(list(loader), list(theirs), strict=True):
        check(batch, other, edge_dir=edge_dir, with_edge=True)
        assert batch.mapping.tolist() == list(range(batch.batch_size))


def test_pygs_first_format(edge_dir: str) -> None:
    dataset, graph = one_type(edge_dir)
    loader = NeighborLoader(dataset, [3, 2], SEEDS, batch_size=4, seed=5, as_pyg_v1=True, with_edge=True)
    theirs = halohop.NeighborLoader(graph, [3, 2], SEEDS, batch_size=4, seed=5, expand="all")
    for (batch_size, n_id, adjs), other in zip(list(loader), list(theirs), strict=True):
        assert (batch_size, n_id.tolist()) == (other.batch_size, other.n_id.tolist())
        edges = other.edge_index.flip(0) if edge_dir == "out" else other.edge_index
        begin = 0
        for hop, adj in enumerate(reversed(adjs)):
            end = begin + other.num_sampled_edges[hop]
            assert isinstance(adj, EdgeIndex)
            assert torch.equal(adj.edge_index, edges[:, begin:end])
            assert torch.equal(adj.e_id, other.e_id[begin:end])
            sources, targets = sum(other.num_sampled_nodes[: hop + 2]), sum(other.num_sampled_nodes[: hop + 1])
            assert adj.size.tolist() == [sources, targets]
            assert adj.edge_index[1].max() < targets
            assert adj.to(torch.device("cpu")).edge_index is adj.edge_index
            begin = end
    without = next(iter(NeighborLoader(dataset, [3, 2], SEEDS, as_pyg_v1=True)))
    assert [adj.e_id for adj in without[2]] == [None, None]


def test_pygs_first_format_is_for_one_type() -> None:
    with pytest.raises(InputError, match=r"as_pyg_v1=True is for one type of nodes, and there are \['user', 'item'\]"):
        NeighborLoader(several_types("in")[0], [2], ("user", torch.arange(3)), as_pyg_v1=True)


def test_columns_that_are_not_wanted_are_not_read() -> None:
    graph = several_types("out")[1]
    options = options_of(graph, "item", features=False)
    assert options["node_columns"] == {"user": [], "item": ["y"]}
    assert options["edge_columns"] == {etype: [] for etype in (BUYS, BOUGHT, KNOWS)}
    assert options_of(graph, "user", with_edge=True)["edge_columns"][BUYS] == ["edge_attr", "e_id"]
    assert options_of(graph, BUYS)["node_columns"] == {"user": ["x"], "item": []}


def test_names_of_relations_are_swapped_where_both_ways_exist() -> None:
    batch = next(iter(NeighborLoader(several_types("out")[0], [-1], ("item", torch.arange(4)), batch_size=4)))
    assert isinstance(batch, HeteroData)
    buys = several_types("out")[0].get_graph(BOUGHT).topo.edge_index  # type: ignore[union-attr]
    found = batch[reverse_edge_type(BOUGHT)].edge_index  # users to items
    pairs = {(batch["user"].node[u].item(), batch["item"].node[i].item()) for u, i in found.T}
    assert pairs == {(u, i) for i, u in zip(*(ends.tolist() for ends in buys), strict=True) if i < 4}
