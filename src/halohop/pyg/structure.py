"""What is sampled of a PyG graph in memory: its edges, sorted once for all loaders of the same object, and columns drawn by."""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop import ops
from halohop.partitioning.book import Book, list_end_of
from halohop.partitioning.building.parts import edge_part
from halohop.pyg.attributes import stores_of
from halohop.pyg.convert import Columns, Counts, Edges, drawn_columns, edges_and_counts, near, tables_of
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import Schema, TableSpec, specs_of
from halohop.store.tables import check_columns
from halohop.typing import EdgeDir, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A graph of one partition, without the rows that nothing is drawn by.

    Args:
        schema: of the columns that the part has.
        book: of one partition.
        part: the lists, and splits, times and weights.
    """

    schema: Schema
    book: Book
    part: Part


def structure_of(data: Data | HeteroData, names: Iterable[str | None] | None, *, edge_dir: EdgeDir) -> Structure:
    """The graph as it is now. Where its edges are those that were sorted before, their lists are the same tensors.

    Args:
        data: the graph.
        names: of times and weights, as of `halohop.pyg.convert.drawn_columns`.
        edge_dir: which edges the lists of nodes hold.

    Raises:
        InputError: the graph stores `adj_t`, does not know its number of nodes, or holds an attribute that cannot be divided into
            rows.
        IdError: an edge points to no node.
        SchemaError: a column or a type cannot have its name.
    """
    edges, counts = edges_and_counts(data)
    found = drawn_columns(data, names, counts)
    state = _state(data, counts, edge_dir)
    known = _SORTED.get(id(data))
    if known is not None and known.state is not None and known.state == state:
        _, columns = near({}, counts, found)
        for key, named in columns.items():
            check_columns(named, counts[key], "nodes" if isinstance(key, str) else "edges")
        return _with_columns(known.lists, counts, columns, edge_dir)
    brought, columns = near(edges, counts, found)
    tables_of(brought, counts, columns)  # checks them
    lists = _lists(brought, counts, edge_dir)
    if id(data) not in _SORTED:
        weakref.finalize(data, _SORTED.pop, id(data), None).atexit = False
    _SORTED[id(data)] = _Sorted(state=state, lists=lists)
    return _with_columns(lists, counts, columns, edge_dir)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sorted:
    """Lists without columns, and the state of the graph that they are of; None if torch does not count changes of it."""

    state: "_State | None"
    lists: dict[Relation, EdgePart]


_SORTED: dict[int, _Sorted] = {}
"""What was sorted last, by the number of the PyG object, for as long as that lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """What lists are made of: the tensors of edges are the same, and torch has not seen them written to, if this is equal."""

    edge_dir: EdgeDir
    counts: Counts
    edges: dict[Relation, tuple["weakref.ref[Tensor]", int]]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _State)
            and (self.edge_dir, self.counts, self.edges.keys()) == (other.edge_dir, other.counts, other.edges.keys())
            and all(mine[0]() is other.edges[key][0]() and mine[1] == other.edges[key][1] for key, mine in self.edges.items())
        )


def _state(data: Data | HeteroData, counts: Counts, edge_dir: EdgeDir) -> _State | None:
    stored = {key: store.get("edge_index") for key, store in stores_of(data) if not isinstance(key, str)}
    given = {key: ends for key, ends in stored.items() if ends is not None}
    if any(ends.is_inference() for ends in given.values()):
        return None
    edges = {key: (weakref.ref(ends), ends._version) for key, ends in given.items()}
    return _State(edge_dir=edge_dir, counts=counts, edges=edges)


def _lists(edges: Edges, counts: Counts, edge_dir: EdgeDir) -> dict[Relation, EdgePart]:
    end = list_end_of(edge_dir)
    lists = {}
    for relation, ends in edges.items():
        listed, other = counts[relation[2 * end]], counts[relation[2 - 2 * end]]
        indptr, indices, order = ops.sort_edges(ends[end], ends[1 - end], listed, other)
        lists[relation] = EdgePart(indptr=indptr, indices=indices, edge_id=order, columns={})
    return lists


def _with_columns(lists: dict[Relation, EdgePart], counts: Counts, columns: Columns, edge_dir: EdgeDir) -> Structure:
    nodes = {key: count for key, count in counts.items() if isinstance(key, str)}
    specs = {key: TableSpec(count=count, columns=specs_of(columns[key], {})) for key, count in counts.items()}
    end = list_end_of(edge_dir)
    return Structure(
        schema=Schema(
            nodes={key: spec for key, spec in specs.items() if isinstance(key, str)},
            edges={key: spec for key, spec in specs.items() if not isinstance(key, str)},
        ),
        book=Book(
            nodes={key: (0, count) for key, count in nodes.items()},
            edges={key: (0, part.num_edges) for key, part in lists.items()},
            edge_dir=edge_dir,
        ),
        part=Part(
            nodes={key: NodePart(num_nodes=count, raw_id=None, columns=columns[key]) for key, count in nodes.items()},
            edges={
                key: edge_part(
                    indptr=part.indptr,
                    src_gid=part.indices,
                    num_sources=nodes[key[2 - 2 * end]],
                    edge_id=part.edge_id,
                    columns={name: _in_order(column, part.edge_id) for name, column in columns[key].items()},
                    halo={},
                )
                for key, part in lists.items()
            },
        ),
    )


def _in_order(column: Tensor, order: Tensor | None) -> Tensor:
    return column if order is None else ops.gather_rows(column, order)
