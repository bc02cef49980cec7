import copy

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import CachedLoader, NodeLoader, PrefetchLoader
from torch_geometric.nn import GraphSAGE, SAGEConv
from torch_geometric.sampler import NodeSamplerInput, NumNeighbors
from torch_geometric.utils import trim_to_layer

from halohop import HalohopFeatureStore, HalohopGraphStore, HalohopSampler, NeighborLoader, World
from halohop.cluster.graph import in_memory
from halohop.errors import BatchError, IdError, InputError, SchemaError
from halohop.pyg.convert import tables_from_pyg


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(1)
    num_nodes, num_edges = 200, 1500
    return Data(
        x=torch.randn(num_nodes, 8),
        y=torch.randint(5, (num_nodes,)),
        train_mask=torch.rand(num_nodes) < 0.5,
        edge_index=torch.randint(num_nodes, (2, num_edges)),
        edge_attr=torch.randn(num_edges, 3),
        title="kept",
    )


@pytest.fixture(scope="module")
def hetero() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x = torch.randn(60, 4)
    data["paper"].y = torch.randint(3, (60,))
    data["author"].x = torch.randn(40, 6)
    data["venue"].num_nodes = 5
    data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["author", "writes", "paper"].edge_attr = torch.randn(150, 2)
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    data["paper", "by", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)
    data["venue", "hosts", "paper"].edge_index = torch.empty(2, 0, dtype=torch.int64)
    return data


def check_against(data: Data, batch: Data) -> None:
    """Every row and edge of a batch is the one that its ids name."""
    assert torch.equal(batch.x, data.x[batch.n_id])
    assert torch.equal(batch.y, data.y[batch.n_id])
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    assert sum(batch.num_sampled_nodes) == batch.num_nodes
    assert sum(batch.num_sampled_edges) == batch.num_edges


def test_everything_that_pyg_sets(data):
    loader = NeighborLoader(data, [4, 3], input_nodes=data.train_mask, batch_size=16)
    seen = []
    for batch in loader:
        assert isinstance(batch, Data)
        check_against(data, batch)
        assert batch.title == "kept"
        assert batch.batch_size == len(batch.input_id) == batch.num_sampled_nodes[0]
        assert torch.equal(batch.n_id[: batch.batch_size], batch.input_id)  # a mask's input_id are its indices, as in PyG
        assert isinstance(batch.num_sampled_nodes, list)
        assert batch.batch is None
        seen.append(batch.input_id)
    assert torch.cat(seen).tolist() == data.train_mask.nonzero().view(-1).tolist()


def test_heterogeneous_batches(hetero):
    loader = NeighborLoader(hetero, [3, 2], input_nodes=("paper", torch.arange(30, 60)), batch_size=8)
    assert len(loader) == 4
    for batch in loader:
        assert isinstance(batch, HeteroData)
        assert set(batch.node_types) == set(hetero.node_types)
        assert set(batch.edge_types) == set(hetero.edge_types)
        assert torch.equal(batch["author"].x, hetero["author"].x[batch["author"].n_id])
        assert batch["venue"].num_nodes == 0
        for relation in hetero.edge_types:
            source, _, destination = relation
            ends = torch.stack(
                [batch[source].n_id[batch[relation].edge_index[0]], batch[destination].n_id[batch[relation].edge_index[1]]]
            )
            assert torch.equal(ends, hetero[relation].edge_index[:, batch[relation].e_id])
            assert len(batch[relation].num_sampled_edges) == 2
        writes = batch["author", "writes", "paper"]
        assert torch.equal(writes.edge_attr, hetero["author", "writes", "paper"].edge_attr[writes.e_id])
        assert batch["paper"].batch_size == len(batch["paper"].input_id)
        assert batch["paper"].n_id[: batch["paper"].batch_size].tolist() == (batch["paper"].input_id + 30).tolist()
        assert set(batch.num_sampled_nodes_dict) == set(hetero.node_types)


def test_fanouts_by_relation(hetero):
    fanouts = {relation: [0, 0] for relation in hetero.edge_types}
    fanouts["paper", "cites", "paper"] = [-1, 0]
    batch = next(iter(NeighborLoader(hetero, fanouts, input_nodes="paper", batch_size=60)))
    assert batch["paper", "cites", "paper"].num_edges == 200
    assert batch["author"].num_nodes == 0


