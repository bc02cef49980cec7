"""What of PyG's contract is refused, and that the error names it: row by row of the second table in docs/guide/pyg.md."""

import pickle

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader as PyGNeighborLoader
from torch_geometric.testing import MyFeatureStore, MyGraphStore

import halohop
from halohop import ClusterLoader, HalohopFeatureStore, HalohopGraphStore, HalohopSampler, LinkNeighborLoader, NeighborLoader
from halohop.errors import InputError, SchemaError
from halohop.pyg.convert import _brought

RATES = ("user", "rates", "item")


def plain() -> Data:
    torch.manual_seed(0)
    return Data(x=torch.randn(40, 4), edge_index=torch.randint(40, (2, 100)), edge_attr=torch.randn(100, 2))


def typed() -> HeteroData:
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(20, 3), torch.randn(30, 3)
    data[RATES].edge_index = torch.stack([torch.randint(20, (80,)), torch.randint(30, (80,))])
    return data


def test_adjacency_matrices():
    with pytest.raises(InputError, match="adj_t"):
        NeighborLoader(Data(x=torch.eye(2), adj_t=torch.eye(2).to_sparse()), [2])


def test_attributes_that_are_lists_of_rows():
    data = plain()
    data.words = ["word"] * 40
    with pytest.raises(InputError, match="'words' of type list"):
        NeighborLoader(data, [2])


NOT_TAKEN = {
    "requires a gradient": ("x", torch.eye(4).to_sparse().requires_grad_()),
    "lies on meta": ("x", torch.sparse_coo_tensor(size=(4, 4), device="meta", check_invariants=False)),
    "sparse in both dimensions": ("x", torch.eye(4).to_sparse(1)),
    "with a row per node": ("index_of_words", torch.eye(4).to_sparse()),  # PyG: rows are in the last dimension
}


@pytest.mark.parametrize("why", NOT_TAKEN)
def test_sparse_columns_that_cannot_be_taken_are_refused(why):
    """And do not come without their gradient, or with columns for rows."""
    name, column = NOT_TAKEN[why]
    data = Data(num_nodes=4, edge_index=torch.tensor([[0], [1]]), **{name: column})
    with pytest.raises(InputError, match=f"{name!r}.*{why}.*to_dense"):
        NeighborLoader(data, [-1])


def test_features_of_another_length():
    data = plain()
    loader = NeighborLoader(data, [2], num_workers=0)
    data.x = torch.ones(39, 2)
    with pytest.raises(InputError, match="'x' has 39 rows, but there are 40"):
        next(iter(loader))


@pytest.mark.parametrize("options", [{"num_workers": 0}, {"num_workers": 1}])
def test_other_edges_after_construction(options):
    data = plain()
    loader = NeighborLoader(data, [2], batch_size=4, **options)
    batches = iter(loader)
    next(batches)
    data.edge_index = data.edge_index[:, :50]
    with pytest.raises(InputError, match=r"50 edges .* but had 100 at first; make the loader anew"):
        list(batches)


def test_other_types_after_construction():
    data = typed()
    loader = NeighborLoader(data, [2], "item", num_workers=0)
    data["shop"].x = torch.ones(3, 1)
    with pytest.raises(InputError, match=r"has got .*'shop'.*; make the loader anew"):
        next(iter(loader))


class Collating(NeighborLoader):
    def collate_fn(self, index):
        return super().collate_fn(index)


def test_another_collate_fn():
    with pytest.raises(InputError, match=r"Collating overrides collate_fn.*filter_fn"):
        Collating(plain(), [2])
    loader = NeighborLoader(plain(), [2])
    loader.collate_fn = list
    with pytest.raises(InputError, match="collate_fn"):
        iter(loader)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("collate_fn", list),
        ("dataset", [1]),
        ("multiprocessing_context", "spawn"),
        ("pin_memory_device", "xpu"),
        ("custom_cls", Data),
    ],
)
def test_keywords_without_meaning(keyword, value):
    with pytest.raises(InputError, match=f"{keyword}=.*leave it out"):
        NeighborLoader(plain(), [2], **{keyword: value})
    with pytest.raises(TypeError, match="'batchsize' is no keyword"):
        NeighborLoader(plain(), [2], batchsize=4)


def test_sharing_a_neighbor_sampler():
    with pytest.raises(InputError, match="neighbor_sampler"):
        NeighborLoader(plain(), [2], neighbor_sampler=HalohopSampler(plain(), [2]))


@pytest.mark.parametrize("name", ["enable_cpu_affinity", "enable_multithreading", "enable_memory_log"])
def test_what_is_about_worker_processes_of_pyg(name):
    assert hasattr(PyGNeighborLoader, name)
    for loader in (NeighborLoader(plain(), [2]), LinkNeighborLoader(plain(), [2])):
        with pytest.raises(InputError, match=name):
            getattr(loader, name)()


