"""Nodes placed by how often batches need them: `Frequency`, an assigner, and `place_by_hotness`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from halohop.access.estimates import Method, check_method
from halohop.access.frequency import divided, placed
from halohop.errors import InputError
from halohop.partitioning.assigners.division import AssignRequest, Division
from halohop.pyg.inputs import fanouts_of
from halohop.store.schema import find_split
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
        method, epochs: see `halohop.placement.hotness`.

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
            raise InputError("'degree' is the same for all partitions; use 'vip' or 'presample'")

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
        having = {}
        for key, table in tables.nodes.items():
            masks = {name.removesuffix("_mask"): mask for name, mask in table.columns.items() if name.endswith("_mask")}
            if self.node_type in (None, key) and (split := find_split(masks, self.split)) is not None:
                having[key] = masks[split]
        if len(having) != 1:
            named = list(having) or "none"
            raise InputError(
                f"split={self.split!r} must be of one node type, but is of {named}; name another split, or give node_type"
            )
        ((node_type, mask),) = having.items()
        return node_type, np.asarray(mask, dtype=np.bool_)


def place_by_hotness(hot: Tensor | NDArray[np.floating], *, seeds: Tensor | None = None, seed: int = 0) -> Tensor:
    """The partition of each node of a type by what the batches of each partition need, however that was found out; public as
    `halohop.placement.place_by_hotness`, for `method=` of `halohop.partition`.

    A node goes where it is needed more than elsewhere, until a partition is full; those that are claimed most come first.
    Partitions have the same number of nodes. `Frequency` finds out what is needed, too.

    Args:
        hot: how probable it is that a batch of a partition has a node, ``[num_parts, num_nodes]``, from `hotness`.
        seeds: bool ``[num_nodes]``: nodes that are dealt evenly on their own. None: none are.
        seed: decides among nodes that are needed alike.

    Returns:
        int32 ``[num_nodes]``.

    Raises:
        InputError: another shape, or what is no number.

    Example:
        >>> import torch
        >>> place_by_hotness(torch.tensor([[0.9, 0.5, 0.8, 0.0], [0.1, 0.4, 0.0, 0.0]])).tolist()
        [0, 1, 0, 1]
    """
    needs = np.asarray(hot, dtype=np.float64)
    if needs.ndim != 2 or not len(needs) or not np.isfinite(needs).all():
        raise InputError(f"hotness of shape {needs.shape} places no nodes; give finite numbers [num_parts, num_nodes]")
    mask = None if seeds is None else np.asarray(seeds)
    if mask is not None and (mask.dtype != np.bool_ or mask.shape != needs.shape[1:]):
        raise InputError(f"seeds are {mask.dtype} of shape {mask.shape}; give bools, one for each of {needs.shape[1]} nodes")
    return placed(needs, mask, np.random.default_rng(seed))
