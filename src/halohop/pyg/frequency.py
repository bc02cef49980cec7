"""`halohop.Frequency`: an assigner that places nodes by how often batches need them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from halohop.access.estimates import Method, check_method
from halohop.access.frequency import divided
from halohop.errors import InputError
from halohop.partitioning.assigners.division import AssignRequest, Division
from halohop.pyg.inputs import fanouts_of
from halohop.store.tables import GraphTables
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequency:
    """Divides a graph by how often nodes are needed (GraphLearn-for-PyTorch's frequency partitioning), as an `Assigner`.

    The seeds are dealt to the partitions at random, so many to each. A node goes where it is needed more than elsewhere, until a
    partition is full; nodes that are claimed most are placed first. Partitions have the same number of nodes of each type, and of
    seeds. Edges are not counted, so hubs make some partitions larger than others; few edges are cut only as far as that spares
    reads. Partitions from METIS need fewer remote rows wherever the graph has communities.

    The lists of the graph are in memory meanwhile.

    Args:
        fanouts: neighbours per hop, or a dict with such a list per relation.
        batch_size: seeds of a batch.
        split: the nodes that batches are about.
        node_type: their type; None where one type alone has such a split.
        method, epochs: see `halohop.hotness`.

    Raises:
        InputError: no such method.
    """

    fanouts: Sequence[int] | Mapping[Relation, Sequence[int]]
    batch_size: int
    split: str = "train"
    node_type: NodeType | None = None
    method: Method = "vip"
    epochs: int = 2

    def __post_init__(self) -> None:
        check_method(self.method)
        if self.method == "degree":
            raise InputError("method='degree' is the same for all partitions; give 'vip' or 'presample'")

    def __call__(self, tables: GraphTables, request: AssignRequest) -> Division:
        """
        Raises:
            InputError: no type of node has such a split, or several have.
        """
        node_type, mask = self._seeds(tables)
        part = divided(
            tables,
            node_type,
            mask,
            request.num_parts,
            batch_size=self.batch_size,
            fanouts_of=lambda schema: fanouts_of(self.fanouts, schema),
            method=self.method,
            epochs=self.epochs,
            seed=request.seed,
        )
        return Division(part=part)

    def _seeds(self, tables: GraphTables) -> tuple[NodeType, NDArray[np.bool_]]:
        name = f"{self.split}_mask"
        having = [key for key, table in tables.nodes.items() if name in table.columns and self.node_type in (None, key)]
        if len(having) != 1:
            raise InputError(f"split={self.split!r} is one of {having or 'no nodes'}; name a split of one type, or its node_type")
        mask: NDArray[np.bool_] = np.asarray(tables.nodes[having[0]].columns[name], dtype=np.bool_)
        return having[0], mask
