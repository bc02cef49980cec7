"""`halohop.describe`: what a folder says of the whole graph, and of the partitions that are in it."""

import shutil

import pytest
import torch

import halohop
from halohop.datasets import load_tensor, synthetic_hetero
from halohop.errors import DatasetError, IncompleteDatasetError, InputError


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    path = tmp_path_factory.mktemp("described") / "parts"
    halohop.partition(synthetic_hetero(60), path, num_parts=3, method="random", edge_dir="out")
    return path


def test_the_whole_graph_and_the_ids_of_each_partition(parts):
    found = halohop.describe(parts)
    with halohop.open(parts) as graph:
        assert (found.schema, found.num_parts, found.edge_dir) == (graph.schema, 3, "out")
        for name in graph.node_types:
            ids = [found.nodes(part, name) for part in range(3)]
            assert [len(own) for own in ids] == [found.num_nodes(part, name) for part in range(3)]
            for part, own in enumerate(ids):
                assert (graph.owners(own, name) == part).all()
            assert torch.cat(ids).sort().values.tolist() == list(range(graph.num_nodes_dict[name]))


def test_a_folder_with_one_partition_of_three(parts, tmp_path):
    shutil.copytree(parts, tmp_path / "parts", ignore=shutil.ignore_patterns("part-0000", "part-0002"))
    found = halohop.describe(tmp_path / "parts")
    assert (found.parts, found.num_parts) == ((1,), 3)
    assert found.nodes(1, "paper").tolist() == halohop.describe(parts).nodes(1, "paper").tolist()
    with pytest.raises(IncompleteDatasetError, match="does not hold partition 0"):
        found.nodes(0, "paper")
    with pytest.raises(InputError, match="part=3"):
        found.nodes(3, "paper")


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(DatasetError, match="there is no folder"):
        halohop.describe(tmp_path / "parts")


def test_a_tensor_of_torch_and_nothing_else(tmp_path):
    torch.save(torch.arange(5), tmp_path / "y.pt")
    assert load_tensor(tmp_path / "y.pt").tolist() == list(range(5))
    torch.save({"y": torch.arange(5)}, tmp_path / "dict.pt")
    with pytest.raises(InputError, match=r"dict\.pt holds a dict, expected a tensor"):
        load_tensor(tmp_path / "dict.pt")
