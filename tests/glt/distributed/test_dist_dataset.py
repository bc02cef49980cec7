"""`DistDataset`: partitions on disk and in memory, labels, splits, other processes, and what cannot be loaded."""

import copy
import pickle
import shutil
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch

import halohop
import halohop.glt as glt
from halohop.errors import ClusterError, IdError, InputError
from halohop.glt.notes import note
from halohop.testing.worlds import free_address, random_assignment
from tests.support import glt_parts
from tests.support.glt_ranks import in_ranks

pytestmark = pytest.mark.usefixtures("alone")
DistDataset, DistNeighborLoader = glt.distributed.DistDataset, glt.distributed.DistNeighborLoader
TABLES, TYPED = glt_parts.one_type(100), glt_parts.several_types(40)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """A folder of two partitions "by source", and a file of labels."""
    return glt_parts.write_parts(TABLES, random_assignment(TABLES, 2), tmp_path_factory.mktemp("glt"), "out")


@pytest.fixture(scope="module")
def typed(tmp_path_factory):
    return glt_parts.write_parts(TYPED, random_assignment(TYPED, 2), tmp_path_factory.mktemp("typed"), "in")


def loaded(folder: Path, part: int = 0, **how) -> "DistDataset":
    data = DistDataset(edge_dir=how.pop("edge_dir", "out"))
    data.load(folder, part, "CPU", **how)
    return data


def test_a_partition_on_disk(parts):
    folder, labels = parts
    data = loaded(folder, 1, whole_node_label_file=labels)
    assert (data.num_partitions, data.partition_idx, data.edge_dir) == (2, 1, "out")
    assert data.node_features.shape == (100, 4)
    assert data.node_features.size(1) == 4
    assert data.edge_features.shape[1] == 2
    assert torch.equal(data.node_labels, TABLES.nodes["node"].columns["y"])
    assert data.get_node_types() is None
    assert data.get_edge_types() is None
    assert torch.equal(data.own_nodes()["node"], halohop.describe(folder).nodes(1))


def test_a_partition_of_several_types(typed):
    folder, labels = typed
    data = loaded(folder, edge_dir="in", whole_node_label_file=labels)
    assert data.get_node_types() == list(TYPED.nodes)
    assert data.get_edge_types() == list(TYPED.edges)
    assert data.node_features["paper"].shape == (40, 4)
    assert set(data.node_features) == {"paper", "author"}
    assert set(data.node_labels) == {"paper"}
    data.random_node_split(2, 0.25)
    own = data.own_nodes()["paper"]
    found = [split["paper"] for split in (data.train_idx, data.val_idx, data.test_idx)]
    assert [len(ids) for ids in found[1:]] == [2, round(0.25 * len(own))]
    assert torch.equal(torch.cat(found).sort().values, own)


def test_the_name_that_the_documents_have(parts):
    data = DistDataset()
    data.load(graph_dir=parts[0], partition_idx=1, graph_mode="CPU")
    assert data.partition_idx == 1


def test_another_process_gets_the_name_of_the_folder(parts):
    folder, labels = parts
    data = loaded(folder, 1, whole_node_label_file=labels)
    sent = bytes(ForkingPickler.dumps(data))
    assert len(sent) < 2000
    there = pickle.loads(sent)
    assert (there.partition_idx, there.num_partitions) == (1, 2)
    assert torch.equal(there.node_labels, data.node_labels)
    assert there.node_features.shape == (100, 4)


def test_another_process_gets_partitions_in_memory_as_they_are():
    """Their tensors are the same, which torch shares, and the graph of this process does not go along."""
    assignment = random_assignment(TABLES, 1)
    data = glt_parts.own_dataset(TABLES, assignment, 0, 1, "out")
    glt.distributed.init_worker_group(1, 0)
    (before, *_) = DistNeighborLoader(data, [3], torch.arange(20), 10, collect_features=True)
    there = copy.copy(data)  # by what is pickled
    assert there.node_labels is data.node_labels
    (after, *_) = DistNeighborLoader(there, [3], torch.arange(20), 10, collect_features=True)
    assert there.halohop_graph is not data.halohop_graph
    assert torch.equal(after.node, before.node)
    assert torch.equal(after.x, before.x)
    assert torch.equal(after.y, before.y)


def test_ranges_as_books(monkeypatch):
    """Partitions in memory whose owners are ranges of ids make the batches of those with a number for each node."""

    class Ranges:
        partition_bounds = torch.tensor([40, 100])

        def __getitem__(self, ids):
            return torch.searchsorted(self.partition_bounds, ids, right=True)

    assignment = {"node": (torch.arange(100) >= 40).int()}
    found = []
    for book in (assignment["node"], Ranges()):
        master = free_address()

        def rank(number: int, book=book, master=master):
            data = glt_parts.own_dataset(TABLES, assignment, number, 2, "out", {"node": book})
            host, port = master.split(":")
            options = glt.distributed.MpDistSamplingWorkerOptions(master_addr=host, master_port=port, rpc_timeout=60)
            assert data.own_nodes()["node"].tolist() == (list(range(40)) if number == 0 else list(range(40, 100)))
            loader = DistNeighborLoader(data, [3], torch.arange(20), 5, collect_features=True, worker_options=options)
            return [(batch.node.tolist(), batch.x.tolist(), batch.y.tolist()) for batch in loader]

        found.append(in_ranks(2, rank))
    assert found[0] == found[1]


