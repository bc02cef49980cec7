"""Step 1 of the documents: OGB's files become partitions, labels and seeds, where the training scripts look for them."""

import os
import shutil
from pathlib import Path

import pytest
import torch

import halohop
from halohop.datasets import load_tensor, ogb_node
from halohop.glt.partition import load_partition
from halohop.typing import EDGE, NODE
from tests.support.forked import Forked
from tests.support.ogb_files import write_ogb

EXAMPLES = Path(__file__).parents[2] / "examples" / "glt"
NUM_NODES = 600


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The examples where a clone has them, so that ../../../data is of the test."""
    return Path(shutil.copytree(EXAMPLES, tmp_path / "clone" / "examples" / "glt"))


def run(scripts: Path, command: str) -> tuple[int, str]:
    """The exit code and what was printed to both streams."""
    environment = os.environ | {"PYTHONPATH": f"{scripts}:{os.environ.get('PYTHONPATH', '')}"}
    process = Forked("partition_ogbn_dataset", command.split(), environment, cwd=scripts)
    try:
        printed = process.stdout.read() + process.stderr.read()
        return process.wait(120), printed
    finally:
        process.kill()
        process.wait(60)
        process.close()


@pytest.mark.parametrize(
    ("name", "command"),
    [
        pytest.param("ogbn-products", "--dataset=ogbn-products --num_partitions=2", marks=pytest.mark.full),
        pytest.param(
            "ogbn-papers100M",
            "--dataset=ogbn-papers100M --root_dir=../../../data/ogbn-papers100M --num_partitions=3",
            marks=pytest.mark.full,
        ),
    ],
)
def test_the_documents_commands(scripts: Path, tmp_path: Path, name: str, command: str) -> None:
    root = tmp_path / "data" / name
    write_ogb(root, name, num_nodes=NUM_NODES, num_features=8, num_classes=4)
    code, printed = run(scripts, command)
    assert code == 0, printed
    assert f"* node count: {NUM_NODES}" in printed
    whole = ogb_node(root, name)
    columns, edges = whole.nodes[NODE].columns, whole.edges[EDGE]
    num_parts = 2 if name == "ogbn-products" else 3
    assert torch.equal(load_tensor(root / f"{name}-label" / "label.pt"), columns["y"])
    for split in ("train", "test"):
        files = [root / f"{name}-{split}-partitions" / f"partition{part}.pt" for part in range(num_parts)]
        seeds = [load_tensor(file) for file in files]
        assert torch.equal(torch.cat(seeds), columns[f"{split}_mask"].nonzero().view(-1))
        assert max(map(len, seeds)) - min(map(len, seeds)) <= 1
    folder = root / f"{name}-partitions"
    assert halohop.describe(folder).edge_dir == "out"
    found = [load_partition(folder, part) for part in range(num_parts)]
    eids = torch.cat([graph.eids for _, _, graph, *_ in found])
    assert torch.equal(eids.sort().values, torch.arange(edges.num_edges))
    for _, part, graph, node_feat, edge_feat, book, _ in found:
        assert torch.equal(torch.stack(graph.edge_index), torch.stack(edges.ends)[:, graph.eids])
        assert torch.equal(node_feat.feats, columns["x"][node_feat.ids])
        assert torch.equal(node_feat.cache_feats, columns["x"][node_feat.cache_ids])
        assert 0 < len(node_feat.cache_ids) <= NUM_NODES // 5
        assert (book[node_feat.cache_ids] != part).all()
        assert edge_feat is None
        assert book.bincount().max() - book.bincount().min() <= 1
    assert not [path for path in root.iterdir() if path.name.startswith("halohop-")]


def test_what_is_there_stays(scripts: Path, tmp_path: Path) -> None:
    root = tmp_path / "data" / "ogbn-products"
    (root / "ogbn-products-partitions").mkdir(parents=True)
    code, printed = run(scripts, "--num_partitions=4")
    assert code == 1
    assert "ogbn-products-partitions is there already; delete it, or give another --root_dir" in printed
    assert [path.name for path in root.iterdir()] == ["ogbn-products-partitions"]


def test_files_that_were_never_downloaded_say_how(scripts: Path, tmp_path: Path) -> None:
    (tmp_path / "data" / "ogbn-products").mkdir(parents=True)
    code, printed = run(scripts, "--num_partitions=2")
    assert code == 1
    assert "NodePropPredDataset('ogbn-products'" in printed
