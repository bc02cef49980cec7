"""The sampler written down a second time: one node, one edge at a time, over the user's own tables. Slow and obvious.

Whatever the partitioning, the hosts, the threads or the kernels, a loader's batches must equal these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halohop.ops import reference
from halohop.store.tables import GraphTables
from halohop.typing import NodeType, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleBatch:
    """A batch in the user's ids.

    Args:
        nodes: raw ids by type, in batch order.
        edges: (source position, destination position, edge id) by relation, in batch order.
        num_sampled_nodes, num_sampled_edges: how many each hop added.
    """

    nodes: dict[NodeType, list[int]]
    edges: dict[Relation, list[tuple[int, int, int]]]
    num_sampled_nodes: dict[NodeType, list[int]]
    num_sampled_edges: dict[Relation, list[int]]


class Oracle:
    """Samples from tables in memory, by definition.

    Args:
        tables: the graph.
        fanouts: per relation, a number per hop.
        seed, replace, expand: as of `halohop.NeighborLoader`.

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
        replace: bool = False,
        expand: str = "new",
    ) -> None:
        self._fanouts = fanouts
        self._seed, self._replace, self._expand = seed, replace, expand
        self._num_hops = max((len(values) for values in fanouts.values()), default=0)
        self._in_edges = {relation: _in_edges(tables, relation) for relation in tables.edges}
        self._types = list(tables.nodes)

    def batch(self, node_type: NodeType, seeds: Sequence[int], *, epoch: int, index: int) -> OracleBatch:
        """The batch number `index` of an epoch, around seeds given by raw id."""
        nodes: dict[NodeType, list[int]] = {name: list(seeds) if name == node_type else [] for name in self._types}
        edges: dict[Relation, list[tuple[int, int, int]]] = {relation: [] for relation in self._fanouts}
        nodes_per_hop = {name: [len(found)] for name, found in nodes.items()}
        edges_per_hop: dict[Relation, list[int]] = {relation: [] for relation in self._fanouts}
        for hop in range(self._num_hops):
            known = {name: len(found) for name, found in nodes.items()}
            for relation, fanouts in self._fanouts.items():
                before = len(edges[relation])
                destination = relation[2]
                begin = 0 if self._expand == "all" else known[destination] - nodes_per_hop[destination][-1]
                key = reference.stream_key(seed=self._seed, epoch=epoch, batch=index, hop=hop, relation=relation)
                for position in range(begin, known[destination]):
                    raw = nodes[destination][position]
                    for source, edge in self._drawn(relation, raw, fanouts[hop], key):
                        edges[relation].append((_position(nodes[relation[0]], source), position, edge))
                edges_per_hop[relation].append(len(edges[relation]) - before)
            for name, found in nodes.items():
                nodes_per_hop[name].append(len(found) - known[name])
        return OracleBatch(nodes=nodes, edges=edges, num_sampled_nodes=nodes_per_hop, num_sampled_edges=edges_per_hop)

    def _drawn(self, relation: Relation, raw: int, fanout: int, key: int) -> list[tuple[int, int]]:
        edges = self._in_edges[relation].get(raw, [])
        return [edges[place] for place in reference.draw_positions(len(edges), raw, fanout, key, replace=self._replace)]


def _position(found: list[int], raw: int) -> int:
    if raw not in found:
        found.append(raw)
    return found.index(raw)


def _in_edges(tables: GraphTables, relation: Relation) -> dict[int, list[tuple[int, int]]]:
    """Per destination's raw id: (source's raw id, edge id), in the user's order."""
    edges: dict[int, list[tuple[int, int]]] = {}
    source_raw, destination_raw = (_raw_ids(tables, name) for name in (relation[0], relation[2]))
    table = tables.edges[relation]
    for edge, (source, destination) in enumerate(zip(table.src.tolist(), table.dst.tolist(), strict=True)):
        edges.setdefault(destination_raw[destination], []).append((source_raw[source], edge))
    return edges


def _raw_ids(tables: GraphTables, name: NodeType) -> list[int]:
    table = tables.nodes[name]
    return list(range(table.num_nodes)) if table.raw_id is None else table.raw_id.tolist()
