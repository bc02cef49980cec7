"""GLT's `Topology` and `Graph`: edges as they were given, and a graph of halohop made of them."""

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.index import index2ptr, ptr2index

import halohop
from halohop.errors import InputError
from halohop.glt.batches import EDGE_IDS, WEIGHT
from halohop.glt.data.feature import Feature
from halohop.glt.modes import check_mode
from halohop.glt.notes import NotByHandle, refused

Compressed = tuple[Tensor, Tensor, Tensor, Tensor | None]


class Topology:
    """The edges of one relation.

    Args:
        edge_index: ``[2, n]`` or a pair: sources and destinations ("COO"), row pointers and destinations ("CSR"), or sources and
            column pointers ("CSC").
        edge_ids: ids of the edges ``[n]``; by default their positions.
        edge_weights: float32 ``[n]``.
        input_layout, layout: of `edge_index`, and of `indptr` and `indices`.

    Raises:
        InputError: another layout, or numbers of entries that differ.
    """

    def __init__(
        self, edge_index: Any, edge_ids: Any = None, edge_weights: Any = None, input_layout: str = "COO", layout: str = "CSR"
    ) -> None:
        given, self.layout = str(input_layout).upper(), str(layout).upper()
        if given not in ("COO", "CSR", "CSC") or self.layout not in ("CSR", "CSC"):
            raise InputError(f"layouts {input_layout!r} and {layout!r}: give 'COO', 'CSR' or 'CSC', and get 'CSR' or 'CSC'")
        if len(edge_index) != 2:
            raise InputError(f"edge_index has {len(edge_index)} rows; give [2, num_edges], or a pair of tensors")
        row, col = (torch.as_tensor(ends).long() for ends in edge_index)
        for pointers in {"CSR": [row], "CSC": [col]}.get(given, []):
            if not len(pointers) or pointers[0] or pointers.diff().lt(0).any():
                raise InputError(f"pointers of {given} must begin with 0 and never fall; make them by coo_to_{given.lower()}")
        self.num_rows = len(row) - 1 if given == "CSR" else _end(row)
        self.num_cols = len(col) - 1 if given == "CSC" else _end(col)
        row, col = (ptr2index(row) if given == "CSR" else row), (ptr2index(col) if given == "CSC" else col)
        self.edge_index = row, col
        self.given_ids = None if edge_ids is None else torch.as_tensor(edge_ids).long()
        self.given_weights = None if edge_weights is None else torch.as_tensor(edge_weights).float()
        for name, values in (("destinations", col), ("edge_ids", self.given_ids), ("edge_weights", self.given_weights)):
            if values is not None and values.shape != row.shape:
                raise InputError(f"{name} have shape {tuple(values.shape)}, but there are {len(row)} edges")

    def to_coo(self) -> Compressed:
        """Sources, destinations, ids and weights, in the order in which they were given."""
        ids = torch.arange(self.edge_count) if self.given_ids is None else self.given_ids
        return *self.edge_index, ids, self.given_weights

    def to_csr(self) -> Compressed:
        """Row pointers, destinations, ids and weights."""
        return self._compressed(0, self.num_rows)

    def to_csc(self) -> Compressed:
        """Sources, column pointers, ids and weights."""
        pointers, sources, ids, weights = self._compressed(1, self.num_cols)
        return sources, pointers, ids, weights

    def _compressed(self, by: int, size: int) -> Compressed:
        keys, order = self.edge_index[by].sort(stable=True)
        _, _, ids, weights = self.to_coo()
        return index2ptr(keys, size), self.edge_index[1 - by][order], ids[order], None if weights is None else weights[order]

    @cached_property
    def _stored(self) -> Compressed:
        return self._compressed(0, self.num_rows) if self.layout == "CSR" else self._compressed(1, self.num_cols)

    indptr = property(lambda self: self._stored[0], doc="Where the list of each row, or column, begins; one more than there are.")
    indices = property(lambda self: self._stored[1], doc="The other ends, list by list; int64 ``[n]``.")
    edge_ids = property(lambda self: self._stored[2], doc="In the order of `indices`; int64 ``[n]``.")
    edge_weights = property(lambda self: self._stored[3], doc="In the order of `indices`; float32 ``[n]``, or None.")
    degrees = property(lambda self: self.indptr.diff(), doc="The lengths of the lists.")
    row_count = property(lambda self: len(self.indptr) - 1, doc="The number of lists.")
    edge_count = property(lambda self: len(self.edge_index[0]), doc="The number of edges.")

    def columns(self, feature: Feature | None = None) -> dict[str, Tensor]:
        """What PyG's stores hold of it: edges, and ids, weights and features of theirs where they were given."""
        ids = self.given_ids
        rows = None if feature is None else feature.by_id
        if rows is not None and ids is not None and len(ids):
            if int(wrong := ids.min()) < 0 or int(wrong := ids.max()) >= len(rows):
                raise InputError(f"edge_ids has {wrong}, but there are {len(rows)} features of edges; give one for each")
            rows = rows[ids]
        if rows is not None and len(rows) != self.edge_count:
            raise InputError(f"there are {self.edge_count} edges, but {len(rows)} features of edges; give one row for each")
        columns = {"edge_index": torch.stack(self.edge_index), EDGE_IDS: ids, WEIGHT: self.given_weights, "edge_attr": rows}
        return {name: values for name, values in columns.items() if values is not None}

    def share_memory_(self) -> None:
        """Moves the tensors to shared memory."""
        for values in (*self.edge_index, self.given_ids, self.given_weights):
            if values is not None:
                values.share_memory_()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_stored"}


class Graph(NotByHandle):
    """A topology that neighbours are drawn from, by the mode: on a GPU or on the CPU, and on the CPU where there is no GPU.

    Args:
        topo: the edges.
        mode: "CPU", "ZERO_COPY" or "CUDA".
        device: a GPU, or None.

    Raises:
        InputError: no such mode, or a GPU is asked for and there is none.
    """

    def __init__(self, topo: Topology, mode: str = "ZERO_COPY", device: Any = None) -> None:
        check_mode(mode, device)
        self.topo, self.mode, self.device = topo, mode, device
        self.dataset: Any = None  # a weak reference to the Dataset whose graph it is

    row_count = property(lambda self: self.topo.num_rows, doc="One more than the highest id of a source.")
    col_count = property(lambda self: self.topo.num_cols, doc="One more than the highest id of a destination.")
    edge_count = property(lambda self: self.topo.edge_count, doc="The number of edges.")
    graph_handler = property(lambda self: refused("data.Graph.graph_handler"))

    @cached_property
    def halohop_graph(self) -> halohop.Graph:
        """The graph that samplers draw from: lists of out-edges where the topology is "CSR", of in-edges where it is "CSC"."""
        data = Data(num_nodes=max(self.row_count, self.col_count), **self.topo.columns())
        return halohop.graph(data, edge_dir="out" if self.topo.layout == "CSR" else "in")

    def lazy_init(self) -> None:
        """Makes `halohop_graph` now, rather than when it is first used."""
        assert self.halohop_graph

    def export_topology(self) -> tuple[Tensor, Tensor, Tensor]:
        """`indptr` and `indices` of the topology, and the ids of the edges in their order."""
        return self.topo.indptr, self.topo.indices, self.topo.edge_ids

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "halohop_graph"} | {"dataset": None}


def _end(ids: Tensor) -> int:
    return int(ids.max()) + 1 if len(ids) else 0
