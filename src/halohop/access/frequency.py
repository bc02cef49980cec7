"""The assigner by frequency: each node lies where the batches that need it most are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.access.dealing import Batches
from halohop.access.estimates import Method, check_method, estimated
from halohop.cluster.graph import in_memory
from halohop.errors import InputError
from halohop.partitioning.division import AssignRequest, Division
from halohop.sampling.fanouts import Fanouts
from halohop.store.draw import Rules
from halohop.store.tables import GraphTables
from halohop.typing import NodeType, Relation

Floats = NDArray[np.float64]


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
        graph, parts = in_memory(tables), request.num_parts
        fanouts = (
            Fanouts.by_relation(self.fanouts, graph.schema)
            if isinstance(self.fanouts, Mapping)
            else Fanouts.uniform(self.fanouts, graph.schema)
        )
        order = {name: graph.select(None, name)[0].numpy() for name in tables.nodes}  # gids by raw id
        rows = {name: np.argsort(_raw_ids(tables, name), kind="stable") for name in tables.nodes}  # rows by raw id
        rng = np.random.default_rng(request.seed)
        seeds = rows[node_type][mask[rows[node_type]]]
        group = np.empty(len(mask), np.int64)
        group[rng.permutation(seeds)] = np.arange(len(seeds)) * parts // max(len(seeds), 1)
        gid_of_row = {name: _inverse(rows[name], order[name]) for name in tables.nodes}
        needs: dict[NodeType, list[Floats]] = {name: [] for name in tables.nodes}
        for part in range(parts):
            own = gid_of_row[node_type][np.flatnonzero(mask & (group == part))]
            batches = Batches(node_type=node_type, groups=(torch.from_numpy(own),), batch_size=self.batch_size)
            found = estimated(graph, batches, fanouts, Rules(), method=self.method, epochs=self.epochs, seed=request.seed)
            for name, chances in found.items():
                needs[name].append(chances.numpy()[gid_of_row[name]])
        return Division(
            part={name: placed(np.stack(chances), mask if name == node_type else None, rng) for name, chances in needs.items()}
        )

    def _seeds(self, tables: GraphTables) -> tuple[NodeType, NDArray[np.bool_]]:
        name = f"{self.split}_mask"
        having = [key for key, table in tables.nodes.items() if name in table.columns and self.node_type in (None, key)]
        if len(having) != 1:
            raise InputError(f"split={self.split!r} is one of {having or 'no nodes'}; name a split of one type, or its node_type")
        mask: NDArray[np.bool_] = np.asarray(tables.nodes[having[0]].columns[name], dtype=np.bool_)
        return having[0], mask


def placed(needs: Floats, mask: NDArray[np.bool_] | None, rng: np.random.Generator) -> Tensor:
    """The part of each node, int32 ``[num_nodes]``: where it is needed most compared with the others, as far as there is room.

    Args:
        needs: by part and node, ``[num_parts, num_nodes]``.
        mask: nodes that are dealt evenly on their own, ``[num_nodes]``; None: none.
        rng: decides among nodes that are needed alike.

    Example:
        >>> needs = np.array([[0.9, 0.5, 0.8, 0.0], [0.1, 0.4, 0.0, 0.0]])
        >>> placed(needs, None, np.random.default_rng(0)).tolist()
        [0, 1, 0, 1]
    """
    part = np.empty(needs.shape[1], np.int32)
    classes = [np.ones(needs.shape[1], np.bool_)] if mask is None else [mask, ~mask]
    for chosen in classes:
        nodes = rng.permutation(np.flatnonzero(chosen))
        part[nodes] = _dealt(needs[:, nodes])
    return torch.from_numpy(part)


def _dealt(needs: Floats) -> NDArray[np.int32]:
    """The part of each node, no part having more than its share. In each round full parts take those that claim them most."""
    num_parts, count = needs.shape
    room = np.diff(np.arange(num_parts + 1) * count // num_parts)
    claims, part = needs - needs.mean(axis=0), np.full(count, -1, np.int32)
    left = np.arange(count)
    while len(left):
        open_parts = np.flatnonzero(room > 0)
        best = open_parts[claims[np.ix_(open_parts, left)].argmax(axis=0)]
        for one in open_parts:
            wanting = left[best == one]
            taken = wanting[np.argsort(-claims[one, wanting], kind="stable")[: room[one]]]
            part[taken] = one
            room[one] -= len(taken)
        left = left[part[left] < 0]
    return part


def _raw_ids(tables: GraphTables, name: NodeType) -> NDArray[np.int64]:
    table = tables.nodes[name]
    return np.arange(table.num_nodes) if table.raw_id is None else table.raw_id.numpy()


def _inverse(rows: NDArray[np.int64], gids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The gid of each row, given both in the order of raw ids."""
    found = np.empty(len(rows), np.int64)
    found[rows] = gids
    return found
