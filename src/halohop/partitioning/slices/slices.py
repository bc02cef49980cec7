"""What a process holds of a graph in its own memory: rows and edges with the user's ids, and who owns which."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from torch import Tensor

from halohop.errors import InputError
from halohop.partitioning.book import check_edge_dir
from halohop.partitioning.building.parts import check_halo
from halohop.partitioning.slices.owners import Owner
from halohop.store.schema import Schema, specs_of
from halohop.store.tables import check_columns, check_edge_index, check_ids, check_names, check_relation
from halohop.typing import SOURCE_ID, EdgeDir, NodeType, Relation


class Rows(Protocol):
    """The part of a graph that `MemoryPartition.with_halo` reads."""

    schema: Schema

    def rows(self, name: str, raw: Tensor, *, node_type: NodeType | None = None) -> Tensor: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSlice:
    """Some nodes of one type.

    Args:
        owner: the partition of every node of the type in the whole graph, by id: integers ``[num_nodes]``; or ranges, a list of
            ``num_parts + 1`` ids: partition p owns the nodes from ``owner[p]`` to ``owner[p + 1] - 1``.
        columns: rows of these nodes, ``[n, ...]`` each: features, labels ``y``, masks ``<split>_mask`` (bool). Matrices in
            torch's sparse layouts are stored sparse.
        id: the user's ids of the rows, integers ``[n]``, in any order; None where the rows are those of all nodes that the
            partition owns, ascending.
        names: by column, of its values 0, 1, 2, ... where the user's were strings.

    Raises:
        InputError: rows that are not one for each id.
    """

    owner: Owner
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    id: Tensor | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.id is not None:
            check_ids(self.id, None, "id of nodes")
        lengths = {len(column) for column in self.columns.values() if isinstance(column, Tensor) and column.dim()}
        check_columns(self.columns, len(self.id) if self.id is not None else max(lengths, default=0), "nodes")
        _check_device({"id": self.id, **self.columns})


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSlice:
    """Some edges of one relation.

    Args:
        edge_index: the user's ids of sources and destinations, integers ``[2, n]``.
        edge_id: the edges' numbers among all edges of the relation, integers ``[n]``; each of 0, 1, 2, ... belongs to one edge.
            A node's list of edges has them ascending. None in all partitions: edges are numbered by partition and
            destination, each list in the order that is given.
        columns: rows of the edges, ``[n, ...]`` each: features, weights, times.
        owner: the partition of every edge, by number, as of `NodeSlice`; None where it is not known. An edge belongs to the
            owner of its destination; with `edge_dir` "out" to that of its source.
        halo: columns of the edges' sources (with "out", of their destinations), one number per edge, that are kept along the
            edges; ``"raw_id"`` is one, see `halohop.partition`.

    Raises:
        InputError: rows that are not one for each edge.
    """

    edge_index: Tensor
    edge_id: Tensor | None = None
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    owner: Owner | None = None
    halo: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ends = self.edge_index
        check_edge_index(ends)
        if self.edge_id is not None:
            check_ids(self.edge_id, ends.size(1), "edge_id")
        check_columns(self.columns, ends.size(1), "edges")
        check_columns(self.halo, ends.size(1), "edges")
        check_halo(list(self.halo), [specs_of(self.halo, {})])
        _check_device({"edge_index": ends, "edge_id": self.edge_id, **self.columns, **self.halo})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPartition:
    """One partition of a graph in the memory of the process that opens or serves it; nothing holds the whole graph.

    It has all rows of the nodes that it owns, and all edges to them (or from them, see `edge_dir`). `halohop.open` and
    `halohop.serve` take one, or a list of several, in place of a folder, and batches are those of the same division on disk.

    Args:
        part: its number.
        num_parts: how many partitions there are.
        nodes: per node type, its nodes; every partition names all types, and all columns.
        edges: per relation, its edges; likewise.
        edge_dir: which edges a partition has, and which neighbours can be drawn: "in", the edges to its nodes, or "out", those
            from them.

    Raises:
        InputError: there is no partition of that number, or no node type.

    Example:
        >>> import halohop, torch
        >>> owner = torch.tensor([0, 1, 0, 1])  # of the nodes of a ring; every process has it
        >>> def share(part: int, ids: list[int]) -> MemoryPartition:
        ...     own = torch.tensor(ids)
        ...     nodes = NodeSlice(id=own, owner=owner, columns={"x": own.float().view(-1, 1)})
        ...     edges = EdgeSlice(edge_index=torch.stack([(own + 3) % 4, own]), edge_id=(own + 3) % 4)
        ...     return MemoryPartition(
        ...         part=part, num_parts=2, nodes={"node": nodes}, edges={("node", "to", "node"): edges}
        ...     )
        >>> graph = halohop.open([share(0, [0, 2]), share(1, [3, 1])])
        >>> next(iter(halohop.NeighborLoader(graph, [1], torch.tensor([3])))).x.view(-1).tolist()
        [3.0, 2.0]
    """

    part: int
    num_parts: int
    nodes: Mapping[NodeType, NodeSlice]
    edges: Mapping[Relation, EdgeSlice]
    edge_dir: EdgeDir = "in"

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.num_parts:
            raise InputError(f"part={self.part} of num_parts={self.num_parts}; partitions have the numbers 0 to num_parts - 1")
        if not self.nodes:
            raise InputError(f"partition {self.part} has no node type; give at least one, with no rows where it owns none")
        check_edge_dir(self.edge_dir)
        for relation in self.edges:
            check_relation(relation, self.nodes)
        check_names(self.nodes, self.edges)

    def with_halo(self, graph: Rows, names: Sequence[str]) -> "MemoryPartition":
        """The same with columns of the sources along its edges, read from the graph that the partitions are together.

        What `halo=` of `halohop.partition` does for partitions on disk: open the partitions as they are, read the columns, close
        the graph, and open the partitions with them.

        Args:
            graph: of all partitions, open in this process.
            names: of node columns of one number each, such as times, and ``"raw_id"``.

        Raises:
            InputError: a name that is no such column.
        """
        check_halo(names, [spec.columns for spec in graph.schema.nodes.values()])
        near = 0 if self.edge_dir == "in" else 1
        edges = {relation: _with_halo(own, near, relation[2 * near], graph, names) for relation, own in self.edges.items()}
        return replace(self, edges=edges)


def _with_halo(own: EdgeSlice, near: int, node_type: NodeType, graph: Rows, names: Sequence[str]) -> EdgeSlice:
    wanted = [name for name in names if name in graph.schema.nodes[node_type].columns and name not in own.columns]
    ids, place = own.edge_index[near].long().unique(return_inverse=True)
    halo = {name: graph.rows(name, ids, node_type=node_type)[place] for name in wanted}
    if SOURCE_ID in names and SOURCE_ID not in own.columns:
        halo[SOURCE_ID] = own.edge_index[near].long()
    return replace(own, halo={**own.halo, **halo})


def _check_device(tensors: Mapping[str, Tensor | None]) -> None:
    for name, column in tensors.items():
        if column is not None and column.device.type != "cpu":
            raise InputError(f"{name!r} lies on {column.device}, and neighbours are drawn on the CPU; give {name}.cpu()")
