"""How many places padded batches have: measured, bounded, or as the user says."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, get_args

import torch

from halohop.errors import InputError, SchemaError
from halohop.sampling.batch import AnySeeds, Batch, NodeBlock, Room, Seeds
from halohop.sampling.link_seeds import LinkSeeds
from halohop.sampling.neighbor import NeighborSampler
from halohop.sampling.placed import Places
from halohop.sampling.remote import RemoteSampler
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation

CapsFrom = Literal["measured", "bound"]
Numbers = Sequence[int] | Mapping[Any, Sequence[int]]

_GROWTH = 1.5
_GRAIN = 64
"""Measured caps are multiples of it, so that small differences make no other shapes."""

_LIMITING = {"time", "time_window", "last", "weight", "labor", "layer_dependency"}
BOUNDED = frozenset({"replace", "expand", "disjoint", "subgraph", "toward_seeds", *_LIMITING})
"""The options of `Rules` that `bound` honors. Those in `_LIMITING` only make batches smaller, so the bound still holds."""

Key = TypeVar("Key", NodeType, Relation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """How batches are padded to fixed shapes.

    Args:
        caps: where the numbers of places come from. "measured": the most that `batches` batches have, times `slack`; they are
            sampled when the loader is made. "bound": the most that any batch can have, by seeds, fanouts and the graph's size.
        nodes: your own numbers instead, per hop, seeds first; in heterogeneous graphs a dict with such a list for some types.
        edges: your own numbers of edges, per hop; or a dict with such a list for some relations. Induced and bidirectional
            subgraphs have one number for all hops.
        batches, slack: of "measured".
        fill: what columns hold in empty places, by name; 0 (False) by default, and -100 for integer "y", which
            `torch.nn.functional.cross_entropy` ignores.

    Raises:
        InputError: numbers that cannot be.

    Example:
        >>> Padding(nodes=[64, 500], edges=[640]).caps
        'measured'
    """

    caps: CapsFrom = "measured"
    nodes: Numbers | None = None
    edges: Numbers | None = None
    batches: int = 8
    slack: float = 1.25
    fill: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.caps not in get_args(CapsFrom):
            raise InputError(f"caps={self.caps!r} is neither 'measured' nor 'bound'")
        if not isinstance(self.batches, int) or self.batches < 1 or not 1 <= self.slack < math.inf:
            raise InputError(f"batches={self.batches} and slack={self.slack} must both be at least 1, and batches a whole number")

    def value(self, name: str, dtype: torch.dtype) -> float:
        """What a column holds in empty places."""
        is_label = name == "y" and not dtype.is_floating_point and not dtype.is_complex and dtype.is_signed
        return self.fill.get(name, -100 if is_label else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many seeds, nodes and edges a batch has, or has places for; nodes and edges by hop.

    Args:
        inputs: input nodes or edges, and pairs of ends with the negatives among them.
        nodes: ``hops + 1`` numbers per type; two, of the seeds and of the others, where nodes are not in the order of hops.
        edges: ``hops`` numbers per relation; one where edges are not in the order of hops.
    """

    inputs: Room
    nodes: dict[NodeType, tuple[int, ...]]
    edges: dict[Relation, tuple[int, ...]]

    @classmethod
    def of(cls, batch: Batch) -> "Sizes":
        """What a batch has."""
        return cls(
            inputs=_inputs(batch.seeds),
            nodes={
                name: _by_seeds(batch.seeds, name, block) if block.num_sampled is None else block.num_sampled
                for name, block in batch.nodes.items()
            },
            edges={
                relation: (len(block.gid),) if block.num_sampled is None else block.num_sampled
                for relation, block in batch.edges.items()
            },
        )

    def room_for(self, needed: "Sizes") -> "Sizes":
        """These places, or more where more are needed."""
        return Sizes(
            inputs=Room(seeds=_fit(needed.inputs.seeds, self.inputs.seeds), pairs=_fit(needed.inputs.pairs, self.inputs.pairs)),
            nodes={name: _fit_all(counts, self.nodes[name], keep=1) for name, counts in needed.nodes.items()},
            edges={relation: _fit_all(counts, self.edges[relation], keep=0) for relation, counts in needed.edges.items()},
        )

    def at_most(self, bound: "Sizes") -> "Sizes":
        """The smaller numbers."""
        return replace(
            self,
            nodes={name: _least(counts, bound.nodes[name]) for name, counts in self.nodes.items()},
            edges={relation: _least(counts, bound.edges[relation]) for relation, counts in self.edges.items()},
        )

    def places(self) -> Places:
        """The same as places of batches, of which one among each type's first is always empty."""
        nodes = {name: (counts[0] + 1, *counts[1:]) for name, counts in self.nodes.items()}
        return Places(inputs=self.inputs, nodes=nodes, edges=self.edges)

    def grows_for(self, needed: "Sizes") -> bool:
        """Whether more are needed."""
        nothing = Sizes(inputs=Room(seeds=0, pairs=0), nodes=_zeros(needed.nodes), edges=_zeros(needed.edges))
        return self.room_for(needed) != self.room_for(nothing)

    def overridden(self, padding: Padding, schema: Schema) -> "Sizes":
        """With the user's own numbers.

        Raises:
            InputError: they are of another number of hops, or below zero; or a column cannot hold what shall fill it.
            SchemaError: of types, relations or columns that the graph does not have.
        """
        tables = (*schema.nodes.values(), *schema.edges.values())
        known = {name: spec.dtype for table in tables for name, spec in table.columns.items()}
        if unknown := sorted(set(padding.fill) - known.keys()):
            raise SchemaError(f"nothing has the columns {unknown} to fill; known: {sorted(known)}")
        for name, value in padding.fill.items():
            try:
                torch.full((1,), value, dtype=getattr(torch, known[name]))
            except (RuntimeError, TypeError) as error:
                raise InputError(f"{name!r} is of {known[name]}, and cannot be filled with {value!r}: {error}") from error
        return replace(
            self,
            nodes=self.nodes | _given(padding.nodes, self.nodes, schema.node_type, "nodes"),
            edges=self.edges | _given(padding.edges, self.edges, schema.relation, "edges"),
        )


