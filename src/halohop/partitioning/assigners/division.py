"""What dividing a graph gives, what it is asked for, and the one protocol of all that divide."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torch import Tensor

from halohop.partitioning.assigners.defaults import TOLERANCE
from halohop.partitioning.planning.budget import Budget
from halohop.store.tables import GraphTables
from halohop.typing import NodeType

Assignment = dict[NodeType, Tensor]
"""The partition of every row of every node table, int32 ``[num_nodes]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """A divided graph.

    Args:
        part: the partition of every node.
        block: the block of every node, uint8 or int16 ``[num_nodes]`` by type; None where the assigner makes no blocks. Blocks
            are smaller than partitions: each partition is a run of whole blocks.
        num_blocks: how many blocks there are, a power of two; 0: none.
    """

    part: Assignment
    block: Assignment | None = None
    num_blocks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignRequest:
    """How a graph shall be divided.

    Args:
        num_parts: how many partitions.
        seed: of what is drawn at random.
        tolerance: no partition shall have more than ``1 + tolerance`` times the mean of any load.
        num_blocks: how many blocks, 0 for none; None leaves it to the assigner, which makes none where they would not fit.
        balance_types: whether the nodes of each type are balanced on their own, rather than all types together.
        classes: by node type, the class of each of its nodes, int64 ``[num_nodes]``: those of each class are balanced, too.
        memory: how much it may take.
        scratch: a folder on disk for what does not fit into memory; None: the system's folder for temporary files.
    """

    num_parts: int
    seed: int = 0
    tolerance: float = TOLERANCE
    num_blocks: int | None = None
    balance_types: bool = False
    classes: Mapping[NodeType, Tensor] = field(default_factory=dict)
    memory: Budget = field(default_factory=lambda: Budget.parse(None))
    scratch: Path | None = None


class Assigner(Protocol):
    """Divides the nodes of a graph. The result is a function of the tables and the request."""

    def __call__(self, tables: GraphTables, request: AssignRequest) -> Division:
        """
        Raises:
            InputError: it cannot divide this graph so.
        """
        ...
