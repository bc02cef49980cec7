"""The sampler written down a second time: one node, one edge at a time, over the user's own tables. Slow and obvious.

Whatever the partitioning, the hosts, the threads or the kernels, a loader's batches must equal these.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from halohop.ops import reference
from halohop.store.draw import Rules
from halohop.store.tables import GraphTables
from halohop.testing.oracle_subgraph import edges_both_ways, induced_edges, raw_ids
from halohop.typing import EdgeDir, NodeType, Relation

_TREE_STEP = 2**40

_Found = dict[NodeType, list[tuple[int, int]]]
"""Nodes by type in batch order, each as its tree and its raw id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleBatch:
    """A batch in the user's ids.

    Args:
        nodes: raw ids by type, in batch order.
        edges: (source position, destination position, edge id) by relation, in batch order.
        num_sampled_nodes, num_sampled_edges: how many each hop added; None where edges are not in the order of hops.
        trees: the number of each node's seed, where seeds have subgraphs of their own; else None.
    """

    nodes: dict[NodeType, list[int]]
    edges: dict[Relation, list[tuple[int, int, int]]]
    num_sampled_nodes: dict[NodeType, list[int]]
    num_sampled_edges: dict[Relation, list[int] | None]
    trees: dict[NodeType, list[int]] | None = None

    def turned(self) -> "OracleBatch":
        """The same with every edge the other way round, its relation's types too."""
        edges = {_turned(key): [(dst, src, number) for src, dst, number in found] for key, found in self.edges.items()}
        counts = {_turned(key): found for key, found in self.num_sampled_edges.items()}
        return replace(self, edges=edges, num_sampled_edges=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edge:
    """An edge to some node: its source's raw id, its own number; its weight and time where its relation has any."""

    source: int
    number: int
    weight: float | None
    time: float | None

    def may_be_drawn(self, latest: float | None, window: float | None) -> bool:
        if self.time is None or latest is None:
            return True
        return self.time <= latest and (window is None or self.time >= latest - window)


class Oracle:
    """Samples from tables in memory, by definition.

    Args:
        tables: the graph.
        fanouts: per relation, a number per hop.
        seed, rules: as of `halohop.sampling.NeighborSampler`.
        edge_dir: which neighbours are drawn. What is drawn with "out" is drawn in the graph whose edges are turned around, and
            turned back.

    Example:
        >>> from halohop.testing.graphs import ring
        >>> oracle = Oracle(ring(5), {("node", "to", "node"): [-1]})
        >>> oracle.batch("node", [3], epoch=0, index=0).nodes["node"]
        [3, 2, 1]
    """

    def __init__(
        self,
        tables: GraphTables,
        fanouts: Mapping[Relation, Sequence[int]],
        *,
        seed: int = 0,
        rules: Rules | None = None,
        edge_dir: EdgeDir = "in",
    ) -> None:
        self._out = edge_dir == "out"
        tables = tables.turned() if self._out else tables
        fanouts = {_turned(relation): numbers for relation, numbers in fanouts.items()} if self._out else fanouts
        self._tables, self._fanouts = tables, fanouts
        self._seed, self._rules = seed, rules or Rules()
        self._num_hops = max((len(values) for values in fanouts.values()), default=0)
        self._in_edges = {relation: _in_edges(tables, relation, self._rules) for relation in tables.edges}
        self._types = list(tables.nodes)

    def batch(
        self, node_type: NodeType, seeds: Sequence[int], *, epoch: int, index: int, times: Sequence[float] | None = None
    ) -> OracleBatch:
        """The batch number `index` of an epoch, around seeds given by raw id, each with its time."""
        nodes: _Found = {name: [] for name in self._types}
        nodes[node_type] = [(tree if self._rules.disjoint else 0, raw) for tree, raw in enumerate(seeds)]
        batch = self._grow(nodes, epoch, index, times, ())
        return batch.turned() if self._out else batch

    def links(
        self,
        relation: Relation,
        ends: tuple[Sequence[int], Sequence[int]],
        trees: tuple[Sequence[int], Sequence[int]],
        *,
        epoch: int,
        index: int,
        times: Sequence[float] | None = None,
        excluded: Collection[tuple[Relation, int]] = (),
    ) -> tuple[OracleBatch, list[list[int]]]:
        """The batch around sources and destinations given by raw id, each in its tree, and their positions in it.

        The times are those of the trees; edges in `excluded`, by relation and number, are as if they were not there.
        """
        nodes: _Found = {name: [] for name in self._types}
        positions = []
        for name, raws, tree_of in zip((relation[0], relation[2]), ends, trees, strict=True):
            keys = [(tree if self._rules.disjoint else 0, raw) for tree, raw in zip(tree_of, raws, strict=True)]
            positions.append([_position(nodes[name], key) for key in keys])
        if not self._out:
            return self._grow(nodes, epoch, index, times, excluded), positions
        return self._grow(nodes, epoch, index, times, [(_turned(name), edge) for name, edge in excluded]).turned(), positions

    def _grow(
        self,
        nodes: "_Found",
        epoch: int,
        index: int,
        times: Sequence[float] | None,
        excluded: Collection[tuple[Relation, int]],
    ) -> OracleBatch:
        rules = self._rules
        edges: dict[Relation, list[tuple[int, int, int]]] = {relation: [] for relation in self._fanouts}
        nodes_per_hop = {name: [len(found)] for name, found in nodes.items()}
        edges_per_hop: dict[Relation, list[int]] = {relation: [] for relation in self._fanouts}
        for hop in range(self._num_hops):
            known = {name: len(found) for name, found in nodes.items()}
            for relation, fanouts in self._fanouts.items():
                before = len(edges[relation])
                destination = relation[2]
                begin = 0 if rules.expand == "all" else known[destination] - nodes_per_hop[destination][-1]
                key = reference.stream_key(
                    seed=self._seed,
                    epoch=epoch,
                    batch=index,
                    hop=0 if rules.layer_dependency else hop,
                    relation=(relation[0], "", "") if rules.labor else relation,
                )
                for position in range(begin, known[destination]):
                    tree, raw = nodes[destination][position]
                    latest = None if times is None else times[tree]
                    for edge in self._drawn(relation, tree, raw, fanouts[hop], key, latest, excluded):
                        source = _position(nodes[relation[0]], (tree, edge.source))
                        edges[relation].append((source, position, edge.number))
                edges_per_hop[relation].append(len(edges[relation]) - before)
            for name, found in nodes.items():
                nodes_per_hop[name].append(len(found) - known[name])
        if rules.subgraph != "directional":
            edges = induced_edges(self._tables, nodes) if rules.subgraph == "induced" else edges_both_ways(edges)
        return OracleBatch(
            nodes={name: [raw for _, raw in found] for name, found in nodes.items()},
            edges=edges,
            num_sampled_nodes=nodes_per_hop,
            num_sampled_edges={**edges_per_hop} if rules.subgraph == "directional" else dict.fromkeys(edges),
            trees={name: [tree for tree, _ in found] for name, found in nodes.items()} if rules.disjoint else None,
        )

    def _drawn(
        self,
        relation: Relation,
        tree: int,
        raw: int,
        fanout: int,
        key: int,
        latest: float | None,
        excluded: Collection[tuple[Relation, int]],
    ) -> list[_Edge]:
        """The edges that are drawn from those to one node."""
        stored = [edge for edge in self._in_edges[relation].get(raw, []) if (relation, edge.number) not in excluded]
        edges = [edge for edge in stored if edge.may_be_drawn(latest, self._rules.time_window)]
        stream, replace = raw + tree * _TREE_STEP, self._rules.replace
        weights = [edge.weight for edge in edges if edge.weight is not None]
        times = [edge.time for edge in edges if edge.time is not None]
        if times and self._rules.last:
            places = reference.most_recent(times, fanout)
        elif self._rules.labor:
            edges = [edge for edge in edges if edge.weight is None or edge.weight > 0]
            weights = [edge.weight for edge in edges if edge.weight is not None]
            sources = [edge.source + tree * _TREE_STEP for edge in edges]
            places = reference.draw_by_source(sources, weights or None, fanout, key)
        elif weights:
            places = reference.draw_weighted(weights, stream, fanout, key, replace=replace)
        else:
            places = reference.draw_positions(len(edges), stream, fanout, key, replace=replace)
        return [edges[place] for place in places]


def _turned(relation: Relation) -> Relation:
    return relation[2], relation[1], relation[0]


def _position(found: list[tuple[int, int]], node: tuple[int, int]) -> int:
    if node not in found:
        found.append(node)
    return found.index(node)


def _in_edges(tables: GraphTables, relation: Relation, rules: Rules) -> dict[int, list[_Edge]]:
    """The edges to each destination, by its raw id, in the user's order."""
    edges: dict[int, list[_Edge]] = {}
    source_raw, destination_raw = (raw_ids(tables, name) for name in (relation[0], relation[2]))
    table = tables.edges[relation]
    weights = table.columns.get(rules.weight or "")
    edge_times = table.columns.get(rules.time or "")
    node_times = tables.nodes[relation[0]].columns.get(rules.time or "")
    for number, (source, destination) in enumerate(zip(table.src.tolist(), table.dst.tolist(), strict=True)):
        times, row = (edge_times, number) if edge_times is not None else (node_times, source)
        edge = _Edge(
            source=source_raw[source],
            number=number,
            weight=None if weights is None else weights[number].item(),
            time=None if times is None else times[row].item(),
        )
        edges.setdefault(destination_raw[destination], []).append(edge)
    return edges
