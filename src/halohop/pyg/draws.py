"""`halohop.records.Draws`: the questions of one batch, in the user's ids, for sampling that users write themselves.

Users compare and join by their own ids, and batches stay the same for any number of partitions; gids would give neither. The
price is paid if ids differ from gids: one more request per hop for the ids of new nodes, and tables for both numberings. Edges
are looked up by id in an index of 4 bytes per edge, which takes a fifth of the time of `searchsorted`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.options import whole
from halohop.pyg.asked import Method, by_relation, fanouts_by_relation, is_labor, only_relation, whole_ids
from halohop.sampling.known_ids import KnownIds
from halohop.sampling.lists import OF_NODES, Drawn
from halohop.sampling.neighbor import check_columns
from halohop.store.draw import Draw, Rules
from halohop.store.requests import FetchRequest, HopAnswer, HopQuery, RowQuery, SampleRequest
from halohop.typing import EdgeDir, NodeType, Relation, TableKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Edges of one relation in the user's ids.

    Args:
        src, dst: the nodes that they lead from and to, int64 ``[E]`` each.
        edge_id: their places in the user's input, int64 ``[E]``.

    Example:
        >>> Edges(src=torch.tensor([4, 2]), dst=torch.tensor([0, 0]), edge_id=torch.tensor([7, 3])).num_edges
        2
    """

    src: Tensor
    dst: Tensor
    edge_id: Tensor

    @property
    def num_edges(self) -> int:
        """How many edges these are."""
        return len(self.edge_id)

    @property
    def num_bytes(self) -> int:
        """What its tensors weigh."""
        return self.src.nbytes + self.dst.nbytes + self.edge_id.nbytes


