"""Nodes lie where batches need them, evenly; the hottest of the others are copied."""

from pathlib import Path

import pytest
import torch

import halohop
from halohop.errors import InputError
from halohop.glt.partition import FrequencyPartitioner, load_partition
from halohop.testing.worlds import hosts

NODES = 200
GENERATOR = torch.Generator().manual_seed(1)
ENDS = torch.randint(NODES, (2, 900), generator=GENERATOR)
X = torch.rand(NODES, 5, generator=GENERATOR)
PROBS = [torch.rand(NODES, generator=GENERATOR) for _ in range(3)]


def partitioned(folder: Path, **options: object) -> Path:
    given = {"num_parts": 3, "num_nodes": NODES, "edge_index": ENDS, "probs": PROBS, "node_feat": X, **options}
    FrequencyPartitioner(folder, **given).partition()
    return folder


def test_nodes_lie_where_they_are_needed(tmp_path: Path) -> None:
    book = load_partition(partitioned(tmp_path / "parts"), 0)[5]
    assert sorted(book.bincount().tolist()) == [66, 67, 67]
    claims = torch.stack(PROBS) - torch.stack(PROBS).mean(0)
    placed, best = claims.gather(0, torch.as_tensor(book)[None]).sum(), claims.amax(0).sum()
    assert placed > 0.9 * best


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"cache_ratio": 0.2}, 40),
        ({"cache_memory_budget": 20 * 30}, 30),
        ({"cache_memory_budget": "1KB", "cache_ratio": 0.9}, 51),
        ({"cache_memory_budget": "1GB", "cache_ratio": 0.1}, 20),
        ({"cache_memory_budget": 600, "node_feat_dtype": torch.float16}, 60),
    ],
)
def test_the_hottest_of_the_others_are_copied(tmp_path: Path, options: dict[str, object], count: int) -> None:
    folder = partitioned(tmp_path / "parts", **options)
    for part, probs in enumerate(PROBS):
        _, _, _, node_feat, _, book, _ = load_partition(folder, part)
        others = probs.masked_fill(torch.as_tensor(book) == part, 0)
        assert sorted(node_feat.cache_ids.tolist()) == others.topk(count).indices.sort().values.tolist()
        assert torch.equal(node_feat.cache_feats, X.to(node_feat.feats.dtype)[node_feat.cache_ids])


def test_copied_rows_are_not_asked_of_their_owners(tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "parts", cache_ratio=0.2)
    cached = load_partition(folder, 0)[3].cache_ids
    with hosts(folder, [[0], [1], [2]]) as (graph, *_):
        before = graph.statistics()["remote_rows"]
        assert torch.equal(graph.fetch_rows("node", ["x"], graph.locate(cached))[0], X[cached])
        assert graph.statistics()["replica_rows"] >= len(cached)
        assert graph.statistics()["remote_rows"] - before <= len(cached)  # where they lie was asked, their rows were not


def test_several_types(tmp_path: Path) -> None:
    counts, buys = {"user": 120, "item": 80}, ("user", "buys", "item")
    edges = {buys: torch.stack([ENDS[0] % 120, ENDS[1] % 80]), ("item", "of", "user"): torch.stack([ENDS[0] % 80, ENDS[1] % 120])}
    probs = {name: [one[:count] for one in PROBS[:2]] for name, count in counts.items()}
    features = {"user": X[:120], "item": X[:80, :2]}
    FrequencyPartitioner(tmp_path / "parts", 2, counts, edges, probs, features, cache_ratio={"user": 0.25}).partition()
    _, _, _, node_feat, _, books, _ = load_partition(tmp_path / "parts", 1)
    assert {name: book.bincount().tolist() for name, book in books.items()} == {"user": [60, 60], "item": [40, 40]}
    assert len(node_feat["user"].cache_ids) == 30
    assert len(node_feat["item"].cache_ids) == 0
    assert torch.equal(node_feat["user"].cache_feats, X[node_feat["user"].cache_ids])


def test_one_partition(tmp_path: Path) -> None:
    folder = partitioned(tmp_path / "parts", num_parts=1, probs=PROBS[:1], cache_ratio=0.5)
    assert load_partition(folder, 0)[5].tolist() == [0] * NODES
    assert halohop.describe(folder).num_parts == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probs": PROBS[:2]}, r"probs of 'node' have shapes \[\(200,\), \(200,\)\]; give 3 of 200 nodes each"),
        ({"probs": [one[:7] for one in PROBS]}, "give 3 of 200 nodes each"),
        ({"probs": [one / 0 for one in PROBS]}, "give finite numbers"),
        ({"cache_ratio": 0.1, "node_feat": None}, "a cache holds node features; give node_feat"),
        ({"cache_ratio": -0.1}, r"cache_ratio=-0\.1: .* a share from 0 to 1"),
        ({"cache_memory_budget": "1 G"}, "'1 G' is no size"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        partitioned(tmp_path / "parts", **options)
    assert not (tmp_path / "parts").exists()
