"""What code written for PyG's loaders relies on, row by row of the first table in docs/guide/pyg.md."""

import gc
import itertools
import re
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
import torch_geometric.transforms as transforms
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ClusterData, NodeLoader
from torch_geometric.loader import LinkNeighborLoader as PyGLinkNeighborLoader
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.nn import GraphSAGE
from torch_geometric.sampler import NumNeighbors
from torch_geometric.testing import MyFeatureStore, MyGraphStore
from torch_geometric.typing import TensorFrame

import halohop
from halohop import ClusterLoader, HalohopSampler, LinkNeighborLoader, NeighborLoader

RATES, RATED = ("user", "rates", "item"), ("item", "rated_by", "user")
INLINE = {"num_workers": 0, "batch_size": 8}


def plain(num_nodes: int = 40, num_edges: int = 100) -> Data:
    torch.manual_seed(0)
    data = Data(x=torch.randn(num_nodes, 4), y=torch.arange(num_nodes) % 3, edge_index=torch.randint(num_nodes, (2, num_edges)))
    data.edge_attr = torch.randn(num_edges, 2)
    return data


def typed() -> HeteroData:
    torch.manual_seed(1)
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(20, 3), torch.randn(30, 3)
    data[RATES].edge_index = torch.stack([torch.randint(20, (80,)), torch.randint(30, (80,))])
    return data


def first(data, **options):
    return next(iter(NeighborLoader(data, [3, 2], **(INLINE | options))))


def check_rows(batch: Data, data: Data) -> None:
    """Every batch row is the row that the data has now."""
    assert torch.equal(batch.x, data.x[batch.n_id])
    assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


def splits(data, **options):
    """What RandomLinkSplit makes of the data, in all combinations of its switches."""
    switches = ("is_undirected", "split_labels", "add_negative_train_samples")
    for flags in itertools.product([False, True], repeat=3):
        for ratio, key in itertools.product([0.0, 0.3], ["edge_label", "rating"]):
            named = dict(zip(switches, flags, strict=True)) | {"disjoint_train_ratio": ratio, "key": key}
            train, _, test = transforms.RandomLinkSplit(num_val=0.0, num_test=0.1, **named, **options)(data)
            for part in (train, test):
                yield part, ("pos_" if named["split_labels"] else "") + key


def test_every_random_link_split_of_one_type():
    data = transforms.ToUndirected()(plain())
    for part, key in splits(data):
        pairs, labels = part[f"{key}_index"], part.get(key)
        batch = first(part)
        check_rows(batch, part)
        assert torch.equal(batch[f"{key}_index"], pairs[:, batch.e_id] if pairs.size(1) == part.num_edges else pairs)
        links = next(iter(LinkNeighborLoader(part, [2, 2], pairs, labels, **INLINE)))
        check_rows(links, part)
        assert torch.equal(links.n_id[links.edge_label_index], pairs[:, :8])
        assert labels is None or torch.equal(links.edge_label, labels[:8])


def test_every_random_link_split_of_several_types():
    data = typed()
    data[RATED].edge_index = data[RATES].edge_index.flip(0)
    for part, key in splits(data, edge_types=[RATES], rev_edge_types=[RATED]):
        store = part[RATES]
        pairs, labels = store[f"{key}_index"], store.get(key)
        batch = first(part, input_nodes="user")
        assert torch.equal(batch["item"].x, part["item"].x[batch["item"].n_id])
        some = pairs[:, batch[RATES].e_id] if pairs.size(1) == store.num_edges else pairs
        assert torch.equal(batch[RATES][f"{key}_index"], some)
        links = next(iter(LinkNeighborLoader(part, [2, 2], (RATES, pairs), labels, **INLINE)))
        ends = links[RATES].edge_label_index
        assert torch.equal(links["user"].n_id[ends[0]], pairs[0, :8])
        assert torch.equal(links["item"].n_id[ends[1]], pairs[1, :8])
        assert labels is None or torch.equal(links[RATES].edge_label, labels[:8])