def test_nothing_of_pyg_is_inherited_unseen():
    """Every method that PyG's loaders add to torch's is ours, or is one of torch's own."""
    for mine in (NeighborLoader, LinkNeighborLoader):
        for name in dir(mine):
            owner = next(kind for kind in mine.__mro__ if name in vars(kind))
            assert not owner.__module__.startswith("torch_geometric") or name.startswith("_"), f"{name} of {owner}"


@pytest.mark.parametrize("change", [{"num_neighbors": [3]}, {"seed": 2}])
def test_other_options_of_a_loaders_sampler(change):
    loader = NeighborLoader(plain(), [2])
    ((name, value),) = change.items()
    with pytest.raises(InputError, match=f"{name} of a loader's sampler cannot be set"):
        setattr(loader.node_sampler, name, value)


def test_another_graph_for_a_loader():
    """It would go on with the rows of the first one."""
    loader = NeighborLoader(plain(), [2])
    with pytest.raises(InputError, match="data of a loader cannot be another Data; change"):
        loader.data = plain()


@pytest.mark.parametrize("make", [lambda data: NeighborLoader(data, [2]), lambda data: NeighborLoader(data, [2])._sampler.graph])
def test_sending_a_loader_or_a_graph_in_memory(make):
    with pytest.raises(InputError, match="cannot be sent to another process; send"):
        pickle.dumps(make(plain()))


@pytest.mark.parametrize("options", [{"strict_negatives": True, "neg_sampling": "binary"}, {"exclude_seed_edges": True}])
def test_looking_up_edges_of_a_relation_that_is_not_there(options):
    likes = ("user", "likes", "item")
    with pytest.raises(SchemaError, match=r"unknown relation .*likes"):
        LinkNeighborLoader(typed(), [2], (likes, torch.tensor([[0], [1]])), **options)
    with pytest.raises(SchemaError, match=r"unknown relation .*likes"):
        LinkNeighborLoader(typed(), [2], likes)
    with pytest.raises(SchemaError, match=r"unknown relation .*shop"):
        LinkNeighborLoader(typed(), [2], (("user", "likes", "shop"), torch.tensor([[0], [1]])))


def test_flips_without_one_relation_to_hold_them():
    data = typed()
    for name in ("one", "two"):
        data["item", name, "user"].edge_index = data[RATES].edge_index.flip(0)
    with pytest.raises(InputError, match=r"flips of .*rates.* nor the only other relation"):
        NeighborLoader(data, [2], "item", subgraph_type="bidirectional")


def test_flips_with_other_features():
    data = typed()
    data[RATES].stars = torch.ones(80)
    data["item", "rated_by", "user"].edge_index = data[RATES].edge_index.flip(0)
    with pytest.raises(SchemaError, match=r"the columns differ: .*stars"):
        NeighborLoader(data, [2], "item", subgraph_type="bidirectional")


def test_stores_that_are_none():
    with pytest.raises(InputError, match=r"expected \(FeatureStore, GraphStore\), got \(int, int\)"):
        NeighborLoader((1, 2), [2])
    graph = NeighborLoader(plain(), [2])._sampler.graph
    with pytest.raises(InputError, match="give the loader the graph itself"):
        NeighborLoader((HalohopFeatureStore(graph), HalohopGraphStore(graph)), [2])


def test_weights_of_edges_in_stores():
    stores = MyFeatureStore(), MyGraphStore()
    stores[1].put_edge_index(plain().edge_index, edge_type=None, layout="coo", size=(40, 40))
    with pytest.raises(InputError, match="no attribute 'w' of nodes"):
        NeighborLoader(stores, [2], weight_attr="w")


def test_gradients_and_devices_in_worker_processes():
    data = plain()
    data.x.requires_grad_()
    with pytest.raises(InputError, match=r"'x' requires a gradient.*run='threads'"):
        list(NeighborLoader(data, [2], run="processes", num_workers=1))
    data = plain()
    data.x = data.x.to("meta")
    with pytest.raises(InputError, match=r"'x' lies on meta.*run='threads'"):
        list(NeighborLoader(data, [2], run="processes", num_workers=1))


class Far(torch.Tensor):
    """A tensor that says it lies elsewhere."""

    @property
    def device(self):
        return torch.device("cuda:1")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def test_edges_and_times_on_another_device_are_copied_with_one_warning():
    ends, times = torch.tensor([[0], [1]]).as_subclass(Far), torch.tensor([3.0]).as_subclass(Far)
    with pytest.warns(UserWarning, match=r"'edge_index' \(cuda:1\), 'time' \(cuda:1\) copied to the CPU") as warned:
        near = _brought({("edge_index", "e"): ends, ("time", "e"): times, ("w", "e"): torch.ones(1)})
    assert len(warned) == 1
    assert all(type(tensor) is torch.Tensor for tensor in near.values())


def test_rows_in_another_dimension_on_disk(tmp_path):
    data = plain()
    data.face = torch.zeros(3, 40)
    with pytest.warns(UserWarning, match=r"attributes \['face'\] are left out"):
        halohop.partition(data, tmp_path / "parts", num_parts=1, method="random")


def test_clusters_twice_or_never():
    with pytest.raises(InputError, match="clusters is not given"):
        ClusterLoader(plain())
