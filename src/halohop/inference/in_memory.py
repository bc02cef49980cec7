"""Layer-wise inference in memory: every layer is computed once for every node, from all its neighbours, and kept in memory.

Batches with sampled neighbourhoods compute a node again for every batch that meets it, and collect its features each time. Where
a graph is not much larger than what is drawn around the nodes to score, it costs less to compute all of it once. Ranks share the
nodes and exchange their rows after each layer. (`halohop.inference.infer` keeps the rows on disk instead, for graphs of
any size.)
"""

from collections.abc import Iterator
from itertools import accumulate

import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.collectives import gather_rows, max_over_ranks
from halohop.inference.layers import dealt
from halohop.inference.model import LayeredModel, Neighbours
from halohop.store.draw import TAKE_ALL
from halohop.store.requests import HopQuery, SampleRequest
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation
from halohop.world import World

CHEAP_EDGES = 10_000_000
"""Edges that are read in a second or so: as many are worth an exact score, whatever a sampled one would cost."""

_COPIES = 4
"""Of all rows of a layer: those of the layer before, and the new ones while ranks exchange them."""

_BATCH_BYTES, _BATCH_ROWS = 64 << 20, 131_072
"""What a batch reads at most, its nodes and their neighbours together."""

Rows = dict[NodeType, Tensor]


def costs_less(schema: Schema, fanout: tuple[int, ...], num_seeds: int, *, width: int, spare_bytes: int) -> bool:
    """Whether to evaluate a layer at a time, rather than with `fanout` sampled neighbours of `num_seeds` nodes.

    Cost is counted in edges that are read: all of the graph's, once per layer, against those drawn around each seed. A graph of
    few edges (`CHEAP_EDGES`, all layers together) is computed whole in any case, since that is exact. The rows must fit into
    memory.

    Args:
        schema: of the graph.
        fanout: neighbours per hop and relation, -1 for all.
        num_seeds: nodes to score, of all ranks.
        width: of a row of the layers, in floats.
        spare_bytes: what the rows of all nodes may take, with the copies that are made of them.

    Example:
        >>> from halohop.store.schema import TableSpec
        >>> schema = Schema(
        ...     nodes={"n": TableSpec(count=2_000_000, columns={})},
        ...     edges={("n", "to", "n"): TableSpec(count=60_000_000, columns={})},
        ... )
        >>> costs_less(schema, (15, 10), 40_000, width=64, spare_bytes=2**40)  # 120 M edges, or 6.6 M
        False
        >>> costs_less(schema, (15, 10), 1_000_000, width=64, spare_bytes=2**40)  # or 165 M
        True
    """
    whole = len(fanout) * sum(table.count for table in schema.edges.values())
    if -1 in fanout:
        drawn = float("inf")
    else:
        relations = max(len(schema.edges) / len(schema.nodes), 1)  # into each type, on average
        drawn = num_seeds * sum(accumulate((relations * number for number in fanout), lambda so_far, more: so_far * more))
    rows = sum(table.count for table in schema.nodes.values())
    return whole <= max(drawn, CHEAP_EDGES) and _COPIES * rows * width * 4 <= spare_bytes