def test_rows_in_another_dimension():
    data = plain()
    data.face = torch.randint(9, (3, 40))  # PyG keeps these rows in the last dimension, by their name
    batch = first(data)
    assert torch.equal(batch.face, data.face[:, batch.n_id])


def test_rows_of_numpy():
    data = plain()
    data.price = np.arange(40, dtype=np.float32)
    batch = first(data)
    assert torch.equal(batch.price, batch.n_id.float())


class Frame(TensorFrame):
    """As much of a TensorFrame as loaders use: a length, and selection by index."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Tensor) -> "Frame":
        return Frame(self.rows[index])


def test_tensor_frames():
    data = plain()
    data.table = Frame(torch.arange(40))
    batch = first(data)
    assert torch.equal(batch.table.rows, batch.n_id)


CHANGES = {
    "bound": lambda data: data.update({"x": data.x + 1}),
    "written": lambda data: (data.x.mul_(2), data.edge_attr.zero_()),
    "added": lambda data: data.update({"z": torch.arange(40)}),
    "whole": lambda data: data.update({"threshold": 0.5}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("options", [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 1, "run": "processes"}])
def test_changes_between_batches_are_seen(change, options):
    """Also by batches that were made ahead of the change."""
    data = plain()
    loader = NeighborLoader(data, [3, 2], batch_size=4, persistent_workers=True, **options)
    for _ in range(2):
        batches = iter(loader)
        check_rows(next(batches), data)
        CHANGES[change](data)
        for batch in batches:
            check_rows(batch, data)
            assert change != "added" or torch.equal(batch.z, batch.n_id)
            assert change != "whole" or batch.threshold == 0.5


SPARSE_CHANGES = {
    "bound": lambda data: data.update({"x": torch.rand(20, 4).to_sparse()}),
    "written": lambda data: data.x.mul_(2),
    "values written": lambda data: data.x.values().add_(1),
    "dense": lambda data: data.update({"x": torch.rand(20, 4)}),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("change", SPARSE_CHANGES)
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_changes_of_sparse_columns_are_seen(layout, change):
    """Also by batches that were made ahead of the change."""
    x = torch.rand(20, 4) * (torch.rand(20, 4) < 0.5)
    data = Data(x=x.to_sparse(layout=layout), edge_index=torch.randint(20, (2, 60)))
    batches = iter(NeighborLoader(data, [2], batch_size=2, num_workers=1))
    assert torch.equal((batch := next(batches)).x, x[batch.n_id])
    SPARSE_CHANGES[change](data)
    now = data.x if data.x.layout == torch.strided else data.x.to_dense()
    assert not torch.equal(now, x)
    for batch in batches:
        assert torch.equal(batch.x, now[batch.n_id])


def test_processes_are_forked_anew_after_a_change():
    """Or all batches of the next epochs would be made twice."""
    data = plain()
    loader = NeighborLoader(data, [3], batch_size=20, persistent_workers=True, num_workers=1, run="processes")
    for _ in range(2):
        for batch in loader:
            check_rows(batch, data)
        data.x.add_(1)
    assert loader.statistics().get("batches_remade", 0) == 0


def test_a_change_while_a_batch_is_made():
    """The attributes are gone through in a thread that makes batches, or at their end; the user's thread deletes one of them."""
    changes = []

    class Changing(Data):
        def __cat_dim__(self, key, value, *args, **kwargs):
            if key == "x" and changes:
                changes.pop()()
            return super().__cat_dim__(key, value, *args, **kwargs)

    data = Changing(**plain().to_dict(), z=torch.arange(40))
    batches = iter(NeighborLoader(data, [3, 2], batch_size=4, num_workers=0))
    assert "z" in next(batches)
    changes.append(lambda: data.pop("z"))
    data.x = data.x + 1
    for batch in batches:
        assert "z" not in batch
        check_rows(batch, data)
    assert not changes


