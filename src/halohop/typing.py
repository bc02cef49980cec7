"""Names for the things that every module talks about.

A node is known by four numbers, one per place. A name's suffix says which one it holds:

    _raw   the user's own id
    _gid   global id: renumbered so that a partition owns one contiguous range per node type
    _lid   local id: row in a partition, gid - offset
    _bid   batch id: position in a batch

All four are one-dimensional integer tensors. Edges have gids and lids of their own, per relation.
"""

from collections.abc import Callable
from typing import Literal

__all__ = ["EDGE", "EDGE_ID", "NODE", "RAW_ID", "EdgeDir", "NodeType", "OnProgress", "Relation", "TableKey"]

NodeType = str
Relation = tuple[str, str, str]
"""(source node type, name, destination node type); messages flow from source to destination."""

EdgeDir = Literal["in", "out"]
"""Which edges the list of a node holds, and which neighbours are drawn: those that lead to it, or those that lead away."""

TableKey = NodeType | Relation
"""Names a table of rows: the nodes of a type, or the edges of a relation."""

OnProgress = Callable[[str, int, int], None]
"""Called with the name of a piece of work, how much of it is done, and how much there is."""

NODE: NodeType = "node"
"""Node type of a homogeneous graph."""

EDGE: Relation = (NODE, "to", NODE)
"""Relation of a homogeneous graph."""

RESERVED = "\0"
"""What names of columns that are not the user's begin with, and no user's may."""

RAW_ID = f"{RESERVED}raw_id"
"""Reserved node column: the user's node ids (int64)."""

RAW_TEXT = f"{RESERVED}raw_id as text"
"""Reserved node column: the user's node ids where they are strings (UTF-8, uint8 rows, zeros behind). No batch has it."""

BLOCK = f"{RESERVED}block"
"""Reserved node column: the block of the recursive division that each node is in (uint8 or int16). No batch has it."""

HOTNESS = f"{RESERVED}hotness"
"""Reserved node column: how often each node is read (float32); zeros where that is not stored. No batch has it."""

EDGE_ID = f"{RESERVED}edge_id"
"""Reserved edge column: positions of the edges in the user's input (int64)."""

SOURCE_ID = "raw_id"
"""Among the columns that are stored along the edges (`halo`): the user's ids of the sources."""


def degree_column(relation: Relation) -> str:
    """Reserved column of a relation's destinations: how many in-edges each has (int64).

    Example:
        >>> degree_column(("a", "to", "b"))
        '\\x00degree a__to__b'
    """
    return f"{RESERVED}degree {relation_text(relation)}"


def relation_text(relation: Relation) -> str:
    """A relation as one word, for file names and messages: ``src__name__dst``."""
    return "__".join(relation)
