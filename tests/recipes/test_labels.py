from typing import Any

import pytest
import torch

from halohop.cluster.graph import in_memory
from halohop.errors import InputError, SchemaError
from halohop.recipes.labels import count_classes, find_target
from halohop.store.tables import GraphTables, NodeTable
from halohop.world import World

CPU = torch.device("cpu")
MASK = torch.tensor([True, True, False])


def graph(**nodes: dict[str, torch.Tensor]) -> Any:
    return in_memory(GraphTables(nodes={name: NodeTable(num_nodes=3, columns=c) for name, c in nodes.items()}, edges={}))


def test_target_is_the_type_that_can_be_learned() -> None:
    schema = graph(a={"y": torch.zeros(3).long()}, b={"y": torch.zeros(3).long(), "train_mask": MASK}, c={}).schema
    assert find_target(schema, None) == "b"
    assert find_target(schema, "b") == "b"
    with pytest.raises(SchemaError, match="no split 'train'"):
        find_target(schema, "a")
    with pytest.raises(SchemaError, match="no labels `y`"):
        find_target(schema, "c")
    with pytest.raises(SchemaError, match="unknown node type 'd'"):
        find_target(schema, "d")


def test_no_target_and_several_are_told_apart_by_their_columns() -> None:
    with pytest.raises(SchemaError, match=r"are \[\]; name one"):
        find_target(graph(a={"x": torch.zeros(3, 1)}).schema, None)
    both = {"y": torch.zeros(3).long(), "train_mask": MASK}
    with pytest.raises(SchemaError, match=r"\['a', 'b'\]"):
        find_target(graph(a=both, b=both).schema, None)


@pytest.mark.parametrize(
    ("y", "message"), [(torch.zeros(3), "regression is not supported"), (torch.zeros(3, 4).long(), "several labels at once")]
)
def test_labels_that_are_no_classes_are_refused(y: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_target(graph(a={"y": y, "train_mask": MASK}).schema, "a")


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_classes_are_counted_over_all_splits(dtype: torch.dtype) -> None:
    """A class that no training node has still needs a logit; nodes outside the splits do not count."""
    y = torch.tensor([[0], [3], [9]], dtype=dtype)
    columns = {"y": y, "train_mask": torch.tensor([True, False, False]), "test_mask": torch.tensor([False, True, False])}
    assert count_classes(graph(a=columns), "a", World(), CPU) == 4


def test_no_label_at_all_is_an_error() -> None:
    with pytest.raises(InputError, match="no node of 'a' in a split has a label"):
        count_classes(graph(a={"y": torch.full((3,), -1), "train_mask": MASK}), "a", World(), CPU)
