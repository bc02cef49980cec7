"""GraphSAINT's samplers through PyG's arguments."""

import inspect

import pytest
import torch
import torch_geometric.loader
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

import halohop
from halohop.errors import DatasetError, InputError
from halohop.pyg.convert import tables_from_pyg
from halohop.testing import graphs
from halohop.testing.oracle_sets import as_oracle_batch, set_batch
from halohop.testing.saint_oracle import SaintOracle
from halohop.testing.worlds import partitioned
from halohop.world import World

TABLES = graphs.power_law(90, 6, shuffled_ids=True)
KINDS = {
    "node": (halohop.GraphSAINTNodeSampler, {"batch_size": 25}),
    "edge": (halohop.GraphSAINTEdgeSampler, {"batch_size": 12}),
    "walk": (halohop.GraphSAINTRandomWalkSampler, {"batch_size": 6, "walk_length": 3}),
}


def oracle_of(kind: str, seed: int = 0) -> SaintOracle:
    options = KINDS[kind][1]
    return SaintOracle(TABLES, kind, size=options["batch_size"], length=options.get("walk_length", 0), seed=seed)


@pytest.fixture(scope="module")
def data() -> Data:
    torch.manual_seed(0)
    half = torch.randint(60, (2, 200))
    edge_index = torch.cat([half, half.flip(0)], dim=1)
    return Data(x=torch.randn(60, 3), y=torch.arange(60), edge_index=edge_index, edge_attr=torch.randn(400))


@pytest.mark.parametrize("kind", KINDS)
def test_pygs_signature_comes_first(kind):
    ours = KINDS[kind][0]
    theirs = getattr(torch_geometric.loader, ours.__name__)
    names = [list(inspect.signature(loader.__init__).parameters) for loader in (ours, theirs)]
    assert names[0][: len(names[1]) - 1] == names[1][:-1]


@pytest.mark.parametrize("run", ["threads", "inline", "processes"])
@pytest.mark.parametrize("kind", KINDS)
def test_workers_make_the_oracles_batches_from_disk(kind, run, tmp_path):
    loader_of, options = KINDS[kind]
    halohop.partition(TABLES, tmp_path / "parts", num_parts=3, method="random")
    workers = {} if run == "inline" else {"num_workers": 2}
    with halohop.open(tmp_path / "parts") as graph:
        loader = loader_of(graph, **options, num_steps=4, seed=3, run=run, **workers)
        assert len(loader) == loader.num_steps == 4
        for epoch in range(2):
            for index, batch in enumerate(loader):
                nodes = oracle_of(kind, 3).draw(epoch=epoch, index=index)
                assert as_oracle_batch(TABLES, batch) == set_batch(TABLES, {"node": nodes})
                assert batch.x[:, 0].tolist() == nodes
                assert not {"node_norm", "edge_norm", "input_id", "batch_size"} & set(batch.keys())
        assert loader.statistics()["batches"] == 8


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_share_the_steps(size):
    """No rank is without a batch in the last step."""
    loader_of, options = KINDS["walk"]
    for rank in range(size):
        world = World(rank=rank, size=size, local_rank=rank, local_size=size)
        loader = loader_of(partitioned(TABLES, 2), **options, num_steps=4, world=world, run="inline")
        assert len(loader) == 2
        for step, batch in enumerate(loader):
            assert batch.n_id.tolist() == oracle_of("walk").draw(epoch=0, index=step * size + rank)


