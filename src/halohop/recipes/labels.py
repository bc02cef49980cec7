"""Which nodes have a class, and how many classes there are."""

from typing import Any

import torch
from torch import Tensor

from halohop import Graph, World
from halohop.collectives import max_over_ranks, sum_over_ranks
from halohop.errors import InputError, SchemaError
from halohop.recipes.models import part_of
from halohop.records import Schema
from halohop.typing import NodeType

_CHUNK = 1_000_000
_SPARSE = 2**16
_CLASSES = ("int64", "int32", "int16", "int8", "uint8", "bool")
_MEMBERSHIPS = (*_CLASSES, "float64", "float32", "float16", "bfloat16")


def find_target(schema: Schema, name: str | None) -> NodeType:
    """The node type to classify; with None the only one that has labels ``y`` and a split "train".

    Raises:
        SchemaError: no such type, none that could be meant, or several.
        InputError: its labels are no classes.
    """
    if name is None:
        able = [known for known, spec in schema.nodes.items() if "y" in spec.columns and "train" in schema.splits(known)]
        if len(able) != 1:
            columns = {known: sorted(spec.columns) for known, spec in schema.nodes.items()}
            raise SchemaError(
                f"cannot choose the node type to classify: those with labels `y` and a `train_mask` are {able}; "
                f"name one as target (columns: {columns})"
            )
        name = able[0]
    target = schema.node_type(name)
    column = schema.nodes[target].columns.get("y")
    if column is None:
        raise SchemaError(f"node type {target!r} has no labels `y`; its columns: {sorted(schema.nodes[target].columns)}")
    schema.split(target, "train")
    if len(column.shape) > 1:
        raise InputError(f"`y` of {target!r} has values of shape {column.shape} per node; store one class, or a row of 0 and 1")
    if column.dtype not in (_MEMBERSHIPS if several_classes(schema, target) else _CLASSES):
        raise InputError(
            f"`y` of {target!r} is {column.dtype}; the recipes learn classes, regression is not supported: "
            "store classes as integers 0, 1, 2, ..., and -1 for nodes without one"
        )
    return target


def several_classes(schema: Schema, target: NodeType) -> bool:
    """Whether a node may belong to several classes: its label is then a row of 0 and 1."""
    shape = schema.nodes[target].columns["y"].shape
    return shape not in ((), (1,))


def count_classes(graph: Graph, target: NodeType, world: World, device: torch.device) -> int:
    """How many classes the labels of all splits have: one more than the largest, or the length of a row of them.

    Each rank looks at its share of the nodes, all get the same answer.

    Raises:
        InputError: no node of any split has a label, a class has too large a number, or a row of several labels
            holds a value other than 0, 1, -1 and NaN.
    """
    largest, several = -1, several_classes(graph.schema, target)
    for split in graph.schema.splits(target):
        gid, _ = graph.select(split, target)
        for chunk in torch.split(gid.tensor_split(world.size)[world.rank], _CHUNK):
            if len(chunk):
                (y,) = graph.fetch_rows(target, ["y"], chunk)
                largest = max(largest, _check_row(y, target) if several else int(y.max()))
    classes = int(max_over_ranks(largest, device, world)) + 1
    if classes == 0:
        raise InputError(f"no node of {target!r} in a split has a label (y >= 0)")
    if classes > max(graph.schema.nodes[target].count, _SPARSE):  # a model has a vector for each class up to the largest
        raise InputError(
            f"`y` of {target!r} holds the class {classes - 1}, but there are {graph.schema.nodes[target].count} nodes; number "
            "the classes 0, 1, 2, ... (torch.unique with return_inverse does), or store their names as text"
        )
    return classes


def labeled_splits(graph: Graph, target: NodeType, world: World, device: torch.device) -> tuple[str, ...]:
    """Those of "train", "val" and "test" in which a node has a label. Each rank looks at its share of the nodes, all get the same
    answer.

    Raises:
        InputError: "train" is not one of them.
    """
    splits = [split for split in ("train", "val", "test") if graph.schema.has_split(target, split)]
    found: list[float] = []
    for split in splits:
        gid, _ = graph.select(split, target)
        chunks = torch.split(gid.tensor_split(world.size)[world.rank], _CHUNK)
        found.append(any(_is_labeled(*graph.fetch_rows(target, ["y"], chunk)) for chunk in chunks if len(chunk)))
    labeled = tuple(split for split, ranks in zip(splits, sum_over_ranks(found, device, world), strict=True) if ranks)
    if "train" not in labeled:
        raise InputError(
            f"no node of {target!r} in the split 'train' has a label, so there is nothing to learn from; "
            "mark nodes that have a label in `train_mask`"
        )
    return labeled


def seed_labels(batch: Any, target: NodeType) -> Tensor:
    """Labels of the seeds, see `labels_of`; of empty places of a padded batch there are none."""
    store = part_of(batch, target)
    y = labels_of(store.y[: store.batch_size])
    if "seed_mask" not in store:
        return y
    taken = store.seed_mask if y.dim() == 1 else store.seed_mask.unsqueeze(1)
    return y.masked_fill(~taken, float("nan") if y.is_floating_point() else -1)


def labels_of(y: Tensor) -> Tensor:
    """A column of labels as the recipes learn it: classes, int64 ``[n]``, -1 where there is none; or rows of memberships, float
    ``[n, num_classes]``, NaN where one is not known."""
    if y.dim() < 2 or y.shape[1] == 1:
        return y.view(-1).long()
    return y.float().masked_fill(y < 0, float("nan"))


def _is_labeled(y: Tensor) -> bool:
    known = labels_of(y)
    return bool((known >= 0).any())  # NaN is not


def _check_row(y: Tensor, target: NodeType) -> int:
    """The last class, if any label is known."""
    known = labels_of(y)
    wrong = known[(known != 0) & (known != 1) & ~known.isnan()]
    if len(wrong):
        raise InputError(
            f"`y` of {target!r} holds {float(wrong[0]):g}; several values per node are 0 or 1, one per class, and -1 or NaN "
            "where that is not known"
        )
    return -1 if known.isnan().all() else y.shape[1] - 1