def test_features_wherever_they_lie(parts):
    folder, labels = parts
    master, x = free_address(), TABLES.nodes["node"].columns["x"]
    ids = torch.tensor([3, 99, 0, 50])

    def rank(number: int) -> None:
        data = loaded(folder, number, whole_node_label_file=labels)
        with pytest.raises(InputError, match="not open yet; make a loader first"):
            data.node_features[ids]
        host, port = master.split(":")
        options = glt.distributed.CollocatedDistSamplingWorkerOptions(host, port, rpc_timeout=60)
        DistNeighborLoader(data, [3], torch.arange(5), worker_options=options)
        assert torch.equal(data.node_features[ids], x[ids])
        owner = random_assignment(TABLES, 2)["node"]
        edge_owner = owner[TABLES.edges[("node", "to", "node")].src.long()]
        books = glt.distributed.DistGraph(2, number, None, data.node_pb, data.edge_pb)
        assert torch.equal(books.get_node_partitions(ids), owner[ids].long())
        assert torch.equal(books.get_edge_partitions(ids), edge_owner[ids].long())
        rows = glt.distributed.DistFeature(2, number, data.node_features, owner)
        assert torch.equal(rows[ids], x[ids])
        assert torch.equal(rows.async_get(ids).wait(), x[ids])
        assert torch.equal(rows.local_get(ids[:1]), x[ids[:1]])

    in_ranks(2, rank)


def test_one_graph_a_process(parts):
    """The port of a second loader changes nothing, and is said once."""
    folder, _ = parts
    first, second = free_address().split(":"), free_address().split(":")

    def rank(number: int) -> int:
        data = loaded(folder, number)
        graphs = []
        for host, port in (first, second, first):
            options = glt.distributed.MpDistSamplingWorkerOptions(master_addr=host, master_port=port, rpc_timeout=60)
            DistNeighborLoader(data, [3], torch.arange(5), worker_options=options)
            graphs.append(data.halohop_graph)
        return len(set(map(id, graphs)))

    note.cache_clear()
    with pytest.warns(UserWarning, match="master_port changes nothing here"):
        assert in_ranks(2, rank) == [1, 1]


def test_partitions_that_cannot_be_loaded(parts, tmp_path):
    folder, _ = parts
    with pytest.raises(
        InputError, match=r"partition_idx=2 is not in .*, which holds \[0, 1\] of 2 partitions; name one of these"
    ):
        loaded(folder, 2)
    with pytest.raises(InputError, match=r"edge_dir='in', but .* was divided for 'out'; make DistDataset\(edge_dir='out'\)"):
        loaded(folder, edge_dir="in")
    shutil.copytree(folder, tmp_path / "one", ignore=shutil.ignore_patterns("part-0000"))
    with pytest.raises(InputError, match=r"partition_idx=0 is not in .*, which holds \[1\] of 2"):
        loaded(tmp_path / "one")
    (tmp_path / "glt").mkdir()
    (tmp_path / "glt" / "META").write_bytes(b"")
    with pytest.raises(InputError, match=r"glt is GLT's; convert it: halohop partition 'glt:.*glt' OUT --edge-dir out, and load"):
        loaded(tmp_path / "glt")
    torch.save(torch.zeros(99), tmp_path / "short.pt")
    with pytest.raises(InputError, match=r"short\.pt has 99 labels, but there are 100 nodes of 'node'; give one for every node"):
        loaded(folder, whole_node_label_file=tmp_path / "short.pt")
    torch.save({"y": print}, tmp_path / "objects.pt")
    with pytest.raises(InputError, match=r"objects\.pt is not read: .*only a tensor is taken from it"):
        loaded(folder, whole_node_label_file=tmp_path / "objects.pt")


def test_loaders_that_cannot_work(parts):
    folder, labels = parts
    data = loaded(folder, whole_node_label_file=labels)
    with pytest.raises(InputError, match="a distributed loader needs to know which process this is; call init_worker_group"):
        DistNeighborLoader(data, [3], torch.arange(5))
    glt.distributed.init_worker_group(1, 0)
    with pytest.raises(InputError, match="data=None: only clients of servers have no dataset"):
        DistNeighborLoader(None, [3], torch.arange(5))
    with pytest.raises(InputError, match="has no partition yet; call load"):
        DistNeighborLoader(DistDataset(), [3], torch.arange(5))
    with pytest.raises(ClusterError, match=r"partitions? \[?1"):
        DistNeighborLoader(data, [3], torch.arange(5))


