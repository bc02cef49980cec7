"""Names in the results of inference: the users' own ids where they are strings, and the names of classes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.datasets.text import texts_of
from halohop.inference.results import ROWS
from halohop.typing import RAW_TEXT, NodeType


def has_text_ids(graph: Graph, target: NodeType) -> bool:
    """Whether the user's ids of these nodes are strings."""
    return RAW_TEXT in graph.schema.nodes[target].columns


def id_dtype(graph: Graph, target: NodeType) -> np.dtype[Any]:
    """What holds each of them."""
    (width,) = graph.schema.nodes[target].columns[RAW_TEXT].shape
    return np.dtype(f"U{width}")


def text_ids(graph: Graph, target: NodeType, gid: Tensor) -> Iterator[NDArray[Any]]:
    """The nodes' ids as strings, some at a time.

    Args:
        graph: where the ids are stored.
        target: type of the nodes.
        gid: the nodes, int64 ``[n]``.
    """
    for begin in range(0, len(gid), ROWS):
        (rows,) = graph.fetch_rows(target, [RAW_TEXT], gid[begin : begin + ROWS])
        yield np.asarray(texts_of(rows.to(torch.uint8)), dtype=np.str_)


def class_names(classes: Sequence[str]) -> NDArray[Any]:
    """The name of each class: ``classes[predictions]`` are the predicted names."""
    return np.array(classes, dtype=np.str_)