def test_rows_and_edges_of_a_batch(data):
    for batch in halohop.GraphSAINTRandomWalkSampler(data, 5, 2, num_steps=3):
        assert torch.equal(batch.x, data.x[batch.n_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        _, _, mask = subgraph(batch.n_id, data.edge_index, return_edge_mask=True)
        assert sorted(batch.e_id.tolist()) == mask.nonzero().view(-1).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_norms_are_what_counting_gives(kind):
    """Counted a second time, one subgraph after the other, until there are three nodes for each."""
    loader_of, options = KINDS[kind]
    seen_nodes, seen_edges, runs, total = {}, {}, 0, 0
    while total < 3 * 90:
        batch = set_batch(TABLES, {"node": oracle_of(kind).draw(epoch=-1, index=runs)})
        (raws,), (edges,) = batch.nodes.values(), batch.edges.values()
        runs, total = runs + 1, total + len(raws)
        for raw in raws:
            seen_nodes[raw] = seen_nodes.get(raw, 0) + 1
        for _, _, edge in edges:
            seen_edges[edge] = seen_edges.get(edge, 0) + 1
    found = []
    for num_parts in (1, 2, 3, 8):
        graph = partitioned(TABLES, num_parts, seed=num_parts, shard_each=num_parts == 3)
        loader = loader_of(graph, **options, num_steps=3, sample_coverage=3, log=False, run="inline")
        found.append([(batch.node_norm, batch.edge_norm) for batch in loader])
        for batch in loader:
            raws = batch.n_id.tolist()
            expected = torch.tensor([runs / seen_nodes.get(raw, 1) / 90 for raw in raws])
            torch.testing.assert_close(batch.node_norm, expected)
            for edge, dst, norm in zip(batch.e_id.tolist(), batch.edge_index[1].tolist(), batch.edge_norm.tolist(), strict=True):
                assert norm == pytest.approx(seen_nodes.get(raws[dst], 1) / seen_edges.get(edge, 1))
    for other in found[1:]:
        assert all(torch.equal(one, two) for a, b in zip(found[0], other, strict=True) for one, two in zip(a, b, strict=True))


@pytest.mark.full
def test_norms_make_sums_over_subgraphs_those_over_the_graph(data):
    """What they are for: the expected loss of a subgraph is the mean loss, that of a neighbourhood its sum."""
    loss = torch.rand(60, generator=torch.Generator().manual_seed(1))
    message = torch.rand(400, generator=torch.Generator().manual_seed(2))
    wanted = torch.zeros(60).index_add_(0, data.edge_index[1], message)
    loader = halohop.GraphSAINTRandomWalkSampler(data, 6, 3, num_steps=1500, sample_coverage=300, log=False)
    total, sums, times = 0.0, torch.zeros(60), torch.zeros(60)
    for batch in loader:
        total += float((loss[batch.n_id] * batch.node_norm).sum())
        inflow = torch.zeros(batch.num_nodes).index_add_(0, batch.edge_index[1], message[batch.e_id] * batch.edge_norm)
        sums[batch.n_id] += inflow
        times[batch.n_id] += 1
    assert total / 1500 == pytest.approx(float(loss.mean()), rel=0.05)
    assert float((sums / times - wanted).abs().sum() / wanted.sum()) < 0.15


def test_counts_are_kept_and_found_again(data, tmp_path, caplog):
    def norms(source, **options):
        loader = halohop.GraphSAINTNodeSampler(source, 20, 2, 5, tmp_path / "norms", **options)
        return [(batch.n_id.tolist(), batch.node_norm.tolist(), batch.edge_norm.tolist()) for batch in loader]

    first = norms(data)
    assert "GraphSAINT norms: 100 %" in caplog.text
    caplog.clear()
    (file,) = (tmp_path / "norms").iterdir()
    assert norms(partitioned(tables_from_pyg(data), 3)) == first  # for any partitioning
    assert not caplog.records
    norms(data, seed=1, log=False)
    norms(Data(edge_index=data.edge_index[:, 1:], num_nodes=60), log=False)
    assert not caplog.records
    assert len(list((tmp_path / "norms").iterdir())) == 3  # other draws and graphs have files of their own
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DatasetError, match="delete it"):
        norms(data)


def test_graphs_of_equal_degrees_have_counts_of_their_own(tmp_path):
    """Such as graphs of k nearest neighbours, where every node has k in-edges."""
    dst = torch.arange(20).repeat_interleave(3)
    for shift in (1, 2):
        graph = Data(edge_index=torch.stack([(dst + shift + torch.arange(60) % 3) % 20, dst]), num_nodes=20)
        halohop.GraphSAINTNodeSampler(graph, 5, 1, 2, tmp_path, log=False)
    assert len(list(tmp_path.iterdir())) == 2


def test_graphs_of_other_directions_have_counts_of_their_own(data, tmp_path):
    def norms(edge_dir, folder):
        loader = halohop.GraphSAINTRandomWalkSampler(data, 4, 2, 2, 5, folder, False, edge_dir=edge_dir)
        return [batch.node_norm.tolist() for batch in loader]

    norms("in", tmp_path)
    assert norms("out", tmp_path) == norms("out", None)


def test_going_on_in_the_middle_of_an_epoch(data):
    def loader():
        return halohop.GraphSAINTRandomWalkSampler(data, 4, 2, num_steps=5, seed=1, run="inline")

    begun, other = loader(), loader()
    whole = [batch.n_id.tolist() for batch in loader()]
    batches = iter(begun)
    assert [next(batches).n_id.tolist() for _ in range(2)] == whole[:2]
    other.load_state_dict(begun.state_dict())
    assert [batch.n_id.tolist() for batch in other] == whole[2:]


def test_a_typed_graph_of_one_relation():
    tables = graphs.typed({"paper": 30}, {("paper", "cites", "paper"): 90})
    loader = halohop.GraphSAINTNodeSampler(partitioned(tables, 3), 10, num_steps=2, sample_coverage=2, log=False)
    for index, batch in enumerate(loader):
        nodes = SaintOracle(tables, "node", size=10).draw(epoch=0, index=index)
        assert as_oracle_batch(tables, batch) == set_batch(tables, {"paper": nodes})
        assert len(batch["paper"].node_norm) == len(nodes)
        assert len(batch["paper", "cites", "paper"].edge_norm) == batch.num_edges


def test_transforms_see_the_norms(data):
    loader = halohop.GraphSAINTEdgeSampler(
        data, 5, num_steps=2, sample_coverage=1, log=False, transform=lambda batch: batch.node_norm.sum() > 0
    )
    assert all(loader)
    assert repr(loader) == "GraphSAINTEdgeSampler()"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.5}, "batch_size=2.5"),
        ({"num_steps": 0}, "num_steps=0"),
        ({"sample_coverage": -1}, "sample_coverage=-1"),
        ({"sample_coverage": float("nan")}, "sample_coverage=nan"),
    ],
)
def test_what_is_refused(data, options, message):
    with pytest.raises(InputError, match=message):
        halohop.GraphSAINTNodeSampler(data, **({"batch_size": 3} | options))


def test_norms_replace_no_attribute(data):
    own = Data(edge_index=data.edge_index, num_nodes=60, node_norm=torch.ones(60))
    assert next(iter(halohop.GraphSAINTNodeSampler(own, 4))).node_norm.sum() > 0
    with pytest.raises(InputError, match="'node_norm'"):
        halohop.GraphSAINTNodeSampler(own, 4, sample_coverage=1)