def test_what_one_process_asks_of_a_whole_graph(tmp_path):
    folder, _ = glt_parts.write_parts(TYPED, random_assignment(TYPED, 1), tmp_path, "out")
    data = loaded(folder)
    glt.distributed.init_worker_group(1, 0)
    seeds = ("paper", torch.arange(5))
    with pytest.raises(InputError, match="with_weight=True, but the graph has no weights; give edge_weights"):
        DistNeighborLoader(data, [3], seeds, with_weight=True)
    with pytest.raises(InputError, match="edge_dir='in', but this graph has the out-edges of its nodes"):
        DistNeighborLoader(data, [3], seeds, edge_dir="in")
    with pytest.raises(IdError, match="the first is 40"):
        DistNeighborLoader(data, [3], ("paper", torch.tensor([3, 40])))
    with pytest.raises(InputError, match="unknown relation"):
        DistNeighborLoader(data, {("paper", "likes", "paper"): [3]}, seeds)


def test_what_loaders_have_read_is_not_changed_later(tmp_path):
    folder, _ = glt_parts.write_parts(TABLES, random_assignment(TABLES, 1), tmp_path, "out")
    data = loaded(folder)
    glt.distributed.init_worker_group(1, 0)
    loader = DistNeighborLoader(data, [3], torch.arange(5))
    with pytest.raises(InputError, match="node_labels changes nothing: loaders have opened the graph"):
        data.init_node_labels(torch.arange(100))
    with pytest.raises(InputError, match="node_features changes nothing"):
        data.init_node_features(torch.zeros(100, 1), with_gpu=False)
    with pytest.raises(InputError, match="stored changes nothing"):
        data.load(folder, 0, "CPU")
    data.init_node_split((torch.arange(3), None, None))
    assert len(loader) == 5


def test_edges_without_ids_are_numbered_as_they_are_given():
    edges, rows = torch.tensor([[2, 0, 1, 2, 0], [0, 1, 2, 1, 2]]), torch.arange(5.0).view(5, 1)
    graph = glt.data.Graph(glt.data.Topology(edges), "CPU")
    feature = glt.data.Feature(rows, with_gpu=False)
    data = DistDataset(graph_partition=graph, edge_feature_partition=feature, node_pb=torch.zeros(3, dtype=torch.int64))
    glt.distributed.init_worker_group(1, 0)
    (batch,) = DistNeighborLoader(data, [-1], torch.arange(3), 3, with_edge=True, collect_features=True)
    assert torch.equal(edges[:, batch.edge], batch.node[batch.edge_index.flip(0)])
    assert torch.equal(batch.edge_attr, rows[batch.edge])


def test_features_that_are_too_few():
    graph = glt.data.Graph(glt.data.Topology(torch.tensor([[2, 0], [0, 1]])), "CPU")
    data = DistDataset(
        1, 0, graph, glt.data.Feature(torch.zeros(2, 1), with_gpu=False), node_pb=torch.zeros(3, dtype=torch.int64)
    )
    glt.distributed.init_worker_group(1, 0)
    with pytest.raises(InputError, match="an id has no row, of 2 rows"):
        DistNeighborLoader(data, [3], torch.arange(3))


def test_a_master_that_is_not_reached(parts):
    folder, _ = parts
    host, port = free_address().split(":")
    glt.distributed.init_worker_group(2, 1)
    options = glt.distributed.MpDistSamplingWorkerOptions(master_addr=host, master_port=port, rpc_timeout=0.5)
    with pytest.raises(ClusterError, match=rf"no store answers at {host}:{port} within 0\.5 s; was rank 0 started"):
        DistNeighborLoader(loaded(folder, 1), [3], torch.arange(5), worker_options=options)


def test_ranks_of_different_world_sizes(parts):
    folder, _ = parts
    host, port = free_address().split(":")

    def rank(number: int) -> str:
        glt.distributed.init_worker_group(2 + number, number)
        options = glt.distributed.MpDistSamplingWorkerOptions(master_addr=host, master_port=port, rpc_timeout=1)
        with pytest.raises(ClusterError) as caught:
            DistNeighborLoader(loaded(folder, number), [3], torch.arange(5), worker_options=options)
        return str(caught.value)

    first, second = in_ranks(2, rank)
    assert "rank 1 was started as one of 3 ranks, and rank 0 as one of 2; give all the same world size" in first
    # Rank 0 has refused by then, and where its process is sooner gone than the second passes, so is its store.
    assert "rank 2 did not come within 1 s" in second or "(kept by rank 0's process, or by what started it) is gone" in second


def test_ranks_with_other_partitions_of_another_data_set(parts, tmp_path):
    folder, _ = parts
    other, _ = glt_parts.write_parts(glt_parts.one_type(120), random_assignment(glt_parts.one_type(120), 2), tmp_path, "out")
    master = free_address().split(":")

    def rank(number: int) -> None:
        options = glt.distributed.MpDistSamplingWorkerOptions(master_addr=master[0], master_port=master[1], rpc_timeout=20)
        with pytest.raises(ClusterError, match="opened another data set"):
            DistNeighborLoader(loaded((folder, other)[number], number), [3], torch.arange(5), worker_options=options)

    in_ranks(2, rank)
