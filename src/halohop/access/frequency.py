"""Division by frequency: each node lies where the batches that need it most are made."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.access.dealing import Batches
from halohop.access.estimates import Method, estimated
from halohop.cluster.graph import in_memory
from halohop.sampling.fanouts import Fanouts
from halohop.store.draw import Rules
from halohop.store.schema import Schema
from halohop.store.tables import GraphTables
from halohop.typing import NodeType

Floats = NDArray[np.float64]


def divided(
    tables: GraphTables,
    node_type: NodeType,
    mask: NDArray[np.bool_],
    num_parts: int,
    *,
    batch_size: int,
    fanouts_of: Callable[[Schema], Fanouts],
    method: Method,
    epochs: int,
    seed: int,
) -> dict[NodeType, Tensor]:
    """The part of each node, by how often the batches of each part need it.

    Args:
        tables: the graph, whose lists are in memory meanwhile.
        node_type, mask: which nodes are the seeds, ``[num_nodes]``; they are dealt to the parts at random.
        num_parts: how many.
        batch_size, fanouts_of, method, epochs: of the batches, see `halohop.access.estimates.estimated`.
        seed: of the dealing, and of pre-sampling.
    """
    graph, rng = in_memory(tables), np.random.default_rng(seed)
    fanouts = fanouts_of(graph.schema)
    by_raw = {name: np.argsort(_raw_ids(tables, name), kind="stable") for name in tables.nodes}
    gids = {name: _scattered(graph.select(None, name)[0].numpy(), by_raw[name]) for name in tables.nodes}  # of each row
    seeds = by_raw[node_type][mask[by_raw[node_type]]]
    needs: dict[NodeType, list[Floats]] = {name: [] for name in tables.nodes}
    for own in np.array_split(rng.permutation(seeds), num_parts):
        group = torch.from_numpy(gids[node_type][own])
        batches = Batches(node_type=node_type, groups=(group,), batch_size=batch_size)
        found = estimated(graph, batches, fanouts, Rules(), method=method, epochs=epochs, seed=seed)
        for name, chances in found.items():
            needs[name].append(chances.numpy()[gids[name]])
    return {name: placed(np.stack(chances), mask if name == node_type else None, rng) for name, chances in needs.items()}


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


def _scattered(values: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """An array that has ``values[i]`` at ``places[i]``."""
    found = np.empty(len(values), np.int64)
    found[places] = values
    return found