def test_all_neighbours_give_the_output_of_the_whole_graph(data):
    torch.manual_seed(0)
    model = GraphSAGE(8, 16, num_layers=2, out_channels=5).eval()
    expected = model(data.x, data.edge_index)
    for batch in NeighborLoader(data, [-1, -1], batch_size=50):
        got = model(batch.x, batch.edge_index)[: batch.batch_size]
        torch.testing.assert_close(got, expected[batch.n_id[: batch.batch_size]], rtol=1e-4, atol=1e-5)


def test_duplicate_seeds_get_their_own_rows_and_edges(data):
    torch.manual_seed(0)
    model = GraphSAGE(8, 16, num_layers=2, out_channels=5).eval()
    seeds = torch.tensor([7, 3, 7, 7])
    batch = next(iter(NeighborLoader(data, [-1, -1], input_nodes=seeds, batch_size=4)))
    assert batch.n_id[:4].tolist() == [7, 3, 7, 7]
    torch.testing.assert_close(model(batch.x, batch.edge_index)[:4], model(data.x, data.edge_index)[seeds], rtol=1e-4, atol=1e-5)


def test_trimming_to_layers_changes_nothing(data, hetero):
    torch.manual_seed(0)
    first, second = SAGEConv(8, 16), SAGEConv(16, 4)
    for batch in NeighborLoader(data, [5, 3], batch_size=64):
        whole = second(first(batch.x, batch.edge_index).relu(), batch.edge_index)[: batch.batch_size]
        x, edge_index = batch.x, batch.edge_index
        for layer, conv in enumerate((first, second)):
            x, edge_index, _ = trim_to_layer(layer, batch.num_sampled_nodes, batch.num_sampled_edges, x, edge_index)
            x = conv(x, edge_index)
            x = x.relu() if layer == 0 else x
        torch.testing.assert_close(x[: batch.batch_size], whole)
    batch = next(iter(NeighborLoader(hetero, [3, 2], input_nodes="paper", batch_size=16)))
    x, edge_index, _ = trim_to_layer(
        1,
        batch.num_sampled_nodes_dict,
        batch.num_sampled_edges_dict,
        {name: batch[name].n_id for name in batch.node_types},
        batch.edge_index_dict,
    )
    assert len(x["paper"]) == sum(batch["paper"].num_sampled_nodes[:-1])


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 0},
        {"num_workers": 1},
        {"num_workers": 4},
        {"num_workers": 2, "run": "processes"},
    ],
)
def test_epochs_visit_every_seed_once_in_another_order(data, options):
    loader = NeighborLoader(data, [2], batch_size=32, shuffle=True, seed=5, **options)
    orders = [torch.cat([batch.n_id[: batch.batch_size] for batch in loader]).tolist() for _ in range(2)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(200))
    assert orders[0] != orders[1]
    loader.set_epoch(0)
    assert torch.cat([batch.n_id[: batch.batch_size] for batch in loader]).tolist() == orders[0]


@pytest.mark.parametrize("seed", [np.int64(5), torch.tensor(5)], ids=["numpy", "torch"])
def test_seeds_of_numpy_and_torch_are_numbers(data, seed):
    nodes = [next(iter(NeighborLoader(data, [2], torch.arange(9), batch_size=9, seed=number))).n_id for number in (5, seed)]
    assert torch.equal(*nodes)
    drawn = [
        HalohopSampler(data, [2], seed=number).sample_from_nodes(NodeSamplerInput(None, torch.arange(9))).node
        for number in (5, seed)
    ]
    assert torch.equal(*drawn)


def test_workers_and_calls_make_the_same_batches(data):
    def epoch(**options):
        return [batch.to_dict() for batch in NeighborLoader(data, [4, 4], batch_size=32, shuffle=True, seed=1, **options)]

    reference = epoch(run="inline")
    processes = {"run": "processes", "num_workers": 2}
    for options in ({"num_workers": 1}, {"num_workers": 4, "prefetch_factor": 5}, {"run": "threads"}, processes):
        for got, expected in zip(epoch(**options), reference, strict=True):
            assert got.keys() == expected.keys()
            for key, value in expected.items():
                assert torch.equal(got[key], value) if isinstance(value, torch.Tensor) else got[key] == value
    loader = NeighborLoader(data, [4], seed=1)
    assert torch.equal(loader([3, 5]).n_id[:2], torch.tensor([3, 5]))


