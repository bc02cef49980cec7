"""Which nodes and edges a trainer learns from."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.dgl.distributed.dist_context import process
from halohop.dgl.distributed.dist_tensor import DistTensor, StoredTensor
from halohop.dgl.distributed.partition_book import GraphPartitionBook
from halohop.dgl.graph import DEFAULT_ETYPE, DEFAULT_NTYPE
from halohop.dgl.notes import note
from halohop.typing import Relation


def node_split(
    nodes: Any,
    partition_book: GraphPartitionBook | None = None,
    ntype: str = DEFAULT_NTYPE,
    rank: int | None = None,
    force_even: bool = True,
    node_trainer_ids: Any = None,
) -> Tensor:
    """The ids of this rank's nodes: each node of a mask is of one rank, and near it where that is possible.

    `halohop.placement.share_near` says what share of them is near.

    Args:
        nodes: a mask over all nodes of the type: a tensor, an array, or a column or table of the graph.
        partition_book: of the graph; None: the graph that was opened last.
        rank: another rank than this one.
        force_even: the ranks' counts differ by at most 1; False: each has those that are near it.
        node_trainer_ids: changes nothing.

    Raises:
        InputError: a mask of another length.

    Example:
        ``train_nid = node_split(g.ndata["train_mask"], g.get_partition_book())``
    """
    if node_trainer_ids is not None:
        note("node_trainer_ids")
    return _split(nodes, partition_book, rank, force_even, ntype=ntype)


def edge_split(
    edges: Any,
    partition_book: GraphPartitionBook | None = None,
    etype: str | Relation = DEFAULT_ETYPE,
    rank: int | None = None,
    force_even: bool = True,
    edge_trainer_ids: Any = None,
) -> Tensor:
    """The same of edges: near is an edge whose destination is."""
    if edge_trainer_ids is not None:
        note("edge_trainer_ids")
    return _split(edges, partition_book, rank, force_even, etype=etype)


def _split(mask: Any, book: GraphPartitionBook | None, rank: int | None, even: bool, **kind: Any) -> Tensor:
    graph = (None if book is None else book.graph) or process.graph("node_split")
    named = (
        {"node_type": graph.types.node_type(kind["ntype"])}
        if "ntype" in kind
        else {"relation": graph.types.relation(kind["etype"])}
    )
    world = graph.world if rank is None else replace(graph.world, rank=rank)
    return halohop.placement.share_near(graph.engine, _given(mask), world, even=even, **named).ids


def _given(mask: Any) -> Tensor | str:
    """A mask as `halohop.placement.share_near` takes it."""
    if isinstance(mask, StoredTensor) and mask.is_split and isinstance(mask.table_key, str):  # splits are of nodes
        return mask.tensor_name.removesuffix("_mask")
    if isinstance(mask, DistTensor):
        return mask[:].bool()
    return torch.as_tensor(mask).bool()
