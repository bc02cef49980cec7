"""How good a partitioning is: what crosses between partitions, and how evenly the work lies."""

from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch import Tensor

from halohop import ops
from halohop.partitioning.book import Book
from halohop.partitioning.building.columns import Given
from halohop.store.ordering import slices
from halohop.store.part import Part
from halohop.typing import NodeType

_CHUNK_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartReport:
    """One partition in numbers.

    Args:
        nodes: nodes that it owns, per type.
        train_nodes: those of them in the split "train", all types together.
        edges: in-edges of its nodes.
        cut_edges: those of them whose source lies in another partition.
        halo: different sources of cut edges: the nodes that it borrows.
        bytes: size of its arrays on disk.
    """

    nodes: dict[NodeType, int]
    train_nodes: int
    edges: int
    cut_edges: int
    halo: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All partitions in numbers; a balance is the largest partition over the mean one, 1.0 where there is nothing to divide.

    Example:
        >>> part = PartReport(nodes={"node": 3}, train_nodes=1, edges=8, cut_edges=2, halo=1, bytes=500)
        >>> other = PartReport(nodes={"node": 1}, train_nodes=1, edges=8, cut_edges=2, halo=2, bytes=400)
        >>> report = Report(parts=(part, other))
        >>> report.cut, report.node_balance, report.train_balance
        (0.25, 1.5, 1.0)
    """

    parts: tuple[PartReport, ...]

    @property
    def cut(self) -> float:
        """Cut edges over all edges."""
        return sum(part.cut_edges for part in self.parts) / max(sum(part.edges for part in self.parts), 1)

    @property
    def node_balance(self) -> float:
        return _balance([sum(part.nodes.values()) for part in self.parts])

    @property
    def train_balance(self) -> float:
        return _balance([part.train_nodes for part in self.parts])

    @property
    def edge_balance(self) -> float:
        return _balance([part.edges for part in self.parts])

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, with the totals: what the manifest keeps."""
        totals = {name: getattr(self, name) for name in ("cut", "node_balance", "train_balance", "edge_balance")}
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return totals | plain

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Report":
        """The inverse of `to_dict`."""
        return msgspec.convert(plain, cls)


def measure(part: Part, book: Book, index: int, *, num_bytes: int) -> PartReport:
    """The numbers of partition `index`; reads its edges from begin to end, also where they are mapped and larger than memory."""
    met: dict[NodeType, Tensor] = {}
    cut = halo = 0
    for relation, edges in part.edges.items():
        near = book.neighbor_type(relation)
        if near not in met:
            met[near] = torch.zeros(book.nodes[near][-1] // 8 + 1, dtype=torch.uint8)
        indices = Given.of(edges.indices)
        for rows in slices(edges.num_edges, _CHUNK_BYTES):
            some = indices.rows(rows.start, rows.stop)(0, rows.stop - rows.start, None)
            outside, new = ops.meet(some, book.offset(near, index), book.offset(near, index + 1), met[near])
            indices.release(rows.start, rows.stop)
            cut, halo = cut + outside, halo + new
    return PartReport(
        nodes={name: nodes.num_nodes for name, nodes in part.nodes.items()},
        train_nodes=sum(
            int(train_rows(nodes.columns, nodes.num_nodes, rows).sum())
            for nodes in part.nodes.values()
            for rows in slices(nodes.num_nodes, _CHUNK_BYTES)
        ),
        edges=sum(edges.num_edges for edges in part.edges.values()),
        cut_edges=cut,
        halo=halo,
        bytes=num_bytes,
    )


def train_rows(columns: dict[str, Tensor], num_rows: int, rows: slice = slice(None)) -> Tensor:
    """Which rows belong to the split "train": bool ``[num_rows]``; where a mask holds several splits, those in any of them.

    Args:
        columns: of the table.
        num_rows: of it.
        rows: only these.
    """
    mask = columns.get("train_mask")
    if mask is None or mask.dtype != torch.bool:
        return torch.zeros(len(range(*rows.indices(num_rows))), dtype=torch.bool)
    return mask[rows].flatten(1).any(1) if mask.dim() > 1 else mask[rows]


def _balance(counts: list[int]) -> float:
    return max(counts) * len(counts) / sum(counts) if sum(counts) else 1.0