def test_it_is_a_dataloader(data):
    loader = NeighborLoader(data, [2], batch_size=64, drop_last=True)
    assert isinstance(loader, DataLoader)
    assert loader.dataset == range(200)  # as PyG's, so that Lightning divides them
    divided = NeighborLoader(data, [2], world=World())
    assert isinstance(divided.dataset, IterableDataset)  # so that Lightning does not divide them again
    assert len(divided.dataset) == 200
    assert len(loader) == len(list(loader)) == 3
    assert loader.batch_size == 64


def test_ranks_share_the_seeds(data):
    worlds = [World(rank=rank, size=3, local_rank=rank, local_size=3) for rank in range(3)]
    loaders = [NeighborLoader(data, [2], batch_size=16, shuffle=True, world=world) for world in worlds]
    seeds = [[batch.n_id[: batch.batch_size] for batch in loader] for loader in loaders]
    assert len({len(steps) for steps in seeds}) == 1
    assert sorted(torch.cat([seed for steps in seeds for seed in steps]).tolist()) == list(range(200))


def test_ways_to_name_seeds(data, hetero):
    ids = [3, 9, 4]
    for nodes in (ids, torch.tensor(ids), torch.tensor(ids, dtype=torch.int32), np.array(ids)):
        batch = next(iter(NeighborLoader(data, [1], input_nodes=nodes, batch_size=3)))
        assert batch.n_id[:3].tolist() == ids
        assert batch.input_id.tolist() == [0, 1, 2]
    assert len(NeighborLoader(data, [1], input_nodes="train", batch_size=1)) == int(data.train_mask.sum())
    assert len(NeighborLoader(data, [1])) == 200
    assert len(NeighborLoader(data, [1], input_nodes=torch.tensor([]))) == 0
    assert list(NeighborLoader(data, [1], input_nodes=[])) == []
    assert len(NeighborLoader(hetero, [1], input_nodes="author")) == 40
    assert len(NeighborLoader(hetero, [1], input_nodes=("author", None))) == 40
    given = NeighborLoader(data, [1], input_nodes=ids, input_id=torch.tensor([70, 80, 90]), batch_size=3)
    assert next(iter(given)).input_id.tolist() == [70, 80, 90]


@pytest.mark.parametrize(
    ("nodes", "error", "complaint"),
    [
        ([200], IdError, "first is 200"),
        ([-1], IdError, "first is -1"),
        (torch.tensor([0.5]), InputError, "float32"),
        (torch.zeros(7, dtype=torch.bool), InputError, "7 entries"),
        (torch.zeros(2, 2, dtype=torch.int64), InputError, "one-dimensional"),
        (torch.zeros(2, dtype=torch.complex64), InputError, "complex64"),
        (["a", "b", "c"], InputError, "input_nodes cannot be read"),
        ([2**70], InputError, "input_nodes cannot be read"),
        ("test", SchemaError, "stored splits: \\['train'\\]"),
        (("author", None), SchemaError, "author"),
    ],
)
def test_seeds_that_are_not_there(data, nodes, error, complaint):
    with pytest.raises(error, match=complaint):
        NeighborLoader(data, [1], input_nodes=nodes)


def test_a_heterogeneous_graph_wants_a_node_type(hetero):
    with pytest.raises(SchemaError, match="must name a node type"):
        NeighborLoader(hetero, [1])
    with pytest.raises(SchemaError, match="unknown node type 'x'"):
        NeighborLoader(hetero, [1], input_nodes=("x", None))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"num_neighbors": [-2]}, "fanout -2"),
        ({"num_neighbors": [1.5]}, "fanout 1.5"),
        ({"num_neighbors": {("paper", "cites", "paper"): [1]}}, "no fanouts for"),
        ({"num_neighbors": {("a", "b", "c"): [1]}}, "unknown relation"),
        ({"num_neighbors": [1], "batch_size": 0}, "batch_size=0"),
        ({"num_neighbors": [1], "expand": "old"}, "expand='old'"),
        ({"num_neighbors": [1], "run": "fast"}, "run='fast'"),
        ({"num_neighbors": [1], "neighbor_sampler": object()}, "neighbor_sampler"),
        ({"num_neighbors": [1], "sampler": [1], "shuffle": True}, "leave out `shuffle`"),
        ({"num_neighbors": [1], "input_id": torch.arange(3)}, "3 entries for 60"),
        ({"num_neighbors": [1], "input_id": torch.zeros(60, 1)}, "input_id must be one-dimensional"),
        ({"num_neighbors": 10}, "num_neighbors=10 is no list"),
        ({"num_neighbors": [1], "batch_size": 2.5}, "batch_size=2.5"),
        ({"num_neighbors": [1], "seed": 0.5}, "seed=0.5"),
        ({"num_neighbors": [1], "num_workers": 1.5}, "num_workers=1.5"),
        ({"num_neighbors": [1], "run": "processes", "num_workers": 0}, "run='processes' needs num_workers"),
        ({"num_neighbors": [1], "backlog_bytes": 1.5}, "backlog_bytes=1.5"),
        ({"num_neighbors": [1], "multiprocessing_context": "spawn"}, "leave it out"),
    ],
)
def test_options_that_cannot_work(hetero, options, complaint):
    with pytest.raises(InputError, match=complaint):
        NeighborLoader(hetero, input_nodes="paper", **options)


