"""What the partitions of a graph in memory must agree on before they are one graph: each describes itself, all compare."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from torch import Tensor

from halohop.errors import ClusterError, InputError
from halohop.partitioning.slices.own_parts import OwnBook
from halohop.partitioning.slices.slices import MemoryPartition
from halohop.store.manifest import Manifest
from halohop.store.part import Part
from halohop.store.schema import ColumnSpec, Schema, TableSpec, specs_of
from halohop.typing import EdgeDir, NodeType, Relation

_MODULUS = 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """The nodes of one type as a partition knows them.

    Args:
        name: of the type.
        bounds: how many nodes each partition owns, summed up.
        book: digest of their owners.
        columns: what rows hold.
    """

    name: NodeType
    bounds: tuple[int, ...]
    book: str
    columns: dict[str, ColumnSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRecord:
    """The edges of one relation in a partition.

    Args:
        relation: of the edges.
        count: how many the partition has.
        ids: sums of their ids and of the squares of these, modulo 2**64; None where they have no ids.
        book: digest of their owners; empty where these were not given.
        columns, halo: what rows hold.
    """

    relation: Relation
    count: int
    ids: tuple[int, int] | None
    book: str
    columns: dict[str, ColumnSpec]
    halo: dict[str, ColumnSpec]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """What a partition says of itself: a few hundred bytes, whatever its size."""

    part: int
    num_parts: int
    edge_dir: EdgeDir
    nodes: tuple[NodeRecord, ...]
    edges: tuple[EdgeRecord, ...]


def record_of(given: MemoryPartition, book: OwnBook, part: Part) -> PartRecord:
    """What the partition says of itself."""
    return PartRecord(
        part=given.part,
        num_parts=given.num_parts,
        edge_dir=given.edge_dir,
        nodes=tuple(
            NodeRecord(
                name=name,
                bounds=book.nodes[name].bounds,
                book=book.nodes[name].digest,
                columns=specs_of(own.columns, own.names),
            )
            for name, own in given.nodes.items()
        ),
        edges=tuple(
            EdgeRecord(
                relation=relation,
                count=part.edges[relation].num_edges,
                ids=None if own.edge_id is None else id_sums(own.edge_id),
                book="" if (owners := book.edges[relation]) is None else owners.digest,
                columns=specs_of(own.columns, {}),
                halo=specs_of(part.edges[relation].halo, {}),
            )
            for relation, own in given.edges.items()
        ),
    )


def manifest_of(records: Iterable[PartRecord]) -> Manifest:
    """The graph that the partitions are together; the same whichever process puts their records together.

    Raises:
        InputError: two of them disagree, or their edge ids are not 0, 1, 2, ..., each once; names them.
        ClusterError: a partition is missing.
    """
    ordered = sorted(records, key=lambda record: record.part)
    first = ordered[0]
    for other in ordered[1:]:
        check_alike(first, other)
    here = [record.part for record in ordered]
    missing = [part for part in range(first.num_parts) if part not in here]
    if missing:
        raise ClusterError(f"partitions {missing} of {first.num_parts} are given by no process; open or serve each of them")
    counts = {own.relation: [record.edges[place].count for record in ordered] for place, own in enumerate(first.edges)}
    for place, own in enumerate(first.edges):
        _check_ids(own.relation, [record.edges[place] for record in ordered])
    return _manifest(first, {relation: (0, *accumulate(numbers)) for relation, numbers in counts.items()})


def manifest_by_books(record: PartRecord, book: OwnBook) -> Manifest | None:
    """The same from one partition, where it was given the owners of all edges; else None."""
    bounds: dict[Relation, tuple[int, ...]] = {}
    for relation, owners in book.edges.items():
        if owners is None:
            return None
        bounds[relation] = owners.bounds
    return _manifest(record, bounds)


def _manifest(record: PartRecord, edge_bounds: dict[Relation, tuple[int, ...]]) -> Manifest:
    books = " ".join([own.book for own in record.nodes])
    return Manifest(
        schema=Schema(
            nodes={own.name: TableSpec(count=own.bounds[-1], columns=own.columns) for own in record.nodes},
            edges={own.relation: TableSpec(count=edge_bounds[own.relation][-1], columns=own.columns) for own in record.edges},
        ),
        node_bounds={own.name: own.bounds for own in record.nodes},
        edge_bounds=edge_bounds,
        files={},
        partitioned={"method": "in memory", "owners": books},
        report={},
        halo={own.relation: own.halo for own in record.edges},
        edge_dir=record.edge_dir,
    )


def check_alike(one: PartRecord, other: PartRecord) -> None:
    """
    Raises:
        InputError: the two cannot be partitions of one graph.
    """
    who = f"partitions {one.part} and {other.part}"
    if one.num_parts != other.num_parts:
        raise InputError(f"{who} say num_parts={one.num_parts} and {other.num_parts}; give all the same number")
    if one.edge_dir != other.edge_dir:
        raise InputError(f"{who} say edge_dir={one.edge_dir!r} and {other.edge_dir!r}; give all the same")
    _check_names("node types", [own.name for own in one.nodes], [own.name for own in other.nodes], who)
    _check_names("relations", [own.relation for own in one.edges], [own.relation for own in other.edges], who)
    for mine, theirs in zip(one.nodes, other.nodes, strict=True):
        if mine.book != theirs.book:
            sizes = f"{mine.bounds[-1]} and {theirs.bounds[-1]} nodes"
            raise InputError(f"{who} have different owner books of {mine.name!r}, of {sizes}; give every process the same one")
        _check_columns(mine.name, mine.columns, theirs.columns, who)
    for own, others in zip(one.edges, other.edges, strict=True):
        if own.book != others.book:
            raise InputError(f"{who} have different owner books of the edges {own.relation}; give every process the same one")
        if (own.ids is None) != (others.ids is None):
            raise InputError(f"of {who} only one has edge_id of {own.relation}; give it in all partitions, or in none")
        _check_columns(own.relation, own.columns | own.halo, others.columns | others.halo, who)


def _check_names(what: str, one: Sequence[object], other: Sequence[object], who: str) -> None:
    if one != other:
        raise InputError(f"{who} have the {what} {one} and {other}; name the same in the same order, empty ones too")


def _check_columns(table: object, one: dict[str, ColumnSpec], other: dict[str, ColumnSpec], who: str) -> None:
    for name in dict.fromkeys((*one, *other)):
        if one.get(name) != other.get(name):
            said = " and ".join("none" if spec is None else _text(spec) for spec in (one.get(name), other.get(name)))
            raise InputError(f"column {name!r} of {table!r} is {said} in {who}; give the same columns everywhere, empty ones too")
    if list(one) != list(other):
        raise InputError(f"{who} have the columns {list(one)} and {list(other)} of {table!r}; give them in the same order")


def _text(spec: ColumnSpec) -> str:
    return (
        f"{spec.dtype} {list(spec.shape)}{' sparse' if spec.sparse else ''}{f' named {list(spec.names)}' if spec.names else ''}"
    )


def _check_ids(relation: Relation, records: list[EdgeRecord]) -> None:
    given = [record.ids for record in records if record.ids is not None]
    if given:
        check_id_sums(relation, given, sum(record.count for record in records))


def check_id_sums(relation: Relation, sums: Iterable[tuple[int, int]], count: int) -> None:
    """Whether ids are 0 to count - 1, each once, without having seen them: by their sum and that of their squares.

    Raises:
        InputError: they are not.
    """
    expected = (count * (count - 1) // 2 % _MODULUS, count * (count - 1) * (2 * count - 1) // 6 % _MODULUS)
    if tuple(sum(parts) % _MODULUS for parts in zip(*sums, strict=True)) != expected:
        raise InputError(
            f"the edge ids of {relation} in all partitions are not 0 to {count - 1}, each once; number all edges of the graph"
        )


def id_sums(ids: Tensor) -> tuple[int, int]:
    """Of ids and of their squares, modulo 2**64."""
    values = ids.long().numpy().view(np.uint64)
    return int(values.sum()), int((values * values).sum())
