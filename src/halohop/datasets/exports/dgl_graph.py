"""``graph.dgl`` of each partition: its nodes and the edges to them, then copies of what lies behind its cut edges."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.datasets.exports.dgl_columns import pieces, spans
from halohop.datasets.exports.dgl_files import Streamed, write_graph
from halohop.datasets.exports.dgl_numbers import Numbering, Numbers
from halohop.files.aside import writing
from halohop.files.buckets import BucketFiles
from halohop.files.whole import written_stream
from halohop.store.description import Description
from halohop.store.disk import map_part
from halohop.store.part import Part

_CUT = "cut"


class GraphWriter:
    """Writes the graphs of all partitions. An edge is owned by the partition of its destination; where its source is another's,
    that one has a copy of it.

    Args:
        description: of the data set.
        numbers: what DGL calls its nodes and edges.
        folder: where copies of the cut edges are kept meanwhile.
    """

    def __init__(self, description: Description, numbers: Numbers, folder: Path) -> None:
        self._numbers, self._folder = numbers, folder / _CUT
        with writing(self._folder):
            self._folder.mkdir()
        self._cut = BucketFiles(self._folder, description.num_parts)
        with self._cut.writer() as deal:
            for part in range(description.num_parts):
                for edges, owner in self._leaving(part, map_part(description.path, description.manifest, part)):
                    order = torch.argsort(owner, stable=True)
                    starts = torch.searchsorted(owner[order], torch.arange(description.num_parts + 1))
                    deal(edges[order].numpy(), starts.tolist())

    def write(self, file: Path, part: int, mapped: Part) -> None:
        """Writes the graph of a partition."""
        nodes, edges = self._numbers.nodes, self._numbers.edges
        typed = nodes.types + edges.types > 2
        low, high = nodes.bounds(part)
        copies = torch.from_numpy(self._cut.take(part, np.dtype(np.int64))).view(-1, 3)
        halo = self._halo(part, mapped, copies[:, 2])
        first, last = edges.bounds(part)
        count = last - first + len(copies)

        def local(numbers: Tensor) -> Tensor:
            inside = (numbers >= low) & (numbers < high)
            return torch.where(inside, numbers - low, torch.searchsorted(halo, numbers) + (high - low))

        def ends(which: int) -> Iterator[Tensor]:
            yield from (local(chunk[:, which].contiguous()) for chunk in self._owned(part, mapped))
            yield from (local(chunk) for chunk in pieces(copies[:, which].contiguous()))

        with written_stream(file) as stream:
            write_graph(
                stream,
                high - low + len(halo),
                Streamed(dtype=torch.int64, shape=(count,), pieces=partial(ends, 1)),
                Streamed(dtype=torch.int64, shape=(count,), pieces=partial(ends, 2)),
                nodes=_columns("node", nodes, part, halo, typed=typed),
                edges=_columns("edge", edges, part, copies[:, 0].contiguous(), typed=typed),
            )

    def finish(self) -> None:
        """Removes what was kept meanwhile."""
        with writing(self._folder):
            self._folder.rmdir()

    def _owned(self, part: int, mapped: Part) -> Iterator[Tensor]:
        """The edges of a partition, in the order of their numbers: number, source and destination, int64 ``[some, 3]``."""
        numbers = self._numbers
        number = numbers.edges.bounds(part)[0]
        for relation, edges in mapped.edges.items():
            near, far = (numbers.node_types.index(relation[end]) for end in (0, 2))
            begin = int(numbers.nodes.firsts[part * numbers.nodes.types + far])
            for first, last in spans(edges.num_edges):
                src = numbers.nodes.of_gids(near, edges.indices[first:last].long())
                dst = torch.searchsorted(edges.indptr, torch.arange(first, last), right=True) - 1 + begin
                yield torch.stack([torch.arange(number + first, number + last), src, dst], 1)
            number += edges.num_edges

    def _leaving(self, part: int, mapped: Part) -> Iterator[tuple[Tensor, Tensor]]:
        """The same of those edges whose source another partition owns, and which."""
        low, high = self._numbers.nodes.bounds(part)
        for edges in self._owned(part, mapped):
            cut = edges[(edges[:, 1] < low) | (edges[:, 1] >= high)]
            yield cut, self._numbers.nodes.place(cut[:, 1].contiguous())[0]

    def _halo(self, part: int, mapped: Part, others: Tensor) -> Tensor:
        """The nodes of other partitions that this one's edges, and its copies of others', lead to: their numbers, ascending."""
        met = torch.zeros(int(self._numbers.nodes.firsts[-1]) // 8 + 1, dtype=torch.uint8)
        low, high = self._numbers.nodes.bounds(part)
        ops.meet(others.contiguous(), low, high, met)
        for edges in self._owned(part, mapped):
            ops.meet(edges[:, 1].contiguous(), low, high, met)
        return torch.cat(
            [
                torch.from_numpy(np.flatnonzero(np.unpackbits(met[first:last].numpy(), bitorder="little"))) + 8 * first
                for first, last in spans(len(met), 8 * 8)
            ]
        )


def _columns(kind: str, numbering: Numbering, part: int, others: Tensor, *, typed: bool) -> dict[str, Streamed]:
    """What DGL wants of the nodes, or of the edges: their numbers, whether they are the partition's own, owners, types."""
    low, high = numbering.bounds(part)

    def column(dtype: torch.dtype, value: Callable[[Tensor], Tensor]) -> Streamed:
        def values() -> Iterator[Tensor]:
            yield from (value(torch.arange(low + first, low + last)).to(dtype) for first, last in spans(high - low))
            yield from (value(numbers).to(dtype) for numbers in pieces(others))

        return Streamed(dtype=dtype, shape=(high - low + len(others),), pieces=values)

    found = {
        "_ID": column(torch.int64, lambda numbers: numbers),
        f"inner_{kind}": column(torch.uint8, lambda numbers: (numbers >= low) & (numbers < high)),
    }
    if kind == "node":
        found["part_id"] = column(torch.int64, lambda numbers: numbering.place(numbers)[0])
    if typed:
        dtype = torch.int16 if kind == "node" else torch.int32
        found["_TYPE"] = column(dtype, lambda numbers: numbering.place(numbers)[1])
    return found
