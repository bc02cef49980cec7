"""Partitions that GLT's names write and read: everything once, and the same batches from any number of them."""

import shutil
from pathlib import Path

import pytest
import torch

import halohop
from halohop.errors import DatasetError, HalohopError, InputError, SchemaError
from halohop.glt.partition import (
    PartitionerBase,
    RandomPartitioner,
    RangePartitionBook,
    build_partition_feature,
    cat_feature_cache,
    load_feature_partition_data,
    load_graph_partition_data,
    load_partition,
)
from halohop.glt.typing import as_str

NODES, EDGES = 60, 60  # alike: rows must not be told by their number
GENERATOR = torch.Generator().manual_seed(0)
ENDS = torch.randint(NODES, (2, EDGES), generator=GENERATOR)
X, E = torch.rand(NODES, 4, generator=GENERATOR), torch.rand(EDGES, 3, generator=GENERATOR)
WEIGHTS = torch.rand(EDGES, generator=GENERATOR)

COUNTS = {"user": 30, "item": 20}
BUYS, LIKES = ("user", "buys", "item"), ("user", "likes", "user")
TYPED = {BUYS: torch.stack([ENDS[0] % 30, ENDS[1] % 20]), LIKES: torch.stack([ENDS[1] % 30, ENDS[0] % 30])}


def partitioned(folder: Path, num_parts: int, **options: object) -> Path:
    given = {"node_feat": X, "edge_feat": E, "edge_weights": WEIGHTS, **options}
    RandomPartitioner(str(folder), num_parts, NODES, ENDS, **given).partition()
    return folder


@pytest.mark.parametrize("num_parts", [1, 2, 3])
@pytest.mark.parametrize("strategy", ["by_src", "by_dst"])
def test_everything_is_loaded_once(tmp_path: Path, num_parts: int, strategy: str) -> None:
    folder = partitioned(tmp_path / "parts", num_parts, edge_assign_strategy=strategy)
    loaded = [load_partition(folder, part) for part in range(num_parts)]
    for number, (count, part, graph, node_feat, edge_feat, node_pb, edge_pb) in enumerate(loaded):
        assert (count, part) == (num_parts, number)
        rows, cols = graph.edge_index
        assert torch.equal(torch.stack([rows, cols]), ENDS[:, graph.eids])
        assert torch.equal(graph.weights, WEIGHTS[graph.eids])
        assert torch.equal(node_feat.feats, X[node_feat.ids])
        assert torch.equal(edge_feat.feats, E[edge_feat.ids])
        assert torch.equal(edge_feat.ids, graph.eids)
        assert node_feat.cache_feats is None
        assert node_feat.cache_ids is None
        assert node_pb.dtype == edge_pb.dtype == torch.int64
        assert (node_pb[node_feat.ids] == number).all()
        assert (edge_pb[graph.eids] == number).all()
        assert (node_pb[rows if strategy == "by_src" else cols] == number).all()
    for ids in ([found[2].eids for found in loaded], [found[3].ids for found in loaded]):
        assert torch.cat(ids).sort().values.tolist() == list(range(60))
    sizes = loaded[0][5].bincount(minlength=num_parts)
    assert sizes.max() - sizes.min() <= 1
    assert halohop.describe(folder).edge_dir == ("out" if strategy == "by_src" else "in")