class Draws:
    """What one batch asks a graph for: neighbours that are drawn, edges, rows, nodes drawn at random. All ids are the user's.

    Answers are a function of (seed, epoch, batch, number of the question): not of partitions, hosts, threads or calls for other
    batches. Call k of `neighbors` draws what hop k of `halohop.NeighborLoader` with ``expand="all"`` and the same seed, epoch,
    batch and rules draws. `halohop.FunctionLoader` makes one for every batch; one object serves one thread.

    Args:
        graph: from `halohop.open`, `halohop.connect` or `halohop.graph`.
        seed, epoch, batch: name the stream of random numbers.

    Raises:
        InputError: no graph, or a number that is none.

    Attributes:
        graph, seed, epoch, batch: as given.
        number: the number of the next call of `neighbors`.

    Example:
        >>> import halohop
        >>> from torch_geometric.data import Data
        >>> ring = halohop.graph(Data(edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), num_nodes=4))
        >>> draws = halohop.records.Draws(ring, seed=1)
        >>> edges = draws.neighbors(torch.tensor([2, 0]), 5)
        >>> edges.src.tolist(), edges.dst.tolist(), edges.edge_id.tolist()
        ([1, 3], [2, 0], [1, 3])
    """

    def __init__(self, graph: Graph, *, seed: int = 0, epoch: int = 0, batch: int = 0, known: KnownIds | None = None) -> None:
        if not isinstance(graph, Graph):
            raise InputError(f"graph is a {type(graph).__name__}; give a graph from halohop.open or halohop.graph(data)")
        ops.warm_up()
        self.graph = graph
        self.seed, self.epoch, self.batch = whole(seed, "seed"), whole(epoch, "epoch"), whole(batch, "batch")
        self.number = 0
        self._known_ids = known or KnownIds(graph)
        self._excluded: dict[Relation, tuple[Tensor, int, Tensor]] = {}
        self._uniform = 0

    def neighbors(
        self,
        nodes: Tensor | Mapping[NodeType, Tensor],
        fanout: int | Mapping[Relation, int] = -1,
        *,
        weight: str | None = None,
        replace: bool = False,
        excluded: Tensor | Mapping[Relation, Tensor] | None = None,
        edge_dir: EdgeDir | None = None,
        method: Method = "neighbor",
    ) -> Any:
        """Draws in-neighbours of nodes, or out-neighbours in a graph that was made for them: one request for all relations, and
        one more for the ids of what is found, where the user's differ from those that the graph counts by.

        Args:
            nodes: whose neighbours, integers ``[n]``; a dict of node types and their nodes where there are several types. A node
                that is asked for twice has its edges twice.
            fanout: at most so many neighbours of each node, of each relation; -1: all of them, 0: none. With a dict, relations
                that are not named draw none.
            weight: the attribute of edges that holds weights to draw by; relations without it draw uniformly.
            replace: draw with replacement.
            excluded: ids of edges that are not drawn, in any order; a dict of relations and their edges where there are several.
            edge_dir: "in" or "out"; other than what the graph was made for is refused. None: that.
            method: as of `halohop.NeighborLoader`.

        Returns:
            `Edges` in the direction of the graph: those of the first node, as they were drawn, then of the next. If the graph has
            several relations, or `nodes` is a dict: a dict of all relations, in the order of the graph, with the `Edges` of each.

        Raises:
            IdError: a node or an excluded edge that the graph does not have.
            SchemaError: an unknown type or relation, or none is named where there are several.
            InputError: any other argument that cannot work.
        """
        graph, book = self.graph, self.graph.book
        graph.check_edge_dir(edge_dir)
        rules = Rules(replace=replace, weight=weight, labor=is_labor(method))
        asked = self._asked(nodes)
        fanouts = fanouts_by_relation(fanout, graph)
        if weight is not None:
            check_columns(graph, rules, [relation for relation, number in fanouts.items() if number])
            graph.check_readable([weight])
        known = self._known()
        gids = {name: known.gids(name, raw) for name, raw in asked.items()}
        left_out = self._left_out(excluded)
        draw = Draw(seed=self.seed, epoch=self.epoch, batch=self.batch, hop=self.number, rules=rules)
        self.number += 1
        queries = {
            relation: HopQuery(
                relation=relation,
                fanout=fanouts[relation],
                dst_gid=gids[book.list_type(relation)],
                excluded=left_out.get(relation),
                edge_ids=True,
            )
            for relation in graph.schema.edges
            if fanouts.get(relation, 0) and len(gids.get(book.list_type(relation), ()))
        }
        answers = graph.sample(SampleRequest(draw=draw, queries=tuple(queries.values()))).answers if queries else ()
        found = self._in_users_ids(asked, dict(zip(queries, answers, strict=True)))
        return found if isinstance(nodes, Mapping) or len(found) > 1 else next(iter(found.values()))

    def edges(self, edge_id: Tensor | Mapping[Relation, Tensor]) -> Any:
        """The edges of some ids, in their order.

        Args:
            edge_id: places in the user's input, integers ``[n]``; a dict of relations and their edges where there are several.

        Returns:
            `Edges`, or a dict of relations and their `Edges` if `edge_id` is one.

        Raises:
            IdError: an edge that the graph does not have.
            SchemaError: an unknown relation, or none is named where there are several.
            InputError: no ids.
        """
        asked = by_relation(edge_id, self.graph, "edge_id")
        replies = {relation: self.graph.edges(relation, whole_ids(ids, "edge_id")) for relation, ids in asked.items()}
        gids: dict[NodeType, list[Tensor]] = {}
        for relation, reply in replies.items():
            gids.setdefault(relation[0], []).append(reply.src_gid)
            gids.setdefault(relation[2], []).append(reply.dst_gid)
        raws = {name: iter(pieces) for name, pieces in self._known().raws(gids).items()}
        found = {
            relation: Edges(src=next(raws[relation[0]]), dst=next(raws[relation[2]]), edge_id=reply.edge_id)
            for relation, reply in replies.items()
        }
        return found if isinstance(edge_id, Mapping) else next(iter(found.values()))

    def has_edges(self, src: Tensor, dst: Tensor, relation: Relation | None = None) -> Tensor:
        """Whether an edge leads from each source to its destination, bool ``[n]``.

        Args:
            src, dst: ids of nodes, integers ``[n]`` each.
            relation: of the edges; None where there is one.

        Raises:
            IdError, SchemaError: as of `neighbors`.
            InputError: sources and destinations of different numbers.
        """
        relation = only_relation(self.graph) if relation is None else self.graph.schema.relation(relation)
        src, dst = whole_ids(src, "src"), whole_ids(dst, "dst")
        if len(src) != len(dst):
            raise InputError(f"{len(src)} sources and {len(dst)} destinations are no pairs; give as many of both")
        known = self._known()
        pair = (relation, known.gids(relation[0], src), known.gids(relation[2], dst))
        return torch.from_numpy(self.graph.find((pair,))[0].counts.numpy() > 0)

    def rows(self, wanted: Mapping[TableKey, tuple[Tensor, Sequence[str]]]) -> dict[TableKey, dict[str, Tensor]]:
        """Columns of nodes and edges, of all types with one request.

        Args:
            wanted: by node type and relation, ids (integers ``[n]``) and the names of columns.

        Returns:
            By node type and relation, the columns by name, ``[n, ...]`` each.

        Raises:
            IdError: a node or edge that the graph does not have.
            SchemaError: an unknown type, relation or column.
        """
        known, graph = self._known(), self.graph
        queries = []
        for key, (ids, names) in wanted.items():
            gid = (
                known.gids(graph.schema.node_type(key), whole_ids(ids, "ids"))
                if isinstance(key, str)
                else self._edge_gids(key, ids)
            )
            if isinstance(names, str):
                raise InputError(f"columns of {key!r} are given as {names!r}; give a list of names, such as [{names!r}]")
            queries.append(RowQuery(table=key, columns=tuple(names), gid=gid))
        found = graph.fetch(FetchRequest(queries=tuple(queries))) if queries else ()
        return {
            query.table: dict(zip(query.columns, columns, strict=True)) for query, columns in zip(queries, found, strict=True)
        }

    def uniform(self, count: int, node_type: NodeType | None = None) -> Tensor:
        """Nodes drawn at random, each as likely as any other and as often as it comes, such as the ends of negatives.

        Calls of this are numbered by themselves, so that they change nothing of what `neighbors` draws.

        Args:
            count: how many.
            node_type: their type; None where there is one.

        Returns:
            Their ids, int64 ``[count]``.

        Raises:
            SchemaError: no such type.
            InputError: there is no node, or a count below 0.
        """
        node_type = self.graph.schema.node_type(node_type)
        num_nodes, count = self.graph.schema.nodes[node_type].count, whole(count, "count")
        if count < 0 or (count and not num_nodes):
            raise InputError(f"{count} nodes cannot be drawn of the {num_nodes} nodes of {node_type!r}")
        stream = ("", "uniform", node_type)
        key = ops.stream_key(seed=self.seed, epoch=self.epoch, batch=self.batch, hop=self._uniform, relation=stream)
        self._uniform += 1
        level = ops.fractions(key, torch.from_numpy(np.arange(count))).numpy()
        places = torch.from_numpy(np.minimum((level * num_nodes).astype(np.int64), num_nodes - 1))
        listed = self.graph.listed_ids(node_type)
        return places if listed is None else ops.gather_rows(listed, places)

    def _known(self) -> KnownIds:
        self._known_ids.begin(self)
        return self._known_ids

    def _asked(self, nodes: Tensor | Mapping[NodeType, Tensor]) -> dict[NodeType, Tensor]:
        schema = self.graph.schema
        if not isinstance(nodes, Mapping):
            return {schema.node_type(None): whole_ids(nodes, "nodes")}
        return {schema.node_type(name): whole_ids(ids, f"nodes of {name!r}") for name, ids in nodes.items()}

    def _left_out(self, excluded: Tensor | Mapping[Relation, Tensor] | None) -> dict[Relation, Tensor]:
        """Gids of edges, ascending; looked up once where the same tensor is given again."""
        if excluded is None:
            return {}
        found = {}
        for relation, ids in by_relation(excluded, self.graph, "excluded").items():
            known = self._excluded.get(relation)
            if known is None or known[0] is not ids or known[1] != ids._version:
                gids = np.unique(self._edge_gids(relation, ids).numpy())
                known = self._excluded[relation] = ids, ids._version, torch.from_numpy(gids)
            found[relation] = known[2]
        return found

    def _edge_gids(self, relation: Relation, edge_id: Tensor) -> Tensor:
        return self.graph.locate_edges(relation, whole_ids(edge_id, "ids of edges"))

    def _in_users_ids(self, asked: dict[NodeType, Tensor], answers: dict[Relation, HopAnswer]) -> dict[Relation, Edges]:
        book, pool = self.graph.book, self.graph.pool
        gids: dict[NodeType, list[Tensor]] = {}
        for relation, answer in answers.items():
            gids.setdefault(book.neighbor_type(relation), []).append(answer.src_gid)
        raws = {name: iter(pieces) for name, pieces in self._known().raws(gids).items()}
        none = torch.empty(0, dtype=torch.int64)
        found = {}
        for relation in self.graph.schema.edges:
            if relation not in answers:
                found[relation] = Edges(src=none, dst=none, edge_id=none)
                continue
            answer = answers[relation]
            neighbor = _wide(next(raws[book.neighbor_type(relation)]), pool)
            listed = _repeated(asked[book.list_type(relation)], answer.counts, len(neighbor), pool)
            src, dst = (neighbor, listed) if book.list_end else (listed, neighbor)
            edge_id = answer.edge_gid if answer.edge_id is None else _wide(answer.edge_id, pool)
            found[relation] = Edges(src=src, dst=dst, edge_id=edge_id)
        return found


def _wide(ids: Tensor, pool: ops.Pool) -> Tensor:
    return ids if ids.dtype == torch.int64 else ops.copy_ids(ids, pool.empty((len(ids),), torch.int64))


def _repeated(ids: Tensor, counts: Tensor, total: int, pool: ops.Pool) -> Tensor:
    """Each id as often as its node has neighbours."""
    place = pool.empty((total,), torch.int64)
    ops.repeat_positions(counts, 0, place)
    listed = ops.gather_rows(ids, place, pool=pool)
    OF_NODES.keep(listed, Drawn(nodes=ids, version=ids._version, place=place, begins=ops.list_begins(counts, pool)))
    return listed
