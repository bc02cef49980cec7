"""What graphs are asked by their methods, wherever they lie, and `dgl.sampling` answers."""

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