def _inputs(seeds: AnySeeds) -> Room:
    match seeds:
        case Seeds():
            return Room(seeds=len(seeds.input_id), pairs=0)
        case LinkSeeds():
            return Room(seeds=seeds.num_pos, pairs=len(seeds.dst_gid))
    return Room(seeds=0, pairs=0)


def measured(batches: Sequence[Batch], slack: float) -> Sizes:
    """Places for batches like these. The first nodes are as many as the seeds allow, which needs no measurement."""
    sizes = [Sizes.of(batch) for batch in batches]

    def most(counts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        length = min(len(hops) for hops in counts)
        by_hop = zip(*(_shortened(hops, length) for hops in counts), strict=True)
        return tuple(-(-math.ceil(max(hop) * slack) // _GRAIN) * _GRAIN for hop in by_hop)

    nodes = {name: most([size.nodes[name] for size in sizes]) for name in sizes[0].nodes}
    if sizes[0].inputs.seeds:
        nodes = {name: (_most_starts(batches, name), *counts[1:]) for name, counts in nodes.items()}
    return Sizes(
        inputs=Room(seeds=max(size.inputs.seeds for size in sizes), pairs=max(size.inputs.pairs for size in sizes)),
        nodes=nodes,
        edges={relation: most([size.edges[relation] for size in sizes]) for relation in sizes[0].edges},
    )


def bound(sampler: NeighborSampler | RemoteSampler, batch: Batch) -> Sizes:
    """The largest sizes of batches with as many seeds as this one, if no seed occurs twice.

    Raises:
        InputError: rules with other options than `BOUNDED`.
    """
    if others := sampler.rules.changed - BOUNDED:
        raise InputError(f"pad does not support {sorted(others)}; leave them out, or leave out pad")
    rules, schema, per_relation = sampler.rules, sampler.graph.schema, sampler.fanouts.per_relation
    book = sampler.graph.book
    copies = _inputs(batch.seeds).seeds if rules.disjoint else 1
    nodes = {name: [_most_starts([batch], name)] for name in schema.nodes}
    edges: dict[Relation, list[int]] = {relation: [] for relation in schema.edges}
    for hop in range(sampler.fanouts.num_hops):
        frontier = {name: sum(counts) if rules.expand == "all" else counts[-1] for name, counts in nodes.items()}
        for relation, fanouts in per_relation.items():
            drawn, all_edges = frontier[book.list_type(relation)] * fanouts[hop], copies * schema.edges[relation].count
            edges[relation].append(all_edges if drawn < 0 else drawn if rules.replace else min(drawn, all_edges))
        for name, counts in nodes.items():
            found = sum(edges[relation][hop] for relation in per_relation if book.neighbor_type(relation) == name)
            counts.append(min(found, copies * schema.nodes[name].count))
    totals = {relation: sum(counts) for relation, counts in edges.items()}
    if rules.subgraph == "induced":
        edges = {relation: [copies * schema.edges[relation].count] for relation in edges}
    elif rules.subgraph == "bidirectional":
        edges = {relation: [totals[relation] + totals[sampler.partners[relation]]] for relation in edges}
    return Sizes(
        inputs=_inputs(batch.seeds),
        nodes={name: tuple(counts) for name, counts in nodes.items()},
        edges={relation: tuple(counts) for relation, counts in edges.items()},
    )


def _by_seeds(seeds: AnySeeds, name: NodeType, block: NodeBlock) -> tuple[int, ...]:
    """The seeds, which stay first, and the others, in whatever order the user's function left them."""
    first = len(seeds.starts(name))
    return first, len(block.gid) - first


def _most_starts(batches: Sequence[Batch], name: NodeType) -> int:
    """The most nodes of a type that seeds can be."""
    return max(
        len(batch.seeds.starts(name)) + sum(len(end.gid) for end in batch.seeds.ends if end.node_type == name)
        for batch in batches
    )


def _fit(count: int, cap: int) -> int:
    while cap < count:
        cap = math.ceil(cap * _GROWTH) + 1
    return cap


def _fit_all(counts: tuple[int, ...], caps: tuple[int, ...], *, keep: int) -> tuple[int, ...]:
    """Room for all; `keep` places of the first are never taken. Where hops are not distinguished, for their sum."""
    fitting = [_fit(count, cap) for count, cap in zip(counts, _shortened(caps, len(counts)), strict=True)]
    return tuple(size + keep * (hop == 0) for hop, size in enumerate(fitting))


def _shortened(counts: tuple[int, ...], length: int) -> tuple[int, ...]:
    """So many numbers; the last stands for all hops that are not distinguished."""
    return (*counts[: length - 1], sum(counts[length - 1 :])) if len(counts) > length else counts


def _least(counts: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(min, counts, _shortened(others, len(counts))))


def _zeros(counts: Mapping[Key, tuple[int, ...]]) -> dict[Key, tuple[int, ...]]:
    return {key: (0,) * len(numbers) for key, numbers in counts.items()}


def _given(
    numbers: Any, known: Mapping[Key, tuple[int, ...]], checked: Callable[[Any], Key], what: str
) -> dict[Key, tuple[int, ...]]:
    given = {checked(key): tuple(counts) for key, counts in (numbers or {}).items()}
    for key, counts in given.items():
        if len(counts) != len(known[key]) or not all(isinstance(count, int) and count >= 0 for count in counts):
            raise InputError(f"{what} of {key!r} are {list(counts)}; give {len(known[key])} whole numbers, one for each hop")
    return given
