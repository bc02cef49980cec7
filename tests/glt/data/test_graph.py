"""GLT's Topology and Graph."""

import pickle

import torch

from halohop.glt.data import DeviceGroup, Feature, Graph, Topology
from tests.support.glt_data import numbers

EDGES = torch.tensor([[2, 0, 2, 1], [0, 2, 1, 2]])


def test_compressed_by_row_or_by_column() -> None:
    topo = Topology(EDGES, [10, 11, 12, 13], [1, 2, 3, 4])
    assert (topo.indptr.tolist(), topo.indices.tolist()) == ([0, 1, 2, 4], [2, 2, 0, 1])
    assert (topo.edge_ids.tolist(), topo.edge_weights.tolist()) == ([11, 13, 10, 12], [2, 4, 1, 3])
    assert (topo.degrees.tolist(), topo.row_count, topo.edge_count) == ([1, 1, 2], 3, 4)
    other = Topology(EDGES, layout="CSC")
    assert (other.indptr.tolist(), other.indices.tolist()) == ([0, 1, 2, 4], [2, 2, 0, 1])
    assert other.edge_ids.tolist() == [0, 2, 1, 3]
    assert other.edge_weights is None


def test_what_was_compressed_comes_back() -> None:
    edges = numbers(20, 2, 60)
    given = {tuple(edge) for edge in edges.T.tolist()}
    row, col, ids, _ = Topology(edges).to_csr()
    again = Topology((row, col), ids, input_layout="CSR", layout="CSC")
    sources, pointers, ids, _ = again.to_csc()
    back = Topology((sources, pointers), ids, input_layout="CSC")
    ends = back.to_coo()
    assert {*zip(ends[0].tolist(), ends[1].tolist(), strict=True)} == given
    assert torch.equal(torch.stack(ends[:2]), edges[:, ends[2]])


def test_trailing_nodes_without_edges_are_known_by_their_pointers() -> None:
    graph = Graph(Topology((torch.tensor([0, 1, 1, 1]), torch.tensor([1])), input_layout="CSR"), "CPU")
    assert (graph.row_count, graph.col_count, graph.edge_count) == (3, 2, 1)
    assert graph.halohop_graph.num_nodes == 3


def test_export_and_lists() -> None:
    graph = Graph(Topology(EDGES), "CPU")
    graph.lazy_init()
    indptr, indices, ids = graph.export_topology()
    assert (indptr.tolist(), indices.tolist(), ids.tolist()) == ([0, 1, 2, 4], [2, 2, 0, 1], [1, 3, 0, 2])
    assert graph.halohop_graph.book.edge_dir == "out"
    assert Graph(Topology(EDGES, layout="CSC"), "CPU").halohop_graph.book.edge_dir == "in"


def test_no_edges() -> None:
    topo = Topology(torch.empty(2, 0))
    assert (topo.row_count, topo.edge_count, topo.indptr.tolist()) == (0, 0, [0])


def test_goes_to_other_processes_without_what_was_made_of_it() -> None:
    graph = Graph(Topology(EDGES), "CPU")
    assert len(graph.topo.indptr) == 4
    assert graph.halohop_graph
    again = pickle.loads(pickle.dumps(graph))
    assert "halohop_graph" not in again.__dict__
    assert again.topo.indptr.tolist() == graph.topo.indptr.tolist()
    graph.topo.share_memory_()
    assert graph.topo.edge_index[0].is_shared()


def test_features_by_id() -> None:
    feature = Feature(torch.tensor([[0], [10], [20]], dtype=torch.int64), torch.tensor([2, 1, 0]))
    assert feature[torch.tensor([0, 0, 1])].tolist() == [[20.0], [20.0], [10.0]]
    assert torch.equal(feature.cpu_get(torch.tensor([2])), feature[torch.tensor([2])])
    assert feature.by_id.tolist() == [[20.0], [10.0], [0.0]]
    assert feature.by_id.dtype == torch.float32  # GLT's default
    kept = Feature(torch.ones(2, 2, dtype=torch.bfloat16), dtype=None)
    assert (kept.by_id.dtype, kept.shape, kept.size(0)) == (torch.bfloat16, (2, 2), 2)
    assert DeviceGroup(0, [0, 1]).size == 2
