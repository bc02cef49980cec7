"""Several processes divide a graph of which each has a slice: the partitions are those of the whole graph."""

from pathlib import Path

import pytest
import torch

import halohop
from halohop.errors import ClusterError, InputError
from halohop.glt.distributed import DistRandomPartitioner
from halohop.glt.partition import load_partition
from halohop.testing.worlds import free_address
from tests.support.glt_ranks import in_ranks

pytestmark = pytest.mark.usefixtures("alone")

NODES, EDGES = 40, 100
GENERATOR = torch.Generator().manual_seed(0)
ENDS = torch.randint(NODES, (2, EDGES), generator=GENERATOR)
X, E = torch.rand(NODES, 3, generator=GENERATOR), torch.rand(EDGES, 2, generator=GENERATOR)


def divide(folders: list[Path], slices: list[dict[str, object]], **options: object) -> list[BaseException | None]:
    """What `partition` raises in each of some processes; None where all went well."""
    host, port = free_address().split(":")
    size = len(folders)

    def rank(number: int) -> BaseException | None:
        given = {"num_nodes": NODES, "master_addr": host, "master_port": int(port), **options, **slices[number]}
        partitioner = DistRandomPartitioner(folders[number], num_parts=size, current_partition_idx=number, **given)
        try:
            partitioner.partition()
        except halohop.errors.HalohopError as error:
            return error
        return None

    return in_ranks(size, rank)


def slice_of(number: int, size: int) -> dict[str, object]:
    nodes, edges = torch.arange(NODES)[number::size], torch.arange(EDGES)[number::size].flip(0)
    features = {"node_feat": X[nodes].numpy(), "node_feat_ids": nodes.numpy(), "edge_feat": E[edges.flip(0)]}
    return {"edge_index": ENDS[:, edges], "edge_ids": edges, "edge_feat_ids": edges.flip(0), **features}


@pytest.mark.parametrize("num_parts", [1, 3])
@pytest.mark.parametrize("strategy", ["by_src", "by_dst"])
def test_partitions_are_those_of_the_whole_graph(tmp_path: Path, num_parts: int, strategy: str) -> None:
    slices = [slice_of(number, num_parts) for number in range(num_parts)]
    options = {"edge_assign_strategy": strategy, "node_feat_dtype": torch.float16}
    assert divide([tmp_path / "parts"] * num_parts, slices, **options) == [None] * num_parts
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]
    loaded = [load_partition(tmp_path / "parts", part) for part in range(num_parts)]
    for number, (_, _, graph, node_feat, edge_feat, node_pb, edge_pb) in enumerate(loaded):
        assert torch.equal(torch.stack(graph.edge_index), ENDS[:, graph.eids])
        assert torch.equal(node_feat.feats, X.half()[node_feat.ids])
        assert torch.equal(edge_feat.feats, E[edge_feat.ids])
        assert (edge_pb[graph.eids] == number).all()
        assert (node_pb[graph.edge_index[0 if strategy == "by_src" else 1]] == number).all()
    assert torch.equal(torch.as_tensor(loaded[0][5]), halohop.placement.place_at_random(NODES, num_parts).long())
    for ids in ([found[2].eids for found in loaded], [found[3].ids for found in loaded]):
        whole = torch.cat(ids)
        assert torch.equal(whole.sort().values, torch.arange(len(whole)))


def test_several_types(tmp_path: Path) -> None:
    counts, buys = {"user": 40, "item": 20}, ("user", "buys", "item")
    ends = torch.stack([ENDS[0], ENDS[1] % 20])

    def own(number: int) -> dict[str, object]:
        edges, users = torch.arange(EDGES)[number::2], torch.arange(NODES)[number::2]
        return {
            "edge_index": {buys: (ends[0][edges], ends[1][edges])},
            "edge_ids": {buys: edges},
            "node_feat": {"user": X[users]},
            "node_feat_ids": {"user": users},
        }

    assert divide([tmp_path / "parts"] * 2, [own(0), own(1)], num_nodes=counts) == [None, None]
    for part in range(2):
        _, _, graph, node_feat, edge_feat, books, _ = load_partition(tmp_path / "parts", part)
        assert torch.equal(torch.stack(graph[buys].edge_index), ends[:, graph[buys].eids])
        assert torch.equal(node_feat["user"].feats, X[node_feat["user"].ids])
        assert list(node_feat) == ["user"]
        assert edge_feat is None
        assert {name: book.bincount().tolist() for name, book in books.items()} == {"user": [20, 20], "item": [10, 10]}


def test_a_folder_of_its_own_gets_its_own_partition(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    assert divide(folders, [slice_of(number, 2) for number in range(2)]) == [None, None]
    assert halohop.describe(folders[0]).parts == (0, 1)
    assert halohop.describe(folders[1]).parts == (1,)


@pytest.mark.parametrize(
    ("change", "first", "second"),
    [
        ({"edge_ids": torch.arange(50)}, "edge ids", "process 0 of 2 failed: "),
        ({"node_feat_ids": None}, "process 1 of 2 failed: ", "rows of 'node' have no ids"),
        ({"edge_index": torch.full((2, 50), NODES)}, "process 1 of 2 failed: ", "name node 40, which has no owner"),
    ],
)
def test_what_one_process_does_wrong_ends_all(tmp_path: Path, change: dict[str, object], first: str, second: str) -> None:
    slices = [slice_of(0, 2), {**slice_of(1, 2), **change}]
    if "edge_ids" in change:
        slices[1]["edge_feat_ids"] = change["edge_ids"]
    errors = divide([tmp_path / "parts"] * 2, slices)
    for error, message in zip(errors, (first, second), strict=True):
        assert message in str(error)
        assert isinstance(error, ClusterError if message.startswith("process") else InputError)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine").write_text("mine")
    (error,) = divide([tmp_path / "parts"], [slice_of(0, 1)])
    assert "parts exists; choose another folder" in str(error)
    assert (tmp_path / "parts" / "mine").read_text() == "mine"
    with pytest.raises(InputError, match="'by_edge' is neither 'by_src' nor 'by_dst'"):
        divide([tmp_path / "new"], [slice_of(0, 1)], edge_assign_strategy="by_edge")
    with pytest.raises(InputError, match="are not the edge_ids of this process; give rows of its own edges"):
        divide([tmp_path / "new"], [{**slice_of(0, 1), "edge_feat_ids": torch.arange(5)}])
    with pytest.raises(InputError, match="call init_worker_group"):
        DistRandomPartitioner(tmp_path, NODES, ENDS, torch.arange(EDGES), master_addr="localhost", master_port=1)