def test_numbers_from_numpy_and_pyg(data, hetero):
    expected = NeighborLoader(data, [3, 2]).__repr__()
    for fanouts in (np.array([3, 2]), [np.int64(3), torch.tensor(2)], NumNeighbors([3, 2])):
        assert NeighborLoader(data, fanouts, batch_size=np.int64(1)).__repr__() == expected
    by_relation = NumNeighbors({("paper", "cites", "paper"): [3, 2]}, default=[0, 1])
    fanouts = NeighborLoader(hetero, by_relation, input_nodes="paper")._sampler.fanouts.per_relation
    assert fanouts == dict.fromkeys(hetero.edge_types, (0, 1)) | {("paper", "cites", "paper"): (3, 2)}


def test_several_masks_in_one_are_no_split(data):
    several = copy.copy(data)
    several.train_mask = torch.stack([data.train_mask, ~data.train_mask], dim=1)
    with pytest.raises(SchemaError, match=r"no split 'train'; stored splits: \[\]"):
        NeighborLoader(several, [1], input_nodes="train")
    assert next(iter(NeighborLoader(several, [1]))).train_mask.shape[1] == 2


def test_unequal_numbers_of_hops(hetero):
    fanouts = {relation: [1] for relation in hetero.edge_types}
    fanouts["paper", "cites", "paper"] = [1, 1]
    with pytest.raises(InputError, match="same number of hops"):
        NeighborLoader(hetero, fanouts, input_nodes="paper")


@pytest.fixture(scope="module")
def dated() -> Data:
    """Edges v-1 -> v, v-2 -> v, ..., v-8 -> v of 200 nodes in a ring, each edge as old as its source; weights 0 to 7."""
    steps = torch.arange(1, 9).repeat(200)
    dst = torch.arange(200).repeat_interleave(8)
    src = (dst - steps) % 200
    edge_index = torch.stack([src, dst])
    return Data(x=torch.eye(200), edge_index=edge_index, time=torch.arange(200), when=src.clone(), weight=(8.0 - steps))


@pytest.mark.parametrize("run", ["inline", "threads", "processes"])
@pytest.mark.parametrize("time_attr", ["time", "when"])
def test_nothing_later_than_its_seed(dated, time_attr, run):
    times = torch.full((200,), 100)
    loader = NeighborLoader(dated, [3, 2], input_time=times, time_attr=time_attr, batch_size=32, run=run, num_workers=2)
    edges = 0
    for batch in loader:
        assert batch.seed_time.tolist() == [100] * batch.batch_size
        assert batch.batch[: batch.batch_size].tolist() == list(range(batch.batch_size))
        src, dst = batch.edge_index
        assert (batch.time[src] <= 100).all()
        assert torch.equal(batch.batch[src], batch.batch[dst])
        edges += len(src)
    assert edges > 500


def test_the_most_recent_neighbours(dated):
    loader = NeighborLoader(
        dated, [3], torch.tensor([50, 52]), input_time=torch.tensor([48, 90]), time_attr="when", temporal_strategy="last"
    )
    neighbours = [sorted(batch.n_id[1:].tolist()) for batch in loader]
    assert neighbours == [[46, 47, 48], [49, 50, 51]]


def test_nodes_bring_their_own_time(dated):
    batch = next(iter(NeighborLoader(dated, [-1], torch.tensor([3]), time_attr="time")))
    assert batch.seed_time.tolist() == [3]
    assert sorted(batch.n_id.tolist()) == [0, 1, 2, 3]


