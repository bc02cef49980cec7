"""What users may write as the questions of `halohop.records.Draws`, checked and turned into one form."""

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.pyg.inputs import plain
from halohop.sampling.fanouts import whole_fanout
from halohop.typing import Relation

Method = Literal["neighbor", "labor"]


def is_labor(method: Method) -> bool:
    if method not in get_args(Method):
        raise InputError(f"method={method!r} is neither 'neighbor' nor 'labor'")
    return method == "labor"


def fanouts_by_relation(fanout: int | Mapping[Relation, int], graph: Graph) -> dict[Relation, int]:
    """The fanout of each relation that is named; of all with a number."""
    if not isinstance(fanout, Mapping):
        fanout = dict.fromkeys(graph.schema.edges, fanout)
    return {graph.schema.relation(relation): whole_fanout(plain(number), relation) for relation, number in fanout.items()}


def by_relation(ids: Tensor | Mapping[Relation, Tensor], graph: Graph, name: str) -> dict[Relation, Tensor]:
    if not isinstance(ids, Mapping):
        ids = {only_relation(graph): ids}
    for relation, of_relation in ids.items():
        if not isinstance(of_relation, Tensor):
            raise InputError(f"{name} of {relation} is a {type(of_relation).__name__}; give a tensor of ids")
    return {graph.schema.relation(relation): of_relation for relation, of_relation in ids.items()}


def only_relation(graph: Graph) -> Relation:
    relations = list(graph.schema.edges)
    if len(relations) != 1:
        raise SchemaError(f"this graph has {len(relations)} relations; name those that are meant: {relations}")
    return relations[0]


def whole_ids(ids: Tensor, name: str) -> Tensor:
    """Ids as int64 ``[n]``; the tensor itself if it is as it should be.

    Raises:
        InputError: they are none.
    """
    if type(ids) is Tensor and ids.dtype == torch.int64 and ids.dim() == 1 and ids.is_cpu and ids.is_contiguous():
        return ids
    if not isinstance(ids, Tensor):
        raise InputError(f"{name} is a {type(ids).__name__}; give a tensor of ids")
    whole = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
    if ids.dim() != 1 or not (whole or not len(ids)):
        raise InputError(f"{name}: {ids.dtype} of shape {tuple(ids.shape)} are no ids; give integers in one dimension")
    return torch.from_numpy(np.ascontiguousarray(ids.cpu().numpy(), dtype=np.int64))
