"""What an import of another library's partitions gives: who owned the nodes, and the graph."""

from dataclasses import dataclass

from halohop.partitioning.assigners.division import Assignment
from halohop.store.tables import GraphTables


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Who owned the nodes.

    Args:
        part: the partition of every node, int32, by type: what `halohop.partition` takes as ``method``.
        num_parts: how many partitions there are.
    """

    part: Assignment
    num_parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A graph that another library has divided.

    Args:
        tables: the graph as it was before: rows and edges by their original ids.
        owners: how it was divided.
    """

    tables: GraphTables
    owners: Owners