def test_weights_decide_who_is_drawn(dated):
    for replace in (False, True):
        drawn = torch.cat([batch.n_id[batch.edge_index[0]] - batch.n_id[batch.edge_index[1]] for batch in NeighborLoader(
            dated, [2], weight_attr="weight", batch_size=1, replace=replace)])  # fmt: skip
        steps = torch.bincount(-drawn % 200, minlength=9)
        assert steps[8] == 0  # weight 0
        assert steps[1] > steps[4] > steps[7] > 0


def test_disjoint_subgraphs_share_no_node(dated):
    batch = next(iter(NeighborLoader(dated, [4, 4], torch.tensor([10, 11, 10]), batch_size=3, disjoint=True)))
    assert len(set(zip(batch.batch.tolist(), batch.n_id.tolist(), strict=True))) == batch.num_nodes
    src, dst = batch.edge_index
    assert torch.equal(batch.batch[src], batch.batch[dst])
    ones = [set(batch.n_id[batch.batch == tree].tolist()) for tree in (0, 2)]
    assert ones[0] != ones[1]  # two trees of one node are drawn apart


def test_a_fractional_time_lets_nothing_later_in(dated):
    """Cut towards zero, -0.5 would be 0: the future."""
    dated = dated.clone()
    dated.when = dated.when - 10
    loader = NeighborLoader(dated, [-1], torch.arange(30), input_time=torch.full((30,), -0.5), time_attr="when", batch_size=30)
    times = next(iter(loader)).when
    assert len(times) > 0
    assert int(times.max()) == -1


def test_a_transform_of_pygs_record_keeps_the_trees(dated):
    plain, same = (
        next(iter(NeighborLoader(dated, [2], torch.tensor([10, 11]), batch_size=2, disjoint=True, transform_sampler_output=how)))
        for how in (None, lambda output: output)
    )
    assert torch.equal(plain.batch, same.batch)
    assert torch.equal(plain.n_id, same.n_id)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_time": torch.zeros(200)}, "without time_attr"),
        ({"time_attr": "when"}, "give the time of every input node"),
        ({"time_attr": "when", "input_time": torch.zeros(7)}, "7 entries for 200"),
        ({"time_attr": "then"}, "have times 'then'"),
        ({"weight_attr": "wait"}, "no relation has weights 'wait'"),
        ({"temporal_strategy": "first"}, "neither 'uniform' nor 'last'"),
        ({"temporal_strategy": "last"}, "no times are named"),
    ],
)
def test_times_and_weights_that_cannot_be_used(dated, options, message):
    with pytest.raises(InputError, match=message):
        NeighborLoader(dated, [1], **options)


def test_transform_and_its_failures(data):
    def label(batch: Data) -> Data:
        batch.doubled = batch.x * 2
        return batch

    batch = next(iter(NeighborLoader(data, [2], transform=label)))
    assert torch.equal(batch.doubled, batch.x * 2)
    with pytest.raises(BatchError, match="KeyError"):
        list(NeighborLoader(data, [2], transform=lambda batch: batch["absent"]))


def test_transform_sampler_output_sees_pygs_record(data):
    def keep_seeds(output):
        edges = output.row < output.num_sampled_nodes[0]
        output.node = output.node[: output.num_sampled_nodes[0]]
        output.row, output.col, output.edge = output.row[edges], output.col[edges], output.edge[edges]
        return output

    batch = next(iter(NeighborLoader(data, [-1], batch_size=100, transform_sampler_output=keep_seeds)))
    assert batch.num_nodes == 100
    assert 0 < batch.num_edges == int((data.edge_index < 100).all(dim=0).sum())
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert "num_sampled_nodes" not in batch
    with pytest.raises(InputError, match="returned NoneType"):
        next(iter(NeighborLoader(data, [1], transform_sampler_output=lambda output: None)))


def test_torch_samplers_decide_the_order(data):
    loader = NeighborLoader(data, [1], sampler=SubsetRandomSampler(range(0, 200, 2)), batch_size=10)
    seeds = torch.cat([batch.n_id[: batch.batch_size] for batch in loader])
    assert sorted(seeds.tolist()) == list(range(0, 200, 2))
    loader = NeighborLoader(data, [1], batch_sampler=[[5, 6], [7]])
    assert [batch.input_id.tolist() for batch in loader] == [[5, 6], [7]]