def test_former_processes_leave_no_memory_behind():
    """They were forked before a change, and what they shared with this process is mapped until nobody refers to it."""
    data = plain()
    loader = NeighborLoader(data, [3], batch_size=20, persistent_workers=True, num_workers=1, run="processes")
    former = []
    for _ in range(3):
        for batch in loader:
            check_rows(batch, data)
        former.append(weakref.ref(loader._kept.processes))
        data.x.add_(1)
    gc.collect()
    assert [processes() is None for processes in former] == [True, True, False]


def test_an_iterator_survives_that_another_one_begins_after_a_change():
    """The processes of the first one serve it to its end."""
    data = plain()
    loader = NeighborLoader(data, [3], batch_size=4, persistent_workers=True, num_workers=1, run="processes")
    first = iter(loader)
    check_rows(next(first), data)
    data.x.add_(1)
    second = iter(loader)
    check_rows(next(second), data)
    for batch in (*first, *second):
        check_rows(batch, data)


def test_deleted_columns_are_gone():
    data = plain()
    loader = NeighborLoader(data, [3, 2], batch_size=4)
    batches = iter(loader)
    assert "x" in next(batches)
    del loader.data.x
    loader.data.num_nodes = 40
    loader.data.n_id = torch.arange(40) + 1000
    for batch in batches:
        assert "x" not in batch
        assert batch.num_nodes == len(batch.n_id)
        assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id + 1000)


def test_features_that_learn():
    """Gradients reach them, and no batch has rows from before a step of the optimizer."""
    data = plain()
    data.x = torch.nn.Parameter(data.x)
    optimizer = torch.optim.SGD([data.x], lr=0.1)
    for batch in NeighborLoader(data, [3], batch_size=10, num_workers=2):
        assert torch.equal(batch.x, data.x[batch.n_id])
        optimizer.zero_grad()
        batch.x.sum().backward()
        assert torch.equal(data.x.grad.nonzero()[:, 0].unique(), batch.n_id.sort().values)
        optimizer.step()


def test_columns_on_another_device_are_gathered_there():
    """Any device that is not the CPU goes this way; here one that computes shapes alone."""
    data = plain()
    data.far = torch.ones(40, 5, device="meta")
    batch = first(data)
    assert batch.far.device.type == "meta"
    assert batch.far.shape == (batch.num_nodes, 5)
    padded = first(data, pad="bound")
    assert padded.far.shape == (len(padded.n_id), 5)


def test_a_loader_called_with_a_mask():
    data = plain()
    mask = torch.zeros(40, dtype=torch.bool)
    mask[[7, 9, 30]] = True
    for loader in (NeighborLoader(data, [3]), LinkNeighborLoader(data, [3], edge_label_index=data.edge_index[:, :40])):
        assert loader(mask).input_id.tolist() == [7, 9, 30]
        assert loader([30, 7]).input_id.tolist() == [30, 7]
        assert loader(mask.numpy()).input_id.tolist() == [7, 9, 30]


class Marked(NeighborLoader):
    def filter_fn(self, batch):
        batch = super().filter_fn(batch)
        batch.marks = batch.get("marks", 0) + 1
        return batch


@pytest.mark.parametrize("options", [{"num_workers": 0}, {"num_workers": 1}, {"num_workers": 1, "run": "processes"}])
def test_filter_fn_of_a_subclass_is_called_once(options):
    loader = Marked(plain(), [3], batch_size=20, **options)
    assert [batch.marks for batch in loader] == [1, 1]
    assert loader([1]).marks == 1
    assert loader.filter_fn(loader.collate_fn([1])).marks == 1


def test_transform_may_be_set_later():
    loader = NeighborLoader(plain(), [3], **INLINE)
    loader.transform = lambda batch: batch.num_nodes
    assert isinstance(next(iter(loader)), int)


