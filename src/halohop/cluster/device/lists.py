"""The lists of neighbours as a GPU reads them."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from halohop import ops
from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.store.topology import Topology
from halohop.typing import Relation


class DeviceLists:
    """The topologies of all relations, each array of which is moved when it is first needed.

    Args:
        topologies: on the host, with all partitions.
        pool: of the device.
        on_device: whether lists are copied to the device; page-locked otherwise.

    Raises:
        InputError: the system does not lock so much memory.
    """

    def __init__(self, topologies: Mapping[Relation, Topology], pool: DevicePool, *, on_device: bool) -> None:
        self._host, self._pool, self._on_device = topologies, pool, on_device
        self._moved: dict[int, DevicePieces] = {}
        self._lock = threading.Lock()
        self._lists = {relation: self._of(topology) for relation, topology in topologies.items()}

    def of(self, relation: Relation, *, edge_ids: bool) -> Topology:
        """The lists of a relation, which is one of the graph's; `edge_ids`: with the user's ids of edges."""
        lists, ids = self._lists[relation], self._host[relation].edge_ids
        return replace(lists, edge_ids=self._move(ids)) if edge_ids and ids is not None else lists

    def _of(self, host: Topology) -> Topology:
        with self._pool.for_all_lanes():
            edge_bounds = self._pool.put(torch.as_tensor(host.edge_bounds))
        return replace(
            host,
            indptr=self._move(host.indptr),
            indices=self._move(host.indices),
            edge_bounds=edge_bounds,
            edge_ids=None,  # moved where batches are to have them
            dst_raw=None if host.dst_raw is None else self._move(host.dst_raw),
            src_raw=None if host.src_raw is None else self._move(host.src_raw),
            columns=_Moved(host.columns, self._move),
            halo=_Moved(host.halo, self._move),
            src_columns=_Moved(host.src_columns, self._move),
            weight_sums={},  # which change no draw
        )

    def _move(self, pieces: ops.Pieces) -> DevicePieces:
        with self._lock:  # several threads make batches
            key = id(pieces)
            if key not in self._moved:
                self._moved[key] = DevicePieces.of(pieces, self._pool, on_device=self._on_device)
            return self._moved[key]


class _Moved(Mapping[str, DevicePieces]):
    """Columns that are moved when they are first read."""

    def __init__(self, columns: Mapping[str, ops.Pieces], move: Callable[[ops.Pieces], DevicePieces]) -> None:
        self._columns, self._move = columns, move

    def __getitem__(self, name: str) -> DevicePieces:
        return self._move(self._columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