@pytest.mark.parametrize(
    "ends",
    [ENDS.numpy(), (ENDS[0], ENDS[1]), (ENDS[0].numpy(), ENDS[1].numpy()), ENDS.int(), ENDS.tolist()],
    ids=["array", "tuple", "arrays", "int32", "lists"],
)
def test_edges_come_in_any_form(tmp_path: Path, ends: object) -> None:
    RandomPartitioner(tmp_path / "parts", 2, NODES, ends, node_feat=X.numpy(), edge_weights=WEIGHTS.double().numpy()).partition()
    for part in range(2):
        _, _, graph, node_feat, edge_feat, *_ = load_partition(tmp_path / "parts", part)
        assert torch.equal(torch.stack(graph.edge_index), ENDS[:, graph.eids])
        assert torch.equal(graph.weights, WEIGHTS[graph.eids])
        assert torch.equal(node_feat.feats, X[node_feat.ids])
        assert edge_feat is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_features_are_stored_as_asked(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = partitioned(tmp_path / "parts", 2, node_feat_dtype=dtype, edge_feat_dtype=dtype)
    _, _, _, node_feat, edge_feat, *_ = load_partition(folder, 1)
    assert torch.equal(node_feat.feats, X.to(dtype)[node_feat.ids])
    assert torch.equal(edge_feat.feats, E.to(dtype)[edge_feat.ids])
    assert node_feat.feats.dtype == dtype


def typed(folder: Path, num_parts: int = 2) -> Path:
    RandomPartitioner(
        folder,
        num_parts,
        COUNTS,
        TYPED,
        node_feat={"user": X[:30]},
        edge_feat={BUYS: E},
        edge_weights={LIKES: WEIGHTS},
    ).partition()
    return folder


def test_several_types(tmp_path: Path) -> None:
    loaded = [load_partition(typed(tmp_path / "parts") if not part else tmp_path / "parts", part) for part in range(2)]
    for number, (_, _, graph, node_feat, edge_feat, node_pb, edge_pb) in enumerate(loaded):
        assert list(graph) == list(edge_pb) == [BUYS, LIKES]
        assert list(node_pb) == ["user", "item"]
        assert list(node_feat) == ["user"]
        assert list(edge_feat) == [BUYS]
        for etype, ends in TYPED.items():
            assert torch.equal(torch.stack(graph[etype].edge_index), ends[:, graph[etype].eids])
            assert (node_pb[etype[0]][graph[etype].edge_index[0]] == number).all()
            assert (edge_pb[etype][graph[etype].eids] == number).all()
        assert graph[BUYS].weights is None
        assert torch.equal(graph[LIKES].weights, WEIGHTS[graph[LIKES].eids])
        assert torch.equal(node_feat["user"].feats, X[node_feat["user"].ids])
        assert torch.equal(edge_feat[BUYS].feats, E[edge_feat[BUYS].ids])
        place = f"{tmp_path}/parts/part{number}"
        assert torch.equal(load_graph_partition_data(f"{place}/graph/{as_str(LIKES)}").eids, graph[LIKES].eids)
        assert torch.equal(load_feature_partition_data(f"{place}/node_feat/user/").ids, node_feat["user"].ids)
        assert torch.equal(load_feature_partition_data(f"{place}/edge_feat/{as_str(BUYS)}").feats, edge_feat[BUYS].feats)
        assert load_feature_partition_data(f"{place}/node_feat/item") is None
    for etype in TYPED:
        assert torch.cat([found[2][etype].eids for found in loaded]).sort().values.tolist() == list(range(EDGES))


def test_places_as_glt_calls_them(tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "parts", 2)
    _, _, graph, node_feat, edge_feat, *_ = load_partition(folder, 1)
    assert torch.equal(load_graph_partition_data(folder / "part1" / "graph").weights, graph.weights)
    assert torch.equal(load_feature_partition_data(folder / "part1" / "node_feat").feats, node_feat.feats)
    assert torch.equal(load_feature_partition_data(folder / "part1" / "edge_feat").feats, edge_feat.feats)
    with pytest.raises(InputError, match="is no place in a partition; give ROOT/partN/graph"):
        load_graph_partition_data(folder / "part1")


class Halves(PartitionerBase):
    """A user's own: ranges of ids, and copies of the first nodes of the other half."""

    def _partition_node(self, ntype=None):
        half = self.num_nodes // 2
        ids = [torch.arange(half), torch.arange(half, self.num_nodes)]
        return ids, RangePartitionBook([(0, half), (half, self.num_nodes)], 0)

    def _cache_node(self, ntype=None):
        return [torch.tensor([self.num_nodes - 1, 0, self.num_nodes // 2]), None]


def test_users_write_partitioners_of_their_own(tmp_path: Path) -> None:
    Halves(tmp_path / "parts", 2, NODES, ENDS, X).partition()
    _, _, graph, node_feat, _, node_pb, _ = load_partition(tmp_path / "parts", 0)
    assert node_pb.tolist() == [0] * 30 + [1] * 30
    assert (graph.edge_index[0] < 30).all()
    assert node_feat.cache_ids.tolist() == [30, 59]
    assert torch.equal(node_feat.cache_feats, X[[30, 59]])
    assert load_partition(tmp_path / "parts", 1)[3].cache_ids.tolist() == []
    with pytest.raises(NotImplementedError, match="_partition_node"):
        PartitionerBase(tmp_path / "other", 2, NODES, ENDS).partition()


def test_cached_rows_stand_first(tmp_path: Path) -> None:
    Halves(tmp_path / "parts", 2, NODES, ENDS, X).partition()
    _, part, _, node_feat, _, node_pb, _ = load_partition(tmp_path / "parts", 0)
    ratio, feats, id2idx, book = cat_feature_cache(part, node_feat, node_pb)
    assert ratio == 2 / 32
    ids = torch.cat([torch.tensor([30, 59]), node_feat.ids])
    assert torch.equal(feats[id2idx[ids]], X[ids])
    assert torch.equal(feats[:2], X[[30, 59]])
    assert (book[ids] == 0).all()
    assert node_pb[30] == 1
    ratio, feats, id2idx, book = cat_feature_cache(1, node_feat._replace(cache_feats=None, cache_ids=None), node_pb)
    assert ratio == 0
    assert torch.equal(feats[id2idx[node_feat.ids]], node_feat.feats)
    assert torch.equal(book, node_pb)


def test_features_come_later(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    RandomPartitioner(folder, 2, NODES, ENDS, X, edge_weights=WEIGHTS).partition(with_feature=False)
    assert load_partition(folder, 0)[3] is None
    for part in range(2):
        build_partition_feature(folder, part, node_feat=X, node_feat_dtype=torch.float16, edge_feat=E.numpy())
    for part in range(2):
        _, _, graph, node_feat, edge_feat, *_ = load_partition(folder, part)
        assert torch.equal(node_feat.feats, X.half()[node_feat.ids])
        assert torch.equal(edge_feat.feats, E[edge_feat.ids])
        assert torch.equal(graph.weights, WEIGHTS[graph.eids])
    with pytest.raises(SchemaError, match="has a column 'x' of 'node' with other rows"):
        build_partition_feature(folder, 1, node_feat=X + 1, node_feat_dtype=torch.float16)
    with pytest.raises(InputError, match=r"partition_idx=2 is not in .*, which holds \[0, 1\]"):
        build_partition_feature(folder, 2, node_feat=X)


def test_features_of_several_types_come_later(tmp_path: Path) -> None:
    folder = typed(tmp_path / "parts")
    build_partition_feature(folder, 0, node_feat={"item": X[:20], "user": X[:30]}, edge_feat={LIKES: E})
    _, _, _, node_feat, edge_feat, *_ = load_partition(folder, 1)
    assert torch.equal(node_feat["item"].feats, X[node_feat["item"].ids])
    assert torch.equal(edge_feat[LIKES].feats, E[edge_feat[LIKES].ids])


@pytest.mark.parametrize("strategy", ["by_src", "by_dst"])
def test_batches_do_not_depend_on_the_partitions(tmp_path: Path, strategy: str) -> None:
    found = []
    for num_parts in (1, 2, 4):
        folder = partitioned(tmp_path / f"{num_parts}", num_parts, edge_assign_strategy=strategy)
        with halohop.open(folder) as graph:
            loader = halohop.NeighborLoader(
                graph, [3, 2], torch.arange(NODES), weight_attr="edge_weight", batch_size=8, shuffle=True, seed=4
            )
            found.append([batch.to_dict() for batch in loader])
    for batches in zip(*found, strict=True):
        for other in batches[1:]:
            for key, value in batches[0].items():
                assert torch.equal(torch.as_tensor(value), torch.as_tensor(other[key])), key


def test_a_second_partition_loses_nothing(tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "parts", 2)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(InputError, match="is not empty, and partitions are not added to others; delete it, or name a new"):
        partitioned(folder, 2)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    (tmp_path / "made").mkdir()
    partitioned(tmp_path / "made", 2)  # as scripts with ensure_dir do


def test_torch_seeds_the_division(tmp_path: Path) -> None:
    books = []
    for number, seed in enumerate((7, 7, 8)):
        torch.manual_seed(seed)
        books.append(load_partition(partitioned(tmp_path / f"{number}", 2), 0)[5])
    assert torch.equal(books[0], books[1])
    assert not torch.equal(books[0], books[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edge_assign_strategy": "by_node"}, "edge_assign_strategy='by_node' is neither 'by_src' nor 'by_dst'"),
        ({"edge_weights": WEIGHTS[1:]}, r"edge_weights have shape \(59,\), but there are 60 edges"),
        ({"node_feat": X[1:]}, "'x' has 59 rows, but there are 60 nodes"),
        ({"edge_feat": E[1:]}, "'edge_attr' has 59 rows, but there are 60 edges"),
        ({"num_parts": 0}, "num_parts=0"),
        ({"edge_index": ENDS + 1}, "but ids go from 0 to 59"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    given = {"output_dir": tmp_path / "parts", "num_parts": 2, "num_nodes": NODES, "edge_index": ENDS, "node_feat": X, **options}
    with pytest.raises(InputError, match=message):
        RandomPartitioner(**given).partition()
    assert not (tmp_path / "parts").exists()


def test_a_partition_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "parts", 2)
    with pytest.raises(InputError, match=r"part=2, but .* has the partitions 0 to 1"):
        load_partition(folder, 2)
    with pytest.raises(DatasetError, match="there is no folder"):
        load_partition(tmp_path / "none", 0)
    shutil.rmtree(folder / "part-0001")
    with pytest.raises(InputError, match=r"partitions \[1\] are not in"):
        load_partition(folder, 1)


def test_folders_of_glt_name_the_command_that_converts_them(tmp_path: Path) -> None:
    (tmp_path / "META").write_bytes(b"\x80\x05}\x94.")
    for call in (load_partition, build_partition_feature):
        with pytest.raises(HalohopError, match=f"convert them: halohop partition 'glt:{tmp_path}' OUT --edge-dir out"):
            call(tmp_path, 0)
    with pytest.raises(InputError, match="is not empty"):
        partitioned(tmp_path, 2)


def test_what_changes_nothing_says_so(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="chunk_size changes nothing"):
        partitioned(tmp_path / "a", 2, chunk_size=7)
    with pytest.warns(UserWarning, match="device changes nothing here: graphs are divided on the CPU"):
        partitioner = RandomPartitioner(tmp_path / "b", 2, NODES, ENDS, device=torch.device("cuda", 0))
    with pytest.warns(UserWarning, match="graph_caching changes nothing"):
        partitioner.partition(graph_caching=True)
