"""Message passing: what edges are given, and what destinations make of it, by built-in functions or a user's own."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from halohop.dgl.batches import EdgeBatch, NodeBatch, Rows
from halohop.dgl.frames import Framed
from halohop.dgl.function import Message, Reduction
from halohop.dgl.kinds import only
from halohop.dgl.views import Frame
from halohop.errors import InputError, SchemaError
from halohop.nn import messages, reduce_messages
from halohop.typing import Relation

ALL = "__ALL__"
Found = Mapping[str, Tensor]
MessageFunction = Message | Callable[[EdgeBatch], Found]
ReduceFunction = Reduction | Callable[[NodeBatch], Found]
Side = tuple[Literal["src", "dst", "edge"], Tensor]

ENDS: dict[str, Literal["src", "dst", "edge"]] = {"u": "src", "v": "dst", "e": "edge"}
"""What halohop calls the sides of an edge."""


class Passing:
    """The messages of one relation.

    Args:
        graph: whose edges they go along.
        etype: the relation, or None for the only one.
    """

    def __init__(self, graph: Framed, etype: str | Relation | None) -> None:
        self.relation = graph.to_canonical_etype(etype)
        self.edges = graph.adjacency(self.relation)
        source, _, self.dsttype = self.relation
        self.columns = {"u": graph.src_frame(source), "v": graph.dst_frame(self.dsttype), "e": graph.edge_frame(self.relation)}

    def sides(self, message: Message, ids: Tensor | None = None) -> list[Side]:
        """What a built-in function reads, of all edges or some."""
        rows = [(end, self.columns[end][name]) for end, name in message.sides]
        return [(ENDS[end], column if ids is None or end != "e" else column[ids]) for end, column in rows]

    def given(self, message: MessageFunction, ids: Tensor | None) -> Found:
        """What a function gives edges, all of them or some, by id."""
        edges = self.edges if ids is None else self.edges.kept(ids)
        if isinstance(message, Message):
            return {message.out: messages(edges, message.operation, *self.sides(message, ids))}
        (src, dst), own = edges.ends, self.columns["e"]
        numbers = torch.arange(len(src), device=src.device) if ids is None else ids
        there, here = Rows(self.columns["u"], src), Rows(self.columns["v"], dst)
        batch = EdgeBatch((src, dst), numbers.to(src.dtype), self.relation, there, here, own if ids is None else Rows(own, ids))
        return _checked(message, batch, f"edges {self.relation}")

    def received(self, message: MessageFunction, reduction: ReduceFunction) -> Found:
        """What destinations make of their messages."""
        hop = self.edges.hop
        if isinstance(message, Message):
            if not isinstance(reduction, Reduction):
                return self._by_degree(reduction, {message.out: messages(hop, message.operation, *self.sides(message))})
            _check_message(reduction, [message.out])
            return {reduction.out: reduce_messages(hop, reduction.operation, message.operation, *self.sides(message))}
        found = self.given(message, None)
        if not isinstance(reduction, Reduction):
            return self._by_degree(reduction, {name: hop.of_edges(rows) for name, rows in found.items()})
        _check_message(reduction, found)
        return {reduction.out: reduce_messages(hop, reduction.operation, "copy", ("edge", found[reduction.message]))}

    def _by_degree(self, reduction: Callable[[NodeBatch], Found], mailbox: Found) -> Found:
        """A user's function of destinations, called with those of each number of messages; 0 for those without any."""
        found = []
        for ids, at in self.edges.hop.by_degree():
            mail = {name: rows.index_select(0, at.flatten()).unflatten(0, at.shape) for name, rows in mailbox.items()}
            batch = NodeBatch(ids.to(self.edges.some.dtype), self.dsttype, Rows(self.columns["v"], ids), mail)
            found.append((ids, _checked(reduction, batch, f"nodes of type {self.dsttype!r}")))
        if not found:
            return {}
        return _joined([ids for ids, _ in found], [rows for _, rows in found], self.edges.num_dst)