NAMES = ("raw_id", "edge_id", "n/a", "indptr", "halo", ".", "degree node__to__node", "a__b", "x y")


@pytest.mark.parametrize("name", NAMES)
def test_attributes_of_any_name(name, tmp_path):
    data, cites = HeteroData(), ("paper", "cites", "paper")
    data["paper"].num_nodes = 40
    data[cites].edge_index = plain().edge_index
    data["paper"][name], data[cites][name] = torch.arange(40) + 500, torch.arange(100) + 700
    halohop.partition(data, tmp_path / "parts", num_parts=2, method="random", halo=("raw_id",))
    for graph in (data, halohop.open(tmp_path / "parts")):
        batch = next(iter(NeighborLoader(graph, [3], input_nodes="paper", **INLINE)))
        assert batch["paper"].n_id[:8].tolist() == list(range(8))
        assert torch.equal(batch["paper"][name], batch["paper"].n_id + 500)
        assert torch.equal(batch[cites][name], batch[cites].e_id + 700)
        assert torch.equal(batch["paper"].n_id[batch[cites].edge_index], data[cites].edge_index[:, batch[cites].e_id])


def test_seed_edges_of_a_relation_that_the_graph_does_not_have():
    data = typed()
    likes, pairs = ("user", "likes", "item"), torch.tensor([[3, 4], [5, 6]])
    batch = next(iter(LinkNeighborLoader(data, [3], (likes, pairs), neg_sampling="binary", **INLINE)))
    ends = batch[likes].edge_label_index
    assert torch.equal(batch["user"].n_id[ends[0, :2]], pairs[0])
    assert torch.equal(batch["item"].n_id[ends[1, :2]], pairs[1])
    assert batch[likes].edge_label.tolist() == [1, 1, 0, 0]


def test_bidirectional_sampling_falls_back_to_the_only_relation_back():
    data = typed()
    data[RATED].edge_index = data[RATES].edge_index.flip(0)[:, :50]
    batch = first(data, input_nodes="user", subgraph_type="bidirectional")
    there, back = batch[RATES], batch[RATED]
    assert len(there.e_id)
    assert {tuple(pair) for pair in there.edge_index.T.tolist()} == {tuple(pair) for pair in back.edge_index.flip(0).T.tolist()}


def test_attributes_of_node_loaders():
    data, nodes = plain(), torch.tensor([5, 2])
    double = lambda batch: batch  # noqa: E731
    loader = NeighborLoader(data, [3], nodes, transform=double, filter_per_worker=True, input_id=torch.tensor([8, 9]), **INLINE)
    assert isinstance(loader, PyGNeighborLoader | NodeLoader)
    assert loader.data is data
    assert loader.transform is double
    assert loader.transform_sampler_output is None
    assert (loader.input_nodes is nodes, loader.input_time, loader.input_type) == (True, None, None)
    assert loader.input_id.tolist() == [8, 9]
    assert (loader.filter_per_worker, loader.custom_cls, loader.batch_size, loader.num_workers) == (True, None, 8, 0)
    assert isinstance(loader.num_neighbors, NumNeighbors)
    assert len(loader.node_sampler.num_neighbors) == 1
    assert (loader.input_data.node.tolist(), loader.input_data.input_id.tolist()) == ([5, 2], [8, 9])
    sampled = loader.node_sampler.sample_from_nodes(loader.input_data)
    assert sampled.node[:2].tolist() == [5, 2]
    assert NeighborLoader(typed(), [3], "item").input_type == "item"


def test_attributes_of_link_loaders():
    pairs, labels = torch.tensor([[3, 4], [5, 6]]), torch.tensor([1, 2])
    loader = LinkNeighborLoader(typed(), [3], (RATES, pairs), labels, neg_sampling="binary", **INLINE)
    assert isinstance(loader, PyGLinkNeighborLoader)
    assert loader.input_type == RATES
    assert loader.neg_sampling.is_binary()
    assert loader.edge_label_index[1] is pairs
    assert (loader.input_data.row.tolist(), loader.input_data.col.tolist()) == ([3, 4], [5, 6])
    assert loader.link_sampler.sample_from_edges(loader.input_data).num_sampled_nodes["user"][0] == 2


