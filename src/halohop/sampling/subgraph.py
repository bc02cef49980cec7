"""Which edges a batch has: those that were drawn, all among its nodes, or those that were drawn and their flips."""

from collections.abc import Callable
from dataclasses import replace

import torch

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError, SchemaError
from halohop.sampling.batch import EdgeBlock, Flips, NodeBlock
from halohop.sampling.discovery import Discovery, Frontier, Trail
from halohop.store.draw import TAKE_ALL
from halohop.store.requests import HopAnswer, HopQuery, SampleRequest
from halohop.store.schema import Schema
from halohop.typing import NodeType, Relation

Partners = dict[Relation, Relation]
"""Per relation, the one that holds its flips; itself where flips stay in the relation."""

_FIRST_SLICE, _GROWTH = 4096, 4
_EDGES_PER_SLICE = 2**22  # 20 bytes each in an answer


def _all_edges(relation: Relation, some: Frontier) -> HopQuery:
    return HopQuery(relation=relation, fanout=-1, dst_gid=some.gid, tree=some.tree)


def induced(
    graph: Graph,
    discovery: Discovery,
    query: Callable[[Relation, Frontier], HopQuery] = _all_edges,
    *,
    list_end: int | None = None,
) -> dict[Relation, EdgeBlock]:
    """All edges of the graph among the nodes of a batch; in a forest, among those of the same tree.

    They are ordered by the position of their destination, then as the graph stores them. A seed that occurs several times has
    its in-edges each time; edges from it begin at its first position.

    The owners list all in-edges of all nodes, slice by slice, and sources outside the batch are dropped here. Nobody knows
    degrees in advance, so the length of a slice follows from the lists of the last one. A hub may exceed the bound: its list
    comes in one piece.

    Args:
        graph: where the nodes are.
        discovery: the nodes.
        query: asks for all in-edges of some of them; by default for those of any time, without the user's ids.
        list_end: which row of the ends is that of the node whose list has the edge; None: as the graph has it.
    """
    frontiers = discovery.frontier(expand_all=True)
    book = graph.book
    end = book.list_end if list_end is None else list_end
    trails = {relation: Trail(graph.pool, list_end=end) for relation in graph.schema.edges}
    longest = max((len(frontier.gid) for frontier in frontiers.values()), default=0)
    begin, length = 0, _FIRST_SLICE
    while begin < longest:
        slices = {name: frontier.slice(begin, begin + length) for name, frontier in frontiers.items()}
        listed = {relation: slices[book.list_type(relation)] for relation in trails}
        queries = tuple(query(relation, some) for relation, some in listed.items() if len(some.gid))
        answers = graph.sample(SampleRequest(draw=TAKE_ALL, queries=queries)).answers if queries else ()
        with graph.counters.span("dedup"):
            for asked, answer in zip(queries, answers, strict=True):
                relation = asked.relation
                neighbors = book.neighbor_type(relation)
                _keep_known(answer, neighbors, listed[relation], discovery, trails[relation], graph.pool)
        begin += length
        found = sum(len(answer.edge_gid) for answer in answers)
        length = max(min(_GROWTH * length, _EDGES_PER_SLICE * length // max(found, 1)), 1)
    return {relation: trail.block(by_hop=False) for relation, trail in trails.items()}


def _keep_known(
    answer: HopAnswer, neighbors: NodeType, asked: Frontier, discovery: Discovery, trail: Trail, pool: ops.Pool
) -> None:
    """Adds the edges to neighbours that the batch has."""
    bid = pool.empty((len(answer.edge_gid),), torch.int64)
    ops.repeat_positions(answer.counts, asked.begin, bid)
    neighbor_bid = discovery.find(neighbors, answer.src_gid, asked.tree_of(bid))
    known = ops.known_places(neighbor_bid, pool=pool)
    neighbor_room, room = trail.extend(ops.gather_rows(answer.edge_gid, known, pool=pool))
    ops.gather_rows(neighbor_bid, known, out=neighbor_room)
    ops.gather_rows(bid, known, out=room)


def partners_of(schema: Schema) -> Partners:
    """Where the flips of every relation go: to its reverse (`Schema.reverse_of`), or else to the only relation that leads back.

    Raises:
        InputError: flips of a relation have no place to go.
        SchemaError: two relations hold each other's flips, but not the same columns.

    Example:
        >>> from halohop.store.schema import TableSpec
        >>> spec = TableSpec(count=0, columns={})
        >>> partners_of(Schema(nodes={"a": spec}, edges={("a", "to", "a"): spec}))
        {('a', 'to', 'a'): ('a', 'to', 'a')}
    """
    partners: Partners = {}
    for relation, table in schema.edges.items():
        src, name, dst = relation
        reverse = schema.reverse_of(relation) or _only_way_back(schema, relation)
        if reverse is None:
            raise InputError(
                f"flips of {relation} lead from {dst!r} to {src!r}, and neither {(dst, 'rev_' + name, src)} nor the only other "
                "relation there holds them; "
                f"add it (torch_geometric.transforms.ToUndirected), or use another subgraph type"
            )
        if table.given != schema.edges[reverse].given:
            raise SchemaError(
                f"flips of {relation} are edges of {reverse} and keep their features, but the columns differ: "
                f"{list(table.columns)} and {list(schema.edges[reverse].columns)}, or their dtypes or shapes"
            )
        partners[relation] = reverse
    return partners


def _only_way_back(schema: Schema, relation: Relation) -> Relation | None:
    """The relation between the same types the other way round, where there is but one each way."""
    there = [known for known in schema.edges if known[::2] == relation[::2]]
    back = [known for known in schema.edges if known[::2] == relation[::-2]]
    return back[0] if len(there) == len(back) == 1 else None


def bidirectional(
    edges: dict[Relation, EdgeBlock], nodes: dict[NodeType, NodeBlock], partners: Partners, pool: ops.Pool
) -> dict[Relation, EdgeBlock]:
    """The sampled edges and their flips, each pair of ends once, ordered by destination, then by source (positions).

    Of several edges with the same ends the one sampled first stays, and sampled edges go before flips. A flip has the gid of its
    original, which is an edge of the partner relation.
    """
    both, is_flip = {}, {}
    for relation, partner in partners.items():
        own, other = edges[relation], edges[partner]
        trail = Trail(pool, list_end=1)
        for block, ends in ((own, own.ends_bid), (other, (other.ends_bid[1], other.ends_bid[0]))):
            for known, room in zip(ends, trail.extend(block.gid), strict=True):
                ops.copy_ids(known, room)
        joined = trail.block(by_hop=False)
        kept = ops.distinct_pairs(*joined.ends_bid, *(len(nodes[name].gid) for name in relation[::2]), pool=pool)
        ends_bid = pool.empty((2, len(kept)), torch.int64)
        for known, room in zip(joined.ends_bid, ends_bid, strict=True):
            ops.gather_rows(known, kept, out=room)
        both[relation] = EdgeBlock(ends_bid=ends_bid, gid=ops.gather_rows(joined.gid, kept, pool=pool), num_sampled=None)
        if relation != partner:
            is_flip[relation] = ops.from_on(kept, len(own.gid))
    for (relation, mask), count in zip(is_flip.items(), ops.count_true(list(is_flip.values()), pool), strict=True):
        both[relation] = replace(both[relation], flips=Flips(relation=partners[relation], mask=mask, count=count))
    return both