def test_generator_is_a_seed(data):
    def order(seed: int) -> list[int]:
        loader = NeighborLoader(data, [1], shuffle=True, generator=torch.Generator().manual_seed(seed), batch_size=200)
        return next(iter(loader)).input_id.tolist()

    assert order(1) == order(1) != order(2)


def test_global_random_state_is_left_alone(data):
    state, numpy_state = torch.get_rng_state(), copy.deepcopy(np.random.get_state()[1])
    list(NeighborLoader(data, [3], batch_size=64, shuffle=True))
    assert torch.equal(state, torch.get_rng_state())
    assert (numpy_state == np.random.get_state()[1]).all()


def test_worker_init_fn_runs_once_per_thread(data):
    started = []
    list(NeighborLoader(data, [1], batch_size=10, num_workers=2, worker_init_fn=started.append))
    assert set(started) <= {0, 1}
    assert started


def test_pygs_wrappers_around_it(data):
    loader = NeighborLoader(data, [2], batch_size=64)
    assert len(list(CachedLoader(loader, device=torch.device("cpu")))) == 4
    assert len(list(PrefetchLoader(loader, device=torch.device("cpu")))) == 4


def test_pygs_node_loader_takes_our_sampler(data, hetero):
    for workers in (0, 2):
        loader = NodeLoader(data, HalohopSampler(data, [4, 3]), input_nodes=data.train_mask, batch_size=32, num_workers=workers)
        for batch in loader:
            check_against(data, batch)
    loader = NodeLoader(hetero, HalohopSampler(hetero, [3, 2]), input_nodes=("paper", None), batch_size=16)
    for batch in loader:
        writes = batch["author", "writes", "paper"]
        assert torch.equal(writes.edge_attr, hetero["author", "writes", "paper"].edge_attr[writes.e_id])


def test_pygs_node_loader_takes_our_stores(data, hetero):
    graph = in_memory(tables_from_pyg(data))
    pair = (HalohopFeatureStore(graph), HalohopGraphStore(graph))
    for batch in NodeLoader(pair, HalohopSampler(graph, [4, 3]), input_nodes=torch.arange(50), batch_size=25):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    graph = in_memory(tables_from_pyg(hetero))
    pair = (HalohopFeatureStore(graph), HalohopGraphStore(graph))
    for batch in NodeLoader(pair, HalohopSampler(graph, [3, 2]), input_nodes="paper", batch_size=25):
        assert torch.equal(batch["author"].x, hetero["author"].x[batch["author"].n_id])
    row, col = pair[1].get_edge_index(("paper", "cites", "paper"), "coo")
    expected = sorted(map(tuple, hetero["paper", "cites", "paper"].edge_index.t().tolist()))
    assert sorted(zip(row.tolist(), col.tolist(), strict=True)) == expected


def test_stores_only_read(data):
    graph = in_memory(tables_from_pyg(data))
    with pytest.raises(InputError, match="only reads"):
        HalohopFeatureStore(graph).put_tensor(torch.eye(2), "node", "x", None)
    with pytest.raises(InputError, match="only reads"):
        HalohopGraphStore(graph).put_edge_index(data.edge_index, ("node", "to", "node"), "coo")
    assert HalohopFeatureStore(graph).get_tensor("node", "absent", None) is None  # PyG's way of saying so


def test_kept_batches_stay_and_dropped_ones_lend_their_memory():
    """Every byte of a batch may come from a pool; holding one tensor of it is enough to keep that tensor."""
    torch.manual_seed(0)
    data = Data(x=torch.randn(5000, 64), edge_index=torch.randint(5000, (2, 50_000)))
    loader = NeighborLoader(data, [10], batch_size=500, num_workers=2)
    kept = [(batch.x[3:], batch.n_id, batch.edge_index[1], batch.e_id) for batch in loader]
    copies = [[tensor.clone() for tensor in tensors] for tensors in kept]
    for _ in range(3):
        for _ in loader:
            pass
    for tensors, expected in zip(kept, copies, strict=True):
        assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, expected, strict=True))
    statistics = loader.statistics()
    assert statistics["pool_reused"] > statistics["pool_made"] > 0
    del kept, tensors
    assert loader.statistics()["pool_idle_bytes"] > 0
