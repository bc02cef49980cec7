"""GLT's names of types, and what it calls a relation that is turned around."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

NodeType = str
EdgeType = tuple[str, str, str]
EDGE_TYPE_STR_SPLIT = "__"

TensorDataType = Tensor | NDArray[np.generic]
NodeLabel = TensorDataType | dict[NodeType, TensorDataType]
NodeIndex = TensorDataType | dict[NodeType, TensorDataType]


class Split(Enum):
    """Which of a data set's node splits is meant."""

    train = "train"
    valid = "valid"
    test = "test"


class GraphPartitionData(NamedTuple):
    """The edges of one partition.

    Args:
        edge_index: ids of the ends, int64 ``[n]`` each.
        eids: ids of the edges, int64 ``[n]``.
        weights: float32 ``[n]``.
    """

    edge_index: tuple[Tensor, Tensor]
    eids: Tensor
    weights: Tensor | None = None


class FeaturePartitionData(NamedTuple):
    """The rows of one partition, and copies of rows of others.

    Args:
        feats: ``[n, ...]``.
        ids: whose they are, int64 ``[n]``.
        cache_feats, cache_ids: of rows that other partitions own.
    """

    feats: Tensor | None
    ids: Tensor | None
    cache_feats: Tensor | None = None
    cache_ids: Tensor | None = None


HeteroGraphPartitionData = dict[EdgeType, GraphPartitionData]
HeteroFeaturePartitionData = dict[NodeType | EdgeType, FeaturePartitionData]

Seeds = Tensor | str
InputNodes = Seeds | tuple[NodeType, Seeds] | Split
EdgeIndexTensor = Tensor | tuple[Tensor, Tensor]
InputEdges = EdgeIndexTensor | EdgeType | tuple[EdgeType, EdgeIndexTensor]
NumNeighbors = Sequence[int] | dict[EdgeType, Sequence[int]]


def as_str(type: NodeType | EdgeType) -> str:
    """A type's name in files.

    Example:
        >>> as_str(("user", "buys", "item")), as_str("user")
        ('user__buys__item', 'user')
    """
    if isinstance(type, str):
        return type
    return EDGE_TYPE_STR_SPLIT.join(type) if isinstance(type, tuple) and len(type) == 3 else ""


def reverse_edge_type(etype: EdgeType) -> EdgeType:
    """A relation that is turned around.

    Example:
        >>> reverse_edge_type(("user", "buys", "item")), reverse_edge_type(("item", "rev_buys", "user"))
        (('item', 'rev_buys', 'user'), ('user', 'buys', 'item'))
        >>> reverse_edge_type(("user", "knows", "user"))
        ('user', 'knows', 'user')
    """
    src, relation, dst = etype
    if src != dst:
        relation = relation.removeprefix("rev_") if relation.startswith("rev_") else f"rev_{relation}"
    return dst, relation, src
