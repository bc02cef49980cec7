"""Leaks of link prediction: pairs of nodes to predict that are also joined by an edge that the model sees."""

import torch
from torch import Tensor

from halohop import Graph
from halohop.errors import InputError
from halohop.recipes.link_edges import TRAIN_MASK, LinkEdges, edge_columns
from halohop.typing import Relation


def find_reverse(graph: Graph, relation: Relation) -> Relation | None:
    """The relation that holds the same edges the other way round: by PyG's convention of names, else by its edges.

    Between nodes of one type a relation without a partner is its own reverse; else there is none.
    """
    named, count = graph.schema.reverse_of(relation), graph.schema.edges[relation].count
    if named not in (None, relation):
        return named
    for other, spec in graph.schema.edges.items():
        if other != relation and (other[2], other[0]) == (relation[0], relation[2]) and spec.count == count:
            edges, flipped = graph.edges(relation), graph.edges(other)
            num_dst = graph.schema.nodes[relation[2]].count
            pairs = edges.src_gid.long() * num_dst + edges.dst_gid, flipped.dst_gid.long() * num_dst + flipped.src_gid
            if torch.equal(*(pair.sort().values for pair in pairs)):
                return other
    return named


def find_leaks(graph: Graph, relation: Relation, splits: dict[str, LinkEdges], time_attr: str | None) -> list[str]:
    """Warnings about edges that the model sees and that join pairs of val or test: a sentence for each relation.

    Every rank holds the ids of all edges between the two types of the relation, 32 bytes each while it reads them.

    Args:
        graph: where the edges are.
        relation: of the edges to predict.
        splits: these edges, see `halohop.recipes.link_edges.split_edges`.
        time_attr: column of times, if there is one: then an edge sees what came before it. Else messages pass along the edges of
            "train", and along all edges of a relation that has no masks.

    Raises:
        InputError: another relation holds the same edges, or their reverses, without the masks or times that hide them.
    """
    held = [edges.index for name, edges in splits.items() if name != "train"]
    if not held:
        return []
    src, dst = torch.cat(held, dim=1)
    asked = _pairs(graph, relation, graph.locate(src, relation[0]), graph.locate(dst, relation[2]), relation)
    leaks = []
    for other, spec in graph.schema.edges.items():
        if {other[0], other[2]} != {relation[0], relation[2]} or time_attr in spec.columns:
            continue
        edges = graph.edges(other)
        shown = pairs = _pairs(graph, relation, edges.src_gid, edges.dst_gid, other)
        masked = time_attr is None and TRAIN_MASK in spec.columns
        if masked:
            shown = pairs[edge_columns(graph, other, [TRAIN_MASK])[TRAIN_MASK]]
        known = torch.isin(asked, shown)
        if known.all() and not masked:
            own = graph.edges(relation)
            if torch.equal(pairs.unique(), _pairs(graph, relation, own.src_gid, own.dst_gid, relation).unique()):
                column = TRAIN_MASK if time_attr is None else time_attr
                raise InputError(
                    f"the edges {other} are the reverses or copies of {relation} and have no column {column!r}: the model would "
                    "see the edges of val and test; give them the column of the edges that they repeat, or leave them out"
                )
        if known.any():
            leaks.append(
                f"{int(known.sum())} of {len(known)} edges of val and test repeat a pair of nodes that {other} shows the model, "
                "so scores may be too high. Leave out the masks and partition the graph with `--task link`: "
                "it keeps all edges between two nodes in one split."
            )
    return leaks


def _pairs(graph: Graph, relation: Relation, src: Tensor, dst: Tensor, of: Relation) -> Tensor:
    """A number for the two ends of each edge of a relation, the same for both directions."""
    src, dst = src.long(), dst.long()
    if relation[0] == relation[2]:
        src, dst = torch.minimum(src, dst), torch.maximum(src, dst)
    elif of[0] != relation[0]:
        src, dst = dst, src
    return src * graph.schema.nodes[relation[2]].count + dst