def test_repr_is_that_of_pyg():
    data = plain()
    assert repr(NeighborLoader(data, [3])) == repr_of(PyGNeighborLoader, data) == "NeighborLoader()"
    assert repr(LinkNeighborLoader(data, [3])) == repr_of(PyGLinkNeighborLoader, data) == "LinkNeighborLoader()"


@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def repr_of(kind, data):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repr(kind(data, [3]))


def test_keywords_of_torch():
    """Each changes what it is to change, or needs no heed here; none is refused."""
    data, started = plain(), []
    loader = NeighborLoader(
        data,
        [3],
        batch_size=16,
        drop_last=True,
        shuffle=True,
        num_workers=1,
        prefetch_factor=3,
        persistent_workers=True,
        pin_memory=False,
        pin_memory_device="",
        timeout=30,
        worker_init_fn=started.append,
        generator=torch.Generator().manual_seed(5),
        in_order=False,
        multiprocessing_context=None,
        collate_fn=None,
    )
    seeds = [batch.input_id for batch in loader]
    assert [len(ids) for ids in seeds] == [16, 16]
    assert started == [0]
    assert (loader.prefetch_factor, loader.timeout, loader.in_order, loader.pin_memory) == (3, 30, False, False)
    assert (loader.num_workers, loader.persistent_workers, loader.drop_last, loader.batch_size) == (1, True, True, 16)
    again = NeighborLoader(data, [3], batch_size=16, shuffle=True, seed=5)
    assert torch.equal(next(iter(again)).input_id, seeds[0])
    ordered = NeighborLoader(data, [3], sampler=[4, 2], batch_size=2)
    assert next(iter(ordered)).input_id.tolist() == [4, 2]
    grouped = NeighborLoader(data, [3], batch_sampler=[[1], [5, 6]])
    assert [batch.input_id.tolist() for batch in grouped] == [[1], [5, 6]]


def test_inference_of_pyg_models():
    data = plain()
    torch.manual_seed(0)
    model = GraphSAGE(4, 8, num_layers=2, out_channels=3).eval()
    loader = NeighborLoader(data, [-1], batch_size=7)
    with torch.no_grad():
        torch.testing.assert_close(model.inference(loader), model(data.x, data.edge_index))


def test_stores_of_several_types():
    data, stores = typed(), (MyFeatureStore(), MyGraphStore())
    for name in ("user", "item"):
        stores[0].put_tensor(data[name].x, group_name=name, attr_name="x", index=None)
    stores[1].put_edge_index(data[RATES].edge_index, edge_type=RATES, layout="coo", size=(20, 30))
    from_stores, from_data = (NeighborLoader(source, [3, 2], "item", batch_size=8) for source in (stores, data))
    for batch, expected in zip(from_stores, from_data, strict=True):
        for name in ("user", "item"):
            assert torch.equal(batch[name].x, expected[name].x)
            assert torch.equal(batch[name].n_id, expected[name].n_id)
        assert torch.equal(batch[RATES].edge_index, expected[RATES].edge_index)
        assert torch.equal(batch[RATES].e_id, expected[RATES].e_id)
    links = next(iter(LinkNeighborLoader(stores, [3], (RATES, torch.tensor([[1], [2]])))))
    assert links["user"].n_id[links[RATES].edge_label_index[0]].tolist() == [1]


