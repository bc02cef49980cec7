from typing import Any

import pytest
import torch

from halohop.cluster.graph import in_memory
from halohop.errors import InputError, SchemaError
from halohop.recipes.labels import count_classes, find_target, labeled_splits, labels_of
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
    ("y", "message"), [(torch.zeros(3), "regression is not supported"), (torch.zeros(3, 4, 2).long(), "a row of 0 and 1")]
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


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float16])
def test_rows_of_memberships_have_a_class_per_column(dtype: torch.dtype) -> None:
    y = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1]]).to(dtype)
    assert count_classes(graph(a={"y": y, "train_mask": MASK}), "a", World(), CPU) == 3
    assert labels_of(y).tolist() == y.float().tolist()


def test_memberships_that_are_not_known_are_nan_and_other_numbers_are_refused() -> None:
    assert labels_of(torch.tensor([[1, -1]])).isnan().tolist() == [[False, True]]
    assert labels_of(torch.tensor([[float("nan"), 1.0]])).isnan().tolist() == [[True, False]]
    wrong = graph(a={"y": torch.tensor([[0.0, 1.0], [0.5, 0.0], [0.0, 0.0]]), "train_mask": MASK})
    with pytest.raises(InputError, match=r"`y` of 'a' holds 0\.5; several values per node are 0 or 1"):
        count_classes(wrong, "a", World(), CPU)
    nothing = graph(a={"y": torch.full((3, 2), float("nan")), "train_mask": MASK})
    with pytest.raises(InputError, match="no node of 'a' in a split has a label"):
        count_classes(nothing, "a", World(), CPU)


@pytest.mark.parametrize("largest", [65_536, 2_000_000_000, 2**62])
def test_class_numbers_that_are_codes_are_refused_before_a_model_is_made(largest: int) -> None:
    y = torch.tensor([0, largest, 1])
    with pytest.raises(InputError, match=f"holds the class {largest}, but there are 3 nodes; number the classes 0, 1, 2"):
        count_classes(graph(a={"y": y, "train_mask": MASK}), "a", World(), CPU)
    columns = {"y": torch.tensor([0, 65_535, largest]), "train_mask": MASK}  # the last node is in no split
    assert count_classes(graph(a=columns), "a", World(), CPU) == 65_536


@pytest.mark.parametrize("stored", ["val", "valid", "validation"])
def test_validation_nodes_are_found_by_any_name_of_their_split(stored: str) -> None:
    columns = {"y": torch.arange(3), "train_mask": MASK, f"{stored}_mask": ~MASK, "other_mask": MASK}
    assert labeled_splits(graph(a=columns), "a", World(), CPU) == ("train", "val")
