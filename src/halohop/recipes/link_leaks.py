"""Leaks of link prediction: pairs of nodes to predict that are also joined by an edge that the model sees.

Only a complete leak is refused: a relation with exactly the pairs of the predicted one, in either direction, without masks or
times. Funnels (views before purchases) and knowledge graphs share pairs on purpose, so others are counted in a warning.
"""

import torch
from torch import Tensor

from halohop import Graph
from halohop.errors import InputError
from halohop.recipes.link_edges import TRAIN_MASK, LinkEdges, edge_columns
from halohop.typing import Relation

_REMEDY = "Leave out the masks and partition the graph with `--task link`: it keeps all edges between two nodes in one split."
_REMEDY_OF_TIMES = "Give each of its edges the {0!r} of the edge that it repeats, or leave it out."


def find_reverse(graph: Graph, relation: Relation) -> Relation | None:
    """The relation that holds the same edges the other way round: by PyG's convention of names, else by its edges.

    Between nodes of one type a relation without a partner is its own reverse; else there is none.
    """
    named, count = graph.schema.reverse_of(relation), graph.schema.edges[relation].count
    if named not in (None, relation):
        return named
    ends, num_dst = (relation[2], relation[0]), graph.schema.nodes[relation[2]].count
    specs = graph.schema.edges.items()
    others = [other for other, spec in specs if other != relation and (other[0], other[2]) == ends and spec.count == count]
    if others:
        edges = graph.edges(relation)
        pairs = (edges.src_gid.long() * num_dst + edges.dst_gid).sort().values
        for other in others:
            flipped = graph.edges(other)
            if torch.equal(pairs, (flipped.dst_gid.long() * num_dst + flipped.src_gid).sort().values):
                return other
    return named


def find_leaks(graph: Graph, relation: Relation, splits: dict[str, LinkEdges], time_attr: str | None) -> list[str]:
    """Warnings about edges that the model sees and that join pairs of val or test: a sentence for each relation.

    Every rank holds the ids of all edges between the two types of the relation, 32 bytes each while it reads them.

    Args:
        graph: where the edges are.
        relation: of the edges to predict.
        splits: these edges, see `halohop.recipes.link_edges.split_edges`.
        time_attr: column of times, if there is one: then an edge sees what came before it. If the relation itself has the pair
            earlier, other relations may show it. Without times messages pass along the edges of "train", and along all edges of
            a relation that has no masks.

    Raises:
        InputError: another relation holds the same edges, or their reverses, without the masks or times that hide them.
    """
    held = [edges for name, edges in splits.items() if name != "train"]
    if not held:
        return []
    src, dst = torch.cat([edges.index for edges in held], dim=1)
    asked = _pairs(graph, relation, graph.locate(src, relation[0]), graph.locate(dst, relation[2]), relation)
    times = [edges.seen_until for edges in held if edges.seen_until is not None]
    until = torch.cat(times) if times else None
    column = TRAIN_MASK if time_attr is None else time_attr
    own_edges = graph.edges(relation)
    own = _pairs(graph, relation, own_edges.src_gid, own_edges.dst_gid, relation)
    repeated = None if until is None else _seen(asked, until, own, edge_columns(graph, relation, [column])[column])
    leaks = []
    for other, spec in graph.schema.edges.items():
        if {other[0], other[2]} != {relation[0], relation[2]} or (other == relation and until is not None):
            continue
        edges = own_edges if other == relation else graph.edges(other)
        pairs = _pairs(graph, relation, edges.src_gid, edges.dst_gid, other)
        hides = edge_columns(graph, other, [column])[column] if column in spec.columns else None
        known = _seen(asked, until, pairs, hides)
        if hides is None and known.all() and torch.equal(pairs.unique(), own.unique()):
            raise InputError(
                f"the edges {other} are the reverses or copies of {relation} and have no column {column!r}: the model would "
                "see the edges of val and test; give them the column of the edges that they repeat, or leave them out"
            )
        if hides is not None and repeated is not None:
            known &= ~repeated
        if known.any():
            leaks.append(
                f"{int(known.sum())} of {len(known)} edges of val and test have a copy or a reverse among {other} that the model "
                f"sees, so scores may be too high. {_REMEDY if until is None else _REMEDY_OF_TIMES.format(column)}"
            )
    return leaks


def _seen(asked: Tensor, until: Tensor | None, pairs: Tensor, hides: Tensor | None) -> Tensor:
    """Finds the asked pairs that the model sees among others. `hides` are the masks of these, or, with `until`, their times."""
    if hides is None or until is None:
        return torch.isin(asked, pairs if hides is None else pairs[hides])
    found = torch.isin(pairs, asked)
    numbers, place = torch.cat([asked, pairs[found]]).unique(return_inverse=True)
    first = hides.new_zeros(len(numbers)).scatter_reduce(0, place[len(asked) :], hides[found], "amin", include_self=False)
    return torch.isin(asked, pairs) & (first[place[: len(asked)]] <= until)


def _pairs(graph: Graph, relation: Relation, src: Tensor, dst: Tensor, of: Relation) -> Tensor:
    """A number for the two ends of each edge of a relation, the same for both directions."""
    src, dst = src.long(), dst.long()
    if relation[0] == relation[2]:
        src, dst = torch.minimum(src, dst), torch.maximum(src, dst)
    elif of[0] != relation[0]:
        src, dst = dst, src
    return src * graph.schema.nodes[relation[2]].count + dst