def test_stores_of_one_type():
    class Own(Data):
        pass

    data, stores = plain(), (MyFeatureStore(), MyGraphStore())
    stores[0].put_tensor(data.x, group_name=None, attr_name="x", index=None)
    stores[0].put_tensor(torch.arange(40), group_name=None, attr_name="time", index=None)
    stores[1].put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(40, 40))
    batch = first(stores, input_nodes=torch.arange(10), custom_cls=Own)
    assert type(batch) is Own
    assert torch.equal(batch.x, data.x[batch.n_id])
    timed = first(stores, input_nodes=torch.tensor([20]), time_attr="time", input_time=torch.tensor([15]))
    assert (timed.n_id[1:] <= 15).all()
    padded = first(stores, input_nodes=torch.arange(10), pad="bound")
    assert padded.x[~padded.node_mask].abs().sum() == 0


def test_integer_weights():
    data = plain()
    data.count = torch.randint(0, 3, (100,))
    data.share = data.count.float()
    whole, parts = (NeighborLoader(data, [2, 2], weight_attr=name, **INLINE) for name in ("count", "share"))
    for one, other in zip(whole, parts, strict=True):
        assert torch.equal(one.e_id, other.e_id)
        assert (one.count > 0).all()


class Divided(ClusterData):
    """Divided without METIS, which needs pyg-lib."""

    def _metis(self, edge_index, num_nodes):
        return torch.arange(num_nodes) % 4


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_cluster_data(layout):
    data = plain()
    data.name = torch.arange(40)
    clustered = Divided(data, 4, log=False, sparse_format=layout)
    loader = ClusterLoader(clustered, batch_size=2)
    seen = []
    for batch in loader:
        assert len({int(name) % 4 for name in batch.name}) == 2
        whole = {tuple(pair) for pair in data.edge_index.T.tolist()}
        assert {tuple(pair) for pair in batch.name[batch.edge_index].T.tolist()} <= whole
        assert torch.equal(batch.x, data.x[batch.name])
        seen += batch.name.tolist()
    assert sorted(seen) == list(range(40))


def test_a_sampler_reads_no_features():
    """What has no rows that the kernels know does not concern it, and what it sends to a worker has none."""
    import pickle

    data = plain()
    data.x = torch.ones(40, 10_000)
    data.weight = torch.rand(100)
    data.far = torch.ones(40, 5, device="meta")
    sampler = HalohopSampler(data, [3, 2], weight_attr="weight", seed=7)
    sent = pickle.dumps(sampler)
    assert len(sent) < 20_000
    loaders = [NodeLoader(data, one, input_nodes=torch.arange(8), batch_size=8) for one in (sampler, pickle.loads(sent))]
    one, other = (next(iter(loader)) for loader in loaders)
    assert torch.equal(one.n_id, other.n_id)
    assert torch.equal(one.e_id, other.e_id)


@pytest.mark.full
def test_spawned_workers_open_the_folder(tmp_path):
    """PyG's loaders send the sampler to their workers, and these open the graph by its path."""
    data = plain()
    halohop.partition(data, tmp_path / "parts", num_parts=2, method="random")
    graph = halohop.open(tmp_path / "parts")
    sampler = HalohopSampler(graph, [3, 2], seed=3)
    options = {"input_nodes": torch.arange(8), "batch_size": 8}
    here = next(iter(NodeLoader(data, sampler, **options)))
    (there,) = NodeLoader(data, sampler, num_workers=1, multiprocessing_context="spawn", **options)
    assert torch.equal(here.n_id, there.n_id)
    assert torch.equal(there.x, data.x[there.n_id])


@pytest.mark.parametrize(
    ("section", "module"), [("What works", "test_contract"), ("What does not work", "test_contract_refused")]
)
def test_docs_and_tests_agree(section, module):
    """Every row of the tables names its tests, and every test has a row."""
    text = (Path(__file__).parents[2] / "docs" / "guide" / "pyg.md").read_text()
    rows = text.split(f"### {section}\n")[1].split("\n#")[0]
    told = set(re.findall(r"`(test_\w+)`", rows))
    tests = set(re.findall(r"^def (test_\w+)", (Path(__file__).parent / f"{module}.py").read_text(), re.MULTILINE))
    assert told == tests - {"test_docs_and_tests_agree"}
