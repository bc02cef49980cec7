"""halohop.LinkNeighborLoader: PyG's arguments, PyG's batches."""

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from halohop import LinkNeighborLoader
from halohop.errors import IdError, InputError, SchemaError
from halohop.pyg.convert import tables_from_pyg
from halohop.testing.worlds import partitioned

WRITES = ("author", "writes", "paper")


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    return Data(
        x=torch.randn(200, 8),
        edge_index=torch.randint(200, (2, 1500)),
        edge_attr=torch.randn(1500, 3),
        seen=torch.randint(100, (200,)),
        when=torch.randint(100, (1500,)),
    )


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x = torch.randn(60, 4)
    data["author"].x = torch.randn(40, 6)
    data[WRITES].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["paper", "rev_writes", "author"].edge_index = data[WRITES].edge_index.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    return data


@pytest.mark.parametrize("disjoint", [False, True])
def test_seed_edges_are_found_in_the_batch(data, disjoint):
    index, labels = data.edge_index[:, 100:150], torch.arange(50)
    seen = []
    for batch in LinkNeighborLoader(data, [3, 2], index, labels, disjoint=disjoint, batch_size=16, shuffle=True):
        assert torch.equal(batch.n_id[batch.edge_label_index], index[:, batch.input_id])
        assert torch.equal(batch.edge_label, batch.input_id)
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert "batch_size" not in batch  # as in PyG, which counts edges
        if disjoint:
            assert torch.equal(batch.batch[batch.edge_label_index], torch.arange(len(batch.input_id)).expand(2, -1))
        else:
            assert len(torch.unique(batch.n_id)) == batch.num_nodes
        seen += batch.input_id.tolist()
    assert sorted(seen) == list(range(50))


def test_all_edges_of_a_graph(data, hetero):
    for graph in (data, partitioned(tables_from_pyg(data), 3, shard_each=True)):
        loader = LinkNeighborLoader(graph, [2], batch_size=1000)
        ends = torch.cat([batch.n_id[batch.edge_label_index] for batch in loader], dim=1)
        assert torch.equal(ends, data.edge_index)
        assert "edge_label" not in next(iter(loader))
    for named in (WRITES, ("author", "paper"), (WRITES, None)):
        batch = next(iter(LinkNeighborLoader(hetero, [2], named, batch_size=150)))
        src, dst = batch[WRITES].edge_label_index
        ends = torch.stack([batch["author"].n_id[src], batch["paper"].n_id[dst]])
        assert torch.equal(ends, hetero[WRITES].edge_index)
        assert batch["author"].num_sampled_nodes[0] == len(torch.unique(ends[0]))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"edge_label_index": torch.zeros(3, 2, dtype=torch.int64)}, InputError, r"shape \(3, 2\), expected \[2, n\]"),
        ({"edge_label_index": torch.zeros(2, 2)}, InputError, "integers, got torch.float32"),
        ({"edge_label_index": [[object()], [1]]}, InputError, "cannot be read"),
        ({"edge_label_index": [[0], [200]]}, IdError, "first is 200"),
        ({"edge_label_index": ("a", "to", "b")}, SchemaError, "unknown relation"),
        ({"edge_label": torch.zeros(3)}, InputError, "edge_label has 3 entries for 1500"),
        ({"edge_label": torch.tensor(3)}, InputError, "edge_label has shape"),
        ({"edge_label_time": torch.zeros(1500)}, InputError, "need each other"),
        ({"time_attr": "when"}, InputError, "need each other"),
        ({"time_attr": "when", "edge_label_time": torch.zeros(3)}, InputError, "edge_label_time has 3 entries"),
        ({"input_id": torch.arange(4)}, InputError, "input_id has 4 entries"),
        ({"neighbor_sampler": object()}, InputError, "leave it out"),
        ({"subgraph_type": "induced"}, NotImplementedError, "directional"),
    ],
)
def test_what_names_no_edges_is_refused(data, options, error, message):
    with pytest.raises(error, match=message):
        LinkNeighborLoader(data, [1], **options)


def test_a_graph_of_several_relations_wants_one(hetero):
    with pytest.raises(SchemaError, match="must name a relation"):
        LinkNeighborLoader(hetero, [1], hetero[WRITES].edge_index)
    with pytest.raises(SchemaError, match="unknown relation"):
        LinkNeighborLoader(hetero, [1], ("author", "reads", "paper"))
