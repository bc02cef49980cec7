"""Which attributes have rows: those that PyG's own `filter_data` takes the rows of, in every loader, whatever they are called."""

import warnings

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader.utils import filter_data, filter_hetero_data

import halohop
from halohop.typing import EDGE, NODE

NODES, EDGES = 40, 200
TO, BACK = ("a", "to", "b"), ("b", "rev_to", "a")


def ends(count: int = EDGES) -> torch.Tensor:
    return torch.randint(NODES, (2, count), generator=torch.Generator().manual_seed(count))


ATTRIBUTES = {
    "edge_attr, edge_attr_index": {"edge_attr": torch.arange(200.0), "edge_attr_index": ends()},
    "rating, rating_index": {"rating": torch.arange(EDGES), "rating_index": ends().int()},
    "edge_label, edge_label_index": {"edge_label": torch.arange(200.0), "edge_label_index": ends()},
    "an index alone": {"cell_index": torch.arange(EDGES)},
    "of nodes": {"label": torch.arange(NODES), "label_index": torch.arange(NODES) * 2},
    "of nodes, in the last dimension": {"near": torch.rand(NODES, 3), "near_index": ends(NODES)},
    "of other lengths": {"edge_label": torch.ones(7), "edge_label_index": ends(7), "pos_edge_label_index": ends(9)},
}
LOADERS = {
    "nodes": lambda data, **how: halohop.NeighborLoader(data, [3], torch.arange(20), batch_size=10, **how),
    "links": lambda data, **how: halohop.LinkNeighborLoader(data, [3], data.edge_index[:, :20], batch_size=10, **how),
    "subgraphs": lambda data, **how: halohop.SubGraphLoader(data, [3], torch.arange(20), batch_size=10, **how),
    "clusters": lambda data, **how: halohop.ClusterLoader(data, 4, batch_size=2, **how),
    "PPR": lambda data, **how: halohop.PPRLoader(data, 5, torch.arange(20), batch_size=10, **how),
    "SAINT": lambda data, **how: halohop.GraphSAINTNodeSampler(data, 20, num_steps=2, **how),
}


def plain(attributes: dict[str, torch.Tensor]) -> Data:
    return Data(edge_index=ends(), num_nodes=NODES, **attributes)


@pytest.mark.parametrize("attributes", ATTRIBUTES.values(), ids=list(ATTRIBUTES))
@pytest.mark.parametrize("loader", LOADERS)
def test_attributes_beside_an_index_are_what_pyg_makes_of_them(loader, attributes):
    data = plain(attributes)
    answers = ("edge_label", "edge_label_index") if loader == "links" else ()
    for batch in LOADERS[loader](data):
        wanted = filter_data(data, batch.n_id, *batch.edge_index, batch.e_id)
        for name in attributes.keys() - {*answers}:
            assert torch.equal(batch[name], wanted[name]), name


@pytest.mark.parametrize("attributes", ATTRIBUTES.values(), ids=list(ATTRIBUTES))
def test_attributes_of_several_types(attributes):
    data = HeteroData()
    data["a"].num_nodes = data["b"].num_nodes = NODES
    data[TO].edge_index, data[BACK].edge_index = ends(), ends(30)
    store = data["b"] if "label_index" in attributes or "near" in attributes else data[TO]
    store.update(attributes)
    for batch in halohop.NeighborLoader(data, [3, 2], ("b", torch.arange(20)), batch_size=10):
        row, col, edge = ({key: part[number] for key, part in _drawn(batch).items()} for number in range(3))
        wanted = filter_hetero_data(data, {key: batch[key].n_id for key in ("a", "b")}, row, col, edge)
        for name in attributes:
            assert torch.equal(batch[store._key][name], wanted[store._key][name]), name


def _drawn(batch: HeteroData) -> dict[tuple[str, str, str], tuple[torch.Tensor, ...]]:
    return {key: (*batch[key].edge_index, batch[key].e_id) for key in (TO, BACK)}


def test_flips_keep_rows_in_the_last_dimension():
    data = HeteroData()
    data["a"].num_nodes = data["b"].num_nodes = NODES
    for relation, count in ((TO, EDGES), (BACK, 30)):
        data[relation].edge_index, data[relation].when_index = ends(count), ends(count) + 100 * count
    batch = next(
        iter(halohop.NeighborLoader(data, [3, 2], ("b", torch.arange(20)), subgraph_type="bidirectional", batch_size=20))
    )
    for relation, partner in ((TO, BACK), (BACK, TO)):
        edges = batch[relation]
        assert edges.e_flipped.any()
        for flipped, source in ((False, relation), (True, partner)):
            own = edges.e_flipped == flipped
            assert torch.equal(edges.when_index[:, own], data[source].when_index[:, edges.e_id[own]])


def test_partitions_keep_rows_of_the_first_dimension_and_name_what_they_leave(tmp_path):
    data = plain({"edge_attr": torch.arange(200.0), "edge_attr_index": ends(), "cell_index": torch.arange(EDGES), "note": ["a"]})
    data.update({"label": torch.arange(NODES), "label_index": torch.arange(NODES) * 2, "scale": torch.tensor(3.0)})
    with pytest.warns(UserWarning, match=r"\['edge_attr_index', 'note', 'scale'\] are left out, as they have no row"):
        halohop.partition(data, tmp_path / "parts", num_parts=2, method="random")
    graph = halohop.open(tmp_path / "parts")
    assert set(graph.schema.edges[EDGE].columns) == {"edge_attr", "cell_index"}
    assert set(graph.schema.nodes[NODE].columns) == {"label", "label_index"}
    for batch in halohop.NeighborLoader(graph, [3], torch.arange(20), batch_size=10):
        assert torch.equal(batch.edge_attr.long(), batch.e_id)
        assert torch.equal(batch.label_index, batch.n_id * 2)


def test_what_one_type_keeps_another_may_leave(tmp_path):
    data = HeteroData(name="all", scale=torch.ones(3))
    data["a"].num_nodes, data["b"].num_nodes = 5, 4
    data[TO].edge_index = torch.tensor([[0, 1], [2, 3]])
    data["a"].age, data["b"].age = torch.arange(5), torch.arange(7)
    with pytest.warns(UserWarning, match=r"\['age', 'scale'\] are left out"):
        halohop.partition(data, tmp_path / "parts", num_parts=1, method="random")
    del data["b"].age, data.scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        halohop.partition(data, tmp_path / "others", num_parts=1, method="random")
