"""Copies of rows and lists of nodes that other partitions own, which lie in a partition's folder.

    parts/part-0000/replicas/<name>/nodes/<type>/{gid_,raw_id,<column>}.npy
    parts/part-0000/replicas/<name>/edges/<relation>/{first_,indptr,indices,edge_id,<column>,halo/<column>,weight_sums/<column>}.npy

NAME changes with every set of copies: a new one is written beside the old one, and the manifest, which names one of them, is
replaced in one step.
"""

import re
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from halohop.store.part import Part
from halohop.typing import NodeType, Relation

REPLICAS = "replicas"
GID_FILE = "gid_"
FIRST_FILE = "first_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """The copies of one partition.

    Args:
        gid: of the copied nodes, ascending, int64 or int32 ``[n]`` by type.
        first: the gid of the first edge of each node's list, int64 ``[n]`` by relation; empty where no lists are copied.
        part: rows and lists of these nodes in this order; ids are stored in any case, and neighbours are gids.
    """

    gid: dict[NodeType, Tensor]
    first: dict[Relation, Tensor]
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRecord:
    """Copies of rows, and perhaps of lists, that lie with every partition.

    Args:
        name: of the folder that they lie in, in each partition's.
        lists: whether lists are copied, too.
        made: what for: method, fanouts and the like.
    """

    name: str
    lists: bool
    made: dict[str, Any]

    @property
    def is_named(self) -> bool:
        """Whether the name is one that a writer gives."""
        return re.fullmatch("[0-9a-f]{32}", self.name) is not None


def replica_file(name: str, file: str) -> str:
    """Where a file of a partition has its like among the copies called `name`.

    Example:
        >>> replica_file("1f", "part-0000/nodes/paper/x.npy")
        'part-0000/replicas/1f/nodes/paper/x.npy'
    """
    part, _, rest = file.partition("/")
    return f"{part}/{REPLICAS}/{name}/{rest}"
