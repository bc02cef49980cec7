"""Methods of graphs that functions of `dgl` answer: those that draw, wherever a graph lies, and those that make another graph."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import halohop

if TYPE_CHECKING:
    import halohop.dgl.sampling
    from halohop.dgl.graph import DGLGraph


class Asked:
    """The methods of graphs that draw."""

    def sample_neighbors(self, nodes: Any, fanout: Any, *args: Any, **kwargs: Any) -> "DGLGraph":
        """Some edges of each of the given nodes; see `dgl.sampling.sample_neighbors`."""
        return halohop.dgl.sampling.sample_neighbors(self, nodes, fanout, *args, **kwargs)

    def in_subgraph(self, nodes: Any, **kwargs: Any) -> "DGLGraph":
        """All edges to the given nodes; see `dgl.in_subgraph`."""
        return halohop.dgl.sampling.in_subgraph(self, nodes, **kwargs)

    def out_subgraph(self, nodes: Any, **kwargs: Any) -> "DGLGraph":
        """All edges from the given nodes; see `dgl.out_subgraph`."""
        return halohop.dgl.sampling.out_subgraph(self, nodes, **kwargs)


def _by(name: str) -> Callable[..., "DGLGraph"]:
    """A method that calls the function of this name of `dgl`."""

    def method(self: Any, *args: Any, **kwargs: Any) -> "DGLGraph":
        made: DGLGraph = getattr(halohop.dgl, name)(self, *args, **kwargs)
        return made

    method.__name__, method.__doc__ = name, f"Another graph; see `dgl.{name}`."
    return method


class Remade:
    """The methods that make another graph, and leave this one as it is."""

    add_self_loop, remove_self_loop, reverse = _by("add_self_loop"), _by("remove_self_loop"), _by("reverse")
    subgraph, edge_subgraph, edge_type_subgraph = _by("node_subgraph"), _by("edge_subgraph"), _by("edge_type_subgraph")
