"""HGTLoader through PyG's arguments."""

import inspect

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import HGTLoader as PyGHGTLoader
from torch_geometric.utils import bipartite_subgraph

from halohop import HGTLoader, partition
from halohop import open as open_graph
from halohop.errors import InputError
from halohop.testing import graphs
from halohop.testing.hgt_oracle import HGTOracle
from halohop.testing.oracle_sets import as_oracle_batch
from halohop.testing.worlds import hosts
from halohop.world import World

TABLES = graphs.typed(
    {"paper": 60, "author": 40},
    {("author", "writes", "paper"): 150, ("paper", "cites", "paper"): 200, ("paper", "by", "author"): 90},
)


@pytest.fixture(scope="module")
def data() -> HeteroData:
    torch.manual_seed(2)
    data = HeteroData()
    data["paper"].x, data["paper"].y = torch.randn(60, 4), torch.arange(60)
    data["paper"].train_mask = torch.arange(60) % 2 == 0
    data["author"].num_nodes = 40
    data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(40, (150,)), torch.randint(60, (150,))])
    data["author", "writes", "paper"].edge_attr = torch.arange(150.0)
    data["paper", "cites", "paper"].edge_index = torch.randint(60, (2, 200))
    return data


def test_pygs_signature_comes_first():
    ours, theirs = (list(inspect.signature(loader.__init__).parameters) for loader in (HGTLoader, PyGHGTLoader))
    assert ours[: len(theirs) - 1] == theirs[:-1]


def test_what_a_batch_holds(data):
    loader = HGTLoader(data, {"paper": [8, 4], "author": [5, 5]}, ("paper", data["paper"].train_mask), batch_size=10)
    assert len(loader) == 3
    for batch in loader:
        paper, author, writes = batch["paper"], batch["author"], batch["author", "writes", "paper"]
        assert paper.n_id[:10].tolist() == paper.input_id.tolist()
        assert (paper.batch_size, paper.num_sampled_nodes[0], author.num_sampled_nodes[0]) == (10, 10, 0)
        assert len(paper.n_id.unique()) == len(paper.n_id) <= 22
        assert len(author.n_id.unique()) == len(author.n_id) == 10
        assert torch.equal(paper.x, data["paper"].x[paper.n_id])
        assert torch.equal(writes.edge_attr, writes.e_id.float())
        for relation in data.edge_types:
            nodes = (batch[relation[0]].n_id, batch[relation[2]].n_id)
            sizes = (data[relation[0]].num_nodes, data[relation[2]].num_nodes)
            _, _, mask = bipartite_subgraph(nodes, data[relation].edge_index, size=sizes, return_edge_mask=True)
            assert sorted(batch[relation].e_id.tolist()) == mask.nonzero().view(-1).tolist()
            assert "num_sampled_edges" not in batch[relation]


@pytest.mark.parametrize("run", ["threads", "inline", "processes"])
def test_workers_make_the_oracles_batches_from_disk(run, tmp_path):
    partition(TABLES, tmp_path / "parts", num_parts=3, method="random")
    numbers = {"paper": [6, 3], "author": [4, 4]}
    oracle = HGTOracle(TABLES, numbers, seed=7)
    with open_graph(tmp_path / "parts") as graph:
        raw = graph.select("train", "paper")[1].tolist()
        options = {} if run == "inline" else {"num_workers": 2}
        loader = HGTLoader(graph, numbers, ("paper", "train"), batch_size=9, seed=7, run=run, **options)
        for epoch in range(2):
            for index, batch in enumerate(loader):
                assert as_oracle_batch(TABLES, batch) == oracle.batch(
                    "paper", raw[9 * index : 9 * index + 9], epoch=epoch, index=index
                )
        assert loader.statistics()["batches"] == 2 * len(loader)


def test_hosts_and_ranks_share_the_seeds(tmp_path):
    partition(TABLES, tmp_path / "parts", num_parts=4, method="random")
    numbers, seen = {"paper": [6, 3], "author": [4, 4]}, []
    with hosts(tmp_path / "parts", [[0, 2], [1, 3]]) as opened:
        oracle = HGTOracle(TABLES, numbers)
        for rank, graph in enumerate(opened):
            raw = graph.select(None, "paper")[1]
            world = World(rank=rank, size=2, local_rank=rank, local_size=2)
            for step, batch in enumerate(HGTLoader(graph, numbers, "paper", batch_size=10, world=world)):
                ids = raw[batch["paper"].input_id].tolist()
                assert as_oracle_batch(TABLES, batch) == oracle.batch("paper", ids, epoch=0, index=2 * step + rank)
                seen += ids
        assert sorted(seen) == raw.tolist()


def test_one_type_is_possible_too():
    data = Data(edge_index=torch.tensor([[1, 2, 3, 3, 4, 0, 4], [0, 0, 0, 1, 1, 2, 3]]), num_nodes=5)
    (batch,) = HGTLoader(data, [3, 5], input_nodes=torch.tensor([0]))
    assert batch.num_sampled_nodes == [1, 3, 1]
    assert sorted(batch.e_id.tolist()) == list(range(7))


@pytest.mark.full
def test_the_picture_in_the_documentation():
    """Budgets after seeds 0 and 1 join: 2 has 1/3, 3 has 1/3 + 1/2, 4 has 1/2."""
    data = Data(edge_index=torch.tensor([[1, 2, 3, 3, 4, 0, 4], [0, 0, 0, 1, 1, 2, 3]]), num_nodes=5)
    loader = HGTLoader(data, [1], input_nodes=torch.tensor([0, 1]), batch_size=2, run="inline")
    drawn = torch.tensor([int(next(iter(loader)).n_id[2]) for _ in range(2000)]).bincount()[2:]
    squares = torch.tensor([4.0, 25.0, 9.0])
    expected = 2000 * squares / squares.sum()
    assert ((drawn - expected) ** 2 / expected).sum() < 13.8  # 2 degrees of freedom, 0.1 %
    edges = {2: [0, 1, 5], 3: [0, 2, 3], 4: [0, 4]}
    for _ in range(5):
        batch = next(iter(loader))
        assert sorted(batch.e_id.tolist()) == edges[int(batch.n_id[2])]


def test_transforms_and_words(data):
    loader = HGTLoader(data, [2], "paper", batch_size=60, transform=lambda batch: batch["author"].num_nodes)
    assert list(loader) == [2]
    assert repr(loader) == "HGTLoader()"
    kept = []
    keep = lambda output: kept.append(output) or output  # noqa: E731
    (batch,) = HGTLoader(data, [2], "paper", batch_size=60, transform_sampler_output=keep)
    assert batch["author"].num_nodes == 2
    assert kept[0].metadata[0].tolist() == list(range(60))


def test_what_is_refused(data):
    with pytest.raises(InputError, match="num_samples=5"):
        HGTLoader(data, 5, "paper")
    for number in (-3, 2.5):
        with pytest.raises(InputError, match=f"max_neighbors={number}"):
            HGTLoader(data, [5], "paper", max_neighbors=number)
