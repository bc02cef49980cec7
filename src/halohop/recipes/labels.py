"""Which nodes have a class, and how many classes there are."""

from typing import Any

import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.recipes.models import part_of
from halohop.recipes.ranks import max_over_ranks
from halohop.store.requests import FetchRequest, RowQuery
from halohop.store.schema import Schema
from halohop.typing import NodeType
from halohop.world import World

_CHUNK = 1_000_000
_INTEGERS = ("int64", "int32", "int16", "int8", "uint8")


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
    if "train" not in schema.splits(target):
        raise SchemaError(f"node type {target!r} has no split 'train'; stored splits: {list(schema.splits(target))}")
    if column.shape not in ((), (1,)):
        raise InputError(
            f"`y` of {target!r} has {column.shape} values per node; the recipes learn one class per node, "
            "several labels at once are not supported: store one column as `y`"
        )
    if column.dtype not in _INTEGERS:
        raise InputError(
            f"`y` of {target!r} is {column.dtype}; the recipes learn classes, regression is not supported: "
            "store classes as integers 0, 1, 2, ..., and -1 for nodes without one"
        )
    return target


def count_classes(graph: Graph, target: NodeType, world: World, device: torch.device) -> int:
    """One more than the largest label in any split; each rank looks at its share of the nodes, all get the same answer.

    Raises:
        InputError: no node of any split has a label.
    """
    largest = -1
    for split in graph.schema.splits(target):
        gid, _ = graph.select(split, target)
        for chunk in torch.split(gid.tensor_split(world.size)[world.rank], _CHUNK):
            if len(chunk):
                ((y,),) = graph.fetch(FetchRequest(queries=(RowQuery(table=target, columns=("y",), gid=chunk),)))
                largest = max(largest, int(y.max()))
    classes = int(max_over_ranks(largest, device, world)) + 1
    if classes == 0:
        raise InputError(f"no node of {target!r} in a split has a label (y >= 0)")
    return classes


def seed_labels(batch: Any, target: NodeType) -> Tensor:
    """Labels of the seeds, int64 ``[batch_size]``; -1 where there is none."""
    store = part_of(batch, target)
    y: Tensor = store.y[: store.batch_size].view(-1).long()
    return y