class LayerPass:
    """One rank's part in computing a model for some nodes, a layer at a time.

    Args:
        graph: whose nodes.
        target: type of the nodes whose last rows are wanted.
        gid: those nodes, int64 ``[n]``; the same on all ranks.
        world, device: who takes part, and where this rank computes.
    """

    def __init__(self, graph: Graph, target: NodeType, gid: Tensor, *, world: World, device: torch.device) -> None:
        graph.book.require_in_edges("layer-wise inference")
        self._graph, self._world, self._device = graph, world, device
        self._own = _shares(graph, world, device)
        wanted = torch.zeros(self._graph.schema.nodes[target].count, dtype=torch.bool)
        wanted[gid] = True
        self.gid = self._own[target][wanted[self._own[target]]]
        self._relabelers = {name: ops.Relabeler(table.count) for name, table in self._graph.schema.nodes.items()}

    @torch.no_grad()
    def rows(self, model: LayeredModel) -> Tensor:
        """The last rows of this rank's share of the wanted nodes, those in `gid`: ``[n, width]``, on this rank's device."""
        before: Rows = {}
        for stage in range(model.stages - 1):
            own = {name: self._computed(model, stage, name, self._own[name], before) for name in model.node_types(stage)}
            before = {name: self._exchanged(name, rows) for name, rows in own.items()}
        return self._computed(model, model.stages - 1, model.target, self.gid, before)

    def _computed(self, model: LayeredModel, stage: int, name: NodeType, nodes: Tensor, before: Rows) -> Tensor:
        """What a stage gives some of this rank's nodes."""
        relations, found = model.relations_into(stage, name), []
        for gid in self._batches(model, relations, name, nodes, before):
            x = self._read(model, name, gid, before)
            found.append(model.rows(stage, name, x, self._neighbours(model, relations, name, gid, x, before)))
        return torch.cat(found)

    def _batches(
        self, model: LayeredModel, relations: tuple[Relation, ...], name: NodeType, nodes: Tensor, before: Rows
    ) -> Iterator[Tensor]:
        """The nodes, as many at a time as read few enough rows with all their neighbours, or one; of no nodes one empty batch."""
        widths = [
            self._read(model, other, nodes[:0], before).shape[1:].numel() for other in {name, *(key[0] for key in relations)}
        ]
        most = min(_BATCH_BYTES // (4 * max(*widths, 1)), _BATCH_ROWS)
        read = torch.ones(len(nodes), dtype=torch.int64)
        for relation in relations:
            read += self._graph.degrees(relation, nodes)
        ends, begin = torch.cat([torch.zeros(1, dtype=torch.int64), read.cumsum(0)]), 0
        while begin < max(len(nodes), 1):
            end = max(int(torch.searchsorted(ends, ends[begin] + most, right=True)) - 1, begin + 1)
            yield nodes[begin:end]
            begin = end

    def _neighbours(
        self, model: LayeredModel, relations: tuple[Relation, ...], name: NodeType, gid: Tensor, x: Tensor, before: Rows
    ) -> Iterator[Neighbours]:
        """All in-edges of a batch, a relation at a time; those of a node with very many in pieces, if the model can fold them."""
        device = self._device
        for relation in relations:
            query = HopQuery(relation=relation, fanout=-1, dst_gid=gid)
            (answer,) = self._graph.sample(SampleRequest(draw=TAKE_ALL, queries=(query,))).answers
            ends = torch.cat([answer.counts[:0].new_zeros(1), answer.counts.cumsum(0)])
            own = gid if relation[0] == name else gid[:0]
            size = _BATCH_ROWS if model.folds else max(len(answer.src_gid), 1)
            for first in range(0, max(len(answer.src_gid), 1), size):
                relabeler = self._relabelers[relation[0]]
                relabeler.start(own)
                src = relabeler.add(answer.src_gid[first : first + size])
                others = self._read(model, relation[0], relabeler.nodes(begin=len(own)), before)
                yield Neighbours(
                    relation=relation,
                    x=torch.cat([x, others]) if len(own) else others,
                    src=src.to(device),
                    counts=ends.clamp(first, first + size).diff().to(device),
                    degree=answer.counts.to(device),
                )

    def _read(self, model: LayeredModel, name: NodeType, gid: Tensor, before: Rows) -> Tensor:
        """Rows that a stage begins with: those of the stage before, or of the graph."""
        if name in before:
            return ops.gather_rows(before[name], gid).to(self._device)
        columns = self._graph.fetch_rows(name, model.columns(name), gid)
        return model.inputs(name, tuple(column.to(self._device) for column in columns))

    def _exchanged(self, name: NodeType, rows: Tensor) -> Tensor:
        """The rows of all nodes of a type, from all ranks, on the CPU."""
        device, world = self._device, self._world
        gid, rows = gather_rows(self._own[name], device, world), gather_rows(rows, device, world)
        everything = rows.new_empty((self._graph.schema.nodes[name].count, *rows.shape[1:]))
        ops.scatter_rows(rows, gid, everything)
        return everything


def _shares(graph: Graph, world: World, device: torch.device) -> Rows:
    """The nodes that this rank computes, int64 ``[n]`` per type: those that its host holds, where hosts hold any."""
    parts, rank, size = tuple(range(graph.book.num_parts)), world.rank, world.size
    if max_over_ranks(len(graph.parts_here), device, world):
        parts, rank, size = dealt(graph.parts_here, len(parts), world, device), world.local_rank, world.local_size
    shares = {}
    for name in graph.schema.nodes:
        held = [torch.arange(*graph.book.bounds(name)[part : part + 2]) for part in parts]
        shares[name] = torch.cat([torch.empty(0, dtype=torch.int64), *held]).tensor_split(size)[rank]
    return shares
