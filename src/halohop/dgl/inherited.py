"""Columns that a block or a subgraph has of the graph it was taken from, whose rows are taken when they are first read."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from torch import Tensor

Change = Callable[[Tensor], Tensor]


class Inherited(MutableMapping[str, Tensor]):
    """The columns of some nodes or edges of a graph: those set here, and those of the graph, each taken once it is read.

    Args:
        own: the columns set here.
        parent: the columns of the graph.
        ids: which of its nodes or edges these are, ``[n]``; None for all.
        change: applied to rows that are taken, such as a move to a device.

    Example:
        >>> import torch
        >>> some = Inherited({}, {"x": torch.tensor([10, 20, 30])}, torch.tensor([2, 0]))
        >>> some["x"].tolist(), list(some), "y" in some
        ([30, 10], ['x'], False)
    """

    def __init__(
        self, own: Mapping[str, Tensor], parent: Mapping[str, Any], ids: Tensor | None, change: Change | None = None
    ) -> None:
        self._own, self._parent, self._ids, self._change = dict(own), parent, ids, change
        self._hidden: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._own:
            if name in self._hidden:
                raise KeyError(name)
            rows = self._parent[name]
            taken = rows if self._ids is None else rows[self._ids]
            self._own[name] = taken if self._change is None else self._change(taken)
        return self._own[name]

    def __setitem__(self, name: str, values: Tensor) -> None:
        self._own[name] = values

    def __delitem__(self, name: str) -> None:
        self._own.pop(name, None)
        self._hidden.add(name)

    def __contains__(self, name: object) -> bool:
        return name in self._own or (name not in self._hidden and name in self._parent)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *(name for name in self._parent if name not in self._hidden))))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr({name: self._own.get(name, "not read yet") for name in self})

    def __reduce__(self) -> Any:
        return Sent, (self._own, self.origins)

    @property
    def origins(self) -> Tensor | None:
        """Which nodes or edges these are of the graph at the beginning, if subgraphs were taken of subgraphs; None for all."""
        above: Tensor | None = getattr(getattr(self._parent, "data", self._parent), "origins", None)
        if above is None or self._ids is None:
            return self._ids if above is None else above
        return above[self._ids]

    def each(self, change: Change) -> "Inherited":
        """With what a function makes of each column, now or when it is read."""
        before = self._change
        both = change if before is None else lambda rows: change(before(rows))
        made = Inherited({name: change(rows) for name, rows in self._own.items()}, self._parent, self._ids, both)
        made._hidden = set(self._hidden)
        return made


class Sent(dict[str, Tensor]):
    """`Inherited` after its way to another process, without the graph: the columns that were set or read.

    Args:
        own: these columns.
        origins: as of `Inherited`.
    """

    def __init__(self, own: Mapping[str, Tensor], origins: Tensor | None) -> None:
        super().__init__(own)
        self.origins = origins

    def __reduce__(self) -> Any:
        return Sent, (dict(self), self.origins)


def inherit(made: Any, g: Any, *, nodes: bool = True, edges: bool = True) -> Any:
    """A graph or block, with the columns of the graph `g`, of which it is a part: rows are taken when they are first read.

    Args:
        made: its columns `_ID` say which nodes and edges of `g` these are; without them they are all.
        g: the graph.
        nodes, edges: whether the columns of nodes, and those of edges.
    """
    kept, of_g = made._own, getattr(g, "_kept", None)  # of a graph on several hosts there are views only
    src, dst, of_edges = kept.src, kept.dst, kept.edges
    if nodes:
        above = {kind: g.nodes[kind].data for kind in src} if of_g is None else of_g.src
        src = {kind: _inherited(columns, above[kind]) for kind, columns in src.items()}
        dst = src if kept.src is kept.dst else {kind: _inherited(columns, above[kind]) for kind, columns in dst.items()}
    if edges:
        above = {relation: g.edges[relation].data for relation in of_edges} if of_g is None else of_g.edges
        of_edges = {relation: _inherited(columns, above[relation]) for relation, columns in of_edges.items()}
    made._own = replace(kept, src=src, dst=dst, edges=of_edges)
    return made


def returned(made: Any, g: Any) -> Any:
    """A graph or block that has come from another process, with the columns of the graph `g` again where it had them."""
    kept = made._own
    src = {kind: _again(columns, g.nodes, kind) for kind, columns in kept.src.items()}
    dst = src if kept.src is kept.dst else {kind: _again(columns, g.nodes, kind) for kind, columns in kept.dst.items()}
    edges = {relation: _again(columns, g.edges, relation) for relation, columns in kept.edges.items()}
    made._own = replace(kept, src=src, dst=dst, edges=edges)
    return made


def _again(columns: MutableMapping[str, Tensor], frames: Any, kind: Any) -> MutableMapping[str, Tensor]:
    return Inherited(columns, frames[kind].data, columns.origins) if isinstance(columns, Sent) else columns


def _inherited(columns: MutableMapping[str, Tensor], parent: Mapping[str, Any]) -> MutableMapping[str, Tensor]:
    return Inherited(columns, parent, columns.get("_ID"))


def changed(columns: MutableMapping[str, Tensor], change: Change) -> MutableMapping[str, Tensor]:
    """Columns with what a function makes of each; of those that were not read, once they are."""
    return columns.each(change) if isinstance(columns, Inherited) else {name: change(rows) for name, rows in columns.items()}
