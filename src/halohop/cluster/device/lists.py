"""The lists of neighbours as a GPU reads them."""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.ops.device import DevicePool
from halohop.ops.device_pieces import DevicePieces
from halohop.store.topology import Topology
from halohop.store.weight_sums import sums_in_pieces
from halohop.typing import Relation

Near = TypeVar("Near")
Moved = TypeVar("Moved")


class DeviceLists:
    """The topologies of all relations. Lists are moved at once, columns that are drawn by, their running sums and ids of edges
    when they are first needed.

    Args:
        topologies: on the host, with all partitions.
        pool: of the device.
        on_device: whether lists are copied to the device; page-locked otherwise.

    Raises:
        InputError: the system does not lock so much memory.
        torch.OutOfMemoryError: the device has not so much.
    """

    def __init__(self, topologies: Mapping[Relation, Topology], pool: DevicePool, *, on_device: bool) -> None:
        self._host, self._pool, self._on_device = topologies, pool, on_device
        self._moved: dict[int, DevicePieces] = {}
        self._sums: dict[tuple[Relation, str], ops.WeightSums] = {}
        self._lock = threading.Lock()
        self._lists = {relation: self._of(topology) for relation, topology in topologies.items()}

    @staticmethod
    def num_bytes(topologies: Mapping[Relation, Topology]) -> int:
        """What is moved at once."""
        moved = {id(pieces): pieces for topology in topologies.values() for pieces in _always(topology)}
        return sum(tensor.nbytes for pieces in moved.values() for tensor in pieces.tensors if tensor is not None)

    def of(self, relation: Relation, *, edge_ids: bool) -> Topology:
        """The lists of a relation, which is one of the graph's; `edge_ids`: with the user's ids of edges.

        Raises:
            InputError: the ids have no room.
        """
        lists, ids = self._lists[relation], self._host[relation].edge_ids
        return replace(lists, edge_ids=self._needed(ids)) if edge_ids and ids is not None else lists

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
            columns=_Moved(host.columns, self._needed),
            halo=_Moved(host.halo, self._needed),
            src_columns=_Moved(host.src_columns, self._needed),
            weight_sums=_Moved({name: name for name in host.columns}, partial(self._sums_of, host)),
            near=host,
        )

    def _sums_of(self, host: Topology, name: str) -> ops.WeightSums:
        """The running sums of a column: those that the host has, or else formed by it when they are first needed."""
        with self._lock:
            key = host.relation, name
            if key not in self._sums:
                known = host.weight_sums.get(name) or _formed(host, name)
                self._sums[key] = replace(known, sums=self._made(self._copy, known.sums))
            return self._sums[key]

    def _needed(self, pieces: ops.Pieces) -> DevicePieces:
        return self._made(self._move, pieces)

    def _made(self, move: Callable[[ops.Pieces], DevicePieces], pieces: ops.Pieces) -> DevicePieces:
        """What is moved while batches are made."""
        try:
            return move(pieces)
        except torch.OutOfMemoryError as error:
            taken = sum(tensor.nbytes for tensor in pieces.tensors if tensor is not None)
            raise InputError(
                f"a column of {taken} bytes that neighbours are drawn by, or ids of edges, does not fit into {self._pool.device}"
                f", which has {self._pool.free_bytes()} free; give a smaller feature_cache, or mode='zero_copy'"
            ) from error

    def _move(self, pieces: ops.Pieces) -> DevicePieces:
        with self._lock:  # several threads make batches
            key = id(pieces)
            if key not in self._moved:
                self._moved[key] = self._copy(pieces)
            return self._moved[key]

    def _copy(self, pieces: ops.Pieces) -> DevicePieces:
        return DevicePieces.of(pieces, self._pool, on_device=self._on_device)


def _always(topology: Topology) -> Iterator[ops.Pieces]:
    for pieces in (topology.indptr, topology.indices, topology.dst_raw, topology.src_raw):
        if pieces is not None:
            yield pieces


def _formed(host: Topology, name: str) -> ops.WeightSums:
    """Running sums of the weights of all lists. A weight that is none is no error here: nobody may draw from its list."""
    weights = host.columns[name]
    pieces = [
        torch.cat([torch.empty(0, dtype=torch.float64), *sums_in_pieces(indptr, partial(_between, own), refuse=False)])
        for indptr, own in zip(host.indptr.tensors, weights.tensors, strict=True)
        if indptr is not None and own is not None
    ]
    ends = np.cumsum([0, *map(len, pieces)]).tolist()
    sums = ops.Pieces(pieces, ends)
    return ops.WeightSums(sums=sums, edge_bounds=weights.bounds.tolist(), row_bounds=host.indptr.bounds.tolist())


def _between(values: Tensor, begin: int, end: int) -> Tensor:
    return values[begin:end]


class _Moved(Mapping[str, Moved], Generic[Near, Moved]):
    """Columns that are moved when they are first read."""

    def __init__(self, columns: Mapping[str, Near], move: Callable[[Near], Moved]) -> None:
        self._columns, self._move = columns, move

    def __getitem__(self, name: str) -> Moved:
        return self._move(self._columns[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