class Passes(Framed):
    """A graph along whose edges messages go."""

    def apply_edges(self, func: MessageFunction, edges: Any = ALL, etype: str | Relation | None = None) -> None:
        """Sets columns of the edges.

        Args:
            func: a built-in of `halohop.dgl.function`, or a function of an `EdgeBatch` that returns a dict of columns.
            edges: which: ids, or pairs of ends; by default all. The others keep what they have, or 0.
            etype: the relation.
        """
        passing, ids = Passing(self, etype), None
        if not is_all(edges):
            found = self.edge_ids(edges[0], edges[1], etype=passing.relation) if isinstance(edges, tuple) else edges
            ids = self.ids(found, passing.edges.num_edges, "edge")
        _set(passing.columns["e"], passing.given(func, ids), ids, passing.edges.num_edges)

    def update_all(
        self,
        message_func: MessageFunction,
        reduce_func: ReduceFunction,
        apply_node_func: Any = None,
        etype: str | Relation | None = None,
    ) -> None:
        """Sets columns of the destinations to what they make of the messages of their in-edges; 0 for those without any.

        Args:
            message_func: as `func` of `apply_edges`.
            reduce_func: a built-in, or a function of a `NodeBatch` that returns a dict of columns; it is called with the
                destinations that have one message, with those that have two, and so on.
            apply_node_func: a function of a `NodeBatch` of all destinations, called afterwards.
            etype: the relation.
        """
        passing = Passing(self, etype)
        passing.columns["v"].update(passing.received(message_func, reduce_func))
        if apply_node_func is not None:
            self.apply_nodes(apply_node_func, ntype=passing.dsttype)

    def apply_nodes(self, func: Callable[[NodeBatch], Found], v: Any = ALL, ntype: str | None = None) -> None:
        """Sets columns of nodes, of a block those of the destinations, by a function of a `NodeBatch`."""
        kind = only(self.dsttypes, ntype)
        frame, numbers = self.dst_frame(kind), self.dstnodes(kind)
        ids = None if is_all(v) else self.ids(v, len(numbers), "node")
        batch = NodeBatch(numbers, kind, frame, {}) if ids is None else NodeBatch(numbers[ids], kind, Rows(frame, ids), {})
        _set(frame, _checked(func, batch, f"nodes of type {kind!r}"), ids, len(numbers))


def is_all(ids: Any) -> bool:
    """Whether DGL's default was given for ids."""
    return isinstance(ids, str) and ids == ALL


def _checked(function: Any, batch: EdgeBatch | NodeBatch, of: str) -> Found:
    """What a user's function returns: a dict of tensors with a row for each of its batch."""
    if not callable(function):
        raise InputError(f"{function!r} is no function of {of}; give one of halohop.dgl.function, or your own")
    found = function(batch)
    if not isinstance(found, Mapping):
        raise InputError(f"{_name(function)} returns a {type(found).__name__}; return a dict of columns of {of}")
    for name, rows in found.items():
        if not isinstance(rows, Tensor) or rows.dim() == 0 or len(rows) != len(batch):
            given = f"shape {list(rows.shape)}" if isinstance(rows, Tensor) else f"type {type(rows).__name__}"
            raise InputError(f"{_name(function)} returns {name!r} of {given} for {len(batch)} of {of}; return a row for each")
    return found


def _name(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def _check_message(reduction: Reduction, names: Any) -> None:
    if reduction.message not in names:
        raise SchemaError(f"{reduction.operation} reduces {reduction.message!r}, but the messages are {sorted(names)}")


def _joined(ids: list[Tensor], found: list[Found], number: int) -> Found:
    """Rows of some nodes as columns of all, 0 for the others."""
    if differing := [rows for rows in found if rows.keys() != found[0].keys()]:
        raise InputError(
            f"the function of messages returns {sorted(found[0])} and {sorted(differing[0])}; return the same each time"
        )
    at, joined = torch.cat(ids), {}
    for name in found[0]:
        rows = torch.cat([part[name] for part in found])
        joined[name] = rows.new_zeros(number, *rows.shape[1:]).index_copy(0, at, rows)
    return joined


def _set(frame: Frame, found: Found, ids: Tensor | None, number: int) -> None:
    """Sets columns, or some rows of them; the others stay, and are 0 where the column is new."""
    for name, rows in found.items():
        if ids is not None:
            known = frame.get(name)
            fits = known is not None and known.shape[1:] == rows.shape[1:]
            all_rows = known.to(rows.dtype) if known is not None and fits else rows.new_zeros(number, *rows.shape[1:])
            rows = all_rows.index_copy(0, ids, rows)
        frame[name] = rows
