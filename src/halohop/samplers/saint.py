"""Which nodes make up a GraphSAINT subgraph: ends of random edges, or the nodes of random walks (Zeng et al. 2020)."""

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.samplers.walks import Walker
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import RAW_ID

By = Literal["node", "edge", "walk"]


class RandomNodes:
    """Draws the nodes of one subgraph after another, in a graph of one node type and one relation.

    - "node": the sources of `size` edges, all edges equally likely: a node in proportion to its out-degree.
    - "edge": both ends of `size` edges: a node that has in-edges, uniformly, and one of its in-edges, uniformly. Where every
      edge is stored both ways, the edge {u, v} has a probability in proportion to ``1 / deg(u) + 1 / deg(v)``, as in the paper.
    - "walk": `size` random walks of `length` steps against the arrows, from nodes drawn uniformly; a walk stays at a dead end.

    All draws are with replacement, and a pure function of (seed, epoch, index of the subgraph, number of the draw): not of the
    partitions. No list of edges is kept: 16 bytes a node for "node", at most 8 for the others.

    Args:
        graph: where the nodes are.
        by: how they are drawn.
        size: how many draws a subgraph takes.
        length: steps of a walk.
        seed: names the stream of random numbers.

    Raises:
        InputError: numbers that cannot be, a graph of several types, or one without what is drawn from.
    """

    def __init__(self, graph: Graph, by: By, *, size: int, length: int = 0, seed: int = 0) -> None:
        assert by in get_args(By)
        if len(graph.schema.nodes) != 1 or len(graph.schema.edges) != 1:
            types, relations = list(graph.schema.nodes), list(graph.schema.edges)
            raise InputError(f"GraphSAINT needs one node type and one relation, this graph has {types} and {relations}")
        if size < 1:
            raise InputError(f"batch_size={size}; draw at least 1 for each subgraph")
        if length < 0:
            raise InputError(f"walk_length={length}; give a number of steps, at least 0")
        (self.node_type,), (self.relation,) = graph.schema.nodes, graph.schema.edges
        self._graph, self._by, self._size, self._seed = graph, by, size, seed
        self._gid, _ = graph.select(None, self.node_type)
        self._ends: Tensor | None = None
        if by != "walk":
            degree = graph.degrees(self.relation, self._gid)
            self._gid, degree = self._gid[degree > 0], degree[degree > 0]
            self._ends = degree.cumsum(0) if by == "node" else None
        if not len(self._gid):
            raise InputError("the graph has no nodes" if by == "walk" else f"there are no edges {self.relation} to draw nodes by")
        self._walker = Walker(graph, [self.relation] * (length if by == "walk" else 1), seed=seed)

    def draw(self, *, epoch: int, index: int) -> Tensor:
        """The nodes of a subgraph, each once, by ascending raw id: gids, int64 ``[n]``."""
        starts = ops.gather_rows(self._gid, self._places(epoch, index))
        walks = self._walker.walk(starts, epoch=epoch, batch=index).staying().gid.numpy()
        gid = torch.from_numpy(np.unique(walks[1:] if self._by == "node" else walks))
        query = RowQuery(table=self.node_type, columns=(RAW_ID,), gid=gid)
        ((raw,),) = self._graph.fetch(FetchRequest(queries=(query,)))
        return ops.gather_rows(gid, torch.from_numpy(np.argsort(raw.numpy())))

    def _places(self, epoch: int, index: int) -> Tensor:
        """Where walks begin: with `_ends`, in proportion to the in-degree; else anywhere, uniformly."""
        key = ops.stream_key(seed=self._seed, epoch=epoch, batch=index, hop=0, relation=("", "saint", ""))
        total = len(self._gid) if self._ends is None else int(self._ends[-1])
        level = ops.fractions(key, torch.from_numpy(np.arange(self._size))).numpy()
        number = np.minimum((level * total).astype(np.int64), total - 1)
        return torch.from_numpy(number if self._ends is None else np.searchsorted(self._ends.numpy(), number, side="right"))
