"""Every way in which PyG's users name seed edges, turned into one."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import NegativeSampling

from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.loading.examples import LinkDataset
from halohop.pyg.inputs import as_tensor, comparable_times
from halohop.sampling.exclusion import SeedEdges, check_reverse
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.negative import Candidates, Negatives
from halohop.sampling.subgraph import partners_of
from halohop.store.draw import Rules
from halohop.store.schema import Schema
from halohop.typing import Relation

InputEdges = Tensor | np.ndarray[Any, Any] | Sequence[Any] | None


def link_dataset(
    graph: Graph,
    edge_label_index: InputEdges,
    *,
    edge_label: Tensor | None = None,
    edge_label_time: Tensor | None = None,
    input_id: Tensor | None = None,
    neg_sampling: NegativeSampling | None = None,
    strict: bool = False,
    exclude: bool = False,
    reverse: Relation | None = None,
    rules: Rules,
    seed: int = 0,
) -> LinkDataset:
    """The edges that `edge_label_index` names.

    Args:
        graph: whose nodes their ends are.
        edge_label_index: None (all edges), or raw ids of sources and destinations, ``[2, n]``; in a graph of several relations
            one of them, or a pair of it and any of these.
        edge_label, edge_label_time: per edge, ``[n, ...]`` and ``[n]``.
        input_id: numbers to give out as the batches' `input_id` instead of positions.
        neg_sampling, strict: of negatives.
        exclude, reverse: whether the edges of a batch, and those of their reverse relation, are not sampled in it.
        rules: how neighbours are drawn; negatives respect the same times.
        seed: of the draws.

    Raises:
        SchemaError: an unknown relation.
        IdError: an id that the graph does not have.
        InputError: anything else that names no edges.
    """
    relation, index = _split_relation(graph.schema, edge_label_index)
    if index is None or strict or exclude:
        graph.schema.relation(relation)  # what is looked up there must be there
    if index is None:
        edges = graph.edges(relation)
        src_gid, dst_gid = edges.src_gid, edges.dst_gid
    else:
        src_raw, dst_raw = _pairs(index)
        src_gid, dst_gid = graph.locate(src_raw, relation[0]), graph.locate(dst_raw, relation[2])
    time = _per_edge(edge_label_time, "edge_label_time", len(src_gid), dims=1)
    ids = _per_edge(input_id, "input_id", len(src_gid), dims=1)
    label = _per_edge(edge_label, "edge_label", len(src_gid))
    steps: list[Callable[[LinkSeeds], LinkSeeds]] = []
    if neg_sampling is not None:
        label = _label_beside(neg_sampling, label)
        steps.append(negatives_of(graph, relation, neg_sampling, strict=strict, time_attr=rules.time, seed=seed))
    if exclude:
        found = graph.schema.reverse_of(relation) if reverse is None else check_reverse(graph.schema, relation, reverse)
        flips = partners_of(graph.schema) if rules.subgraph == "bidirectional" else {}
        steps.append(SeedEdges(graph=graph, relation=relation, reverse=found, flips=flips))
    dataset = LinkDataset(
        relation=relation,
        src_gid=src_gid,
        dst_gid=dst_gid,
        input_id=torch.arange(len(src_gid)) if ids is None else ids,
        label=label,
        time=comparable_times(time),
        steps=steps,
    )
    dataset.listed = index is not None
    return dataset


def read_neg_sampling(neg_sampling: Any, ratio: float | None) -> NegativeSampling | None:
    """PyG's `neg_sampling`, however it is written, or its older `neg_sampling_ratio`.

    Raises:
        InputError: both, or what PyG cannot make one of.
    """
    if ratio:
        if neg_sampling is not None:
            raise InputError(f"neg_sampling={neg_sampling!r} and neg_sampling_ratio={ratio!r} say the same; give one of them")
        neg_sampling = {"mode": "binary", "amount": ratio}
    try:
        read = NegativeSampling.cast(neg_sampling)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"neg_sampling={neg_sampling!r} says nothing ({error}); give 'binary', 'triplet' or PyG's NegativeSampling"
        ) from error
    if read is not None and not 0 < read.amount < math.inf:
        raise InputError(f"neg_sampling={neg_sampling!r}: the amount must be a number above 0")
    return read


def check_edge_times(edge_label_time: Tensor | None, time_attr: str | None) -> None:
    """Times of edges, and the attribute that they are compared with: both or neither.

    Raises:
        InputError: one of them alone.
    """
    if (edge_label_time is None) != (time_attr is None):
        raise InputError("edge_label_time and time_attr need each other: times of the edges, and what is compared with them")


def _label_beside(neg_sampling: NegativeSampling, label: Tensor | None) -> Tensor | None:
    """Labels of edges that get negatives: 0 means a negative, so labels from 0 on are raised by one, in a wider dtype if theirs
    cannot hold them.

    Raises:
        InputError: labels that cannot be distinguished from those of negatives.
    """
    if label is None:
        return None
    if neg_sampling.is_triplet():
        raise InputError("edge_label has no place beside triplets, where edges and negatives differ by position; leave it out")
    if label.dtype == torch.bool or label.is_complex():
        raise InputError(f"edge_label of {label.dtype} cannot be distinguished from negatives; give numbers from 0 on")
    wide = label.double() if label.is_floating_point() else label.long()
    if wide.isnan().any():
        raise InputError("edge_label holds NaN, which cannot be distinguished from negatives; give numbers from 0 on")
    if not (wide == 0).any():
        return label
    if (wide < 0).any() or not (wide + 1 > wide).all():
        least, most = wide.min().item(), wide.max().item()
        raise InputError(
            f"edge_label holds 0, which means a negative, and labels from {least} to {most}; give numbers from 0 on, below 2**53"
        )
    raised = (wide + 1).to(label.dtype)
    return raised if torch.equal(raised.to(wide.dtype), wide + 1) else wide + 1


def negatives_of(
    graph: Graph,
    relation: Relation,
    neg_sampling: NegativeSampling,
    *,
    seed: int,
    strict: bool = False,
    time_attr: str | None = None,
) -> Negatives:
    """What draws the negatives that PyG's object describes.

    Raises:
        InputError: weights that cannot be drawn by.
    """
    dst = Candidates.of(graph, relation[2], weight=neg_sampling.dst_weight, time=time_attr)
    same = relation[0] == relation[2] and neg_sampling.src_weight is None and neg_sampling.dst_weight is None
    return Negatives(
        graph=graph,
        relation=relation,
        triplet=neg_sampling.is_triplet(),
        amount=neg_sampling.amount,
        src=dst if same else Candidates.of(graph, relation[0], weight=neg_sampling.src_weight, time=time_attr),
        dst=dst,
        seed=seed,
        strict=strict,
    )


def relation_of(schema: Schema, name: Sequence[str]) -> Relation:
    """A relation by its three names, or by its ends alone where only one joins them.

    Raises:
        SchemaError: there is none, or several.
    """
    if len(name) == 2:
        joining = [known for known in schema.edges if (known[0], known[2]) == tuple(name)]
        if len(joining) == 1:
            return joining[0]
    return schema.relation(name)


def seed_relation(schema: Schema, name: Sequence[str]) -> Relation:
    """The relation of seed edges: one of the graph, or another between its node types, along which nothing is sampled.

    Raises:
        SchemaError: no relation, or one of unknown node types.
    """
    if len(name) == 3 and name[0] in schema.nodes and name[2] in schema.nodes:
        return name[0], name[1], name[2]
    return relation_of(schema, name)


def _split_relation(schema: Schema, given: InputEdges) -> tuple[Relation, Any]:
    relations = list(schema.edges)
    if isinstance(given, tuple | list) and given:
        if all(isinstance(part, str) for part in given):
            return seed_relation(schema, given), None
        first = given[0]
        if len(given) == 2 and isinstance(first, tuple | list) and first and all(isinstance(part, str) for part in first):
            return seed_relation(schema, first), given[1]
    if len(relations) != 1:
        example = f"({relations[0]!r}, edge_label_index); " if relations else ""
        raise SchemaError(f"edge_label_index must name a relation, e.g. {example}known: {relations}")
    return relations[0], given


def _pairs(index: Any) -> Tensor:
    pairs = as_tensor(index, "edge_label_index")
    if pairs.dim() != 2 or pairs.size(0) != 2:
        raise InputError(f"edge_label_index has shape {tuple(pairs.shape)}, expected [2, n]: sources, then destinations")
    if (pairs.is_floating_point() or pairs.is_complex() or pairs.dtype == torch.bool) and pairs.numel():
        raise InputError(f"edge_label_index must hold integers, got {pairs.dtype}")
    return pairs.long()


def _per_edge(values: Any, name: str, count: int, *, dims: int | None = None) -> Tensor | None:
    if values is None:
        return None
    tensor = as_tensor(values, name)
    if tensor.dim() == 0 or (dims is not None and tensor.dim() != dims):
        raise InputError(f"{name} has shape {tuple(tensor.shape)}, expected one entry for each of {count} edges")
    if len(tensor) != count:
        raise InputError(f"{name} has {len(tensor)} entries for {count} edges")
    return tensor
