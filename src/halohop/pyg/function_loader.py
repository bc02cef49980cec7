"""`halohop.FunctionLoader`: batches that a function of the user's makes, worked ahead as those of all loaders."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from halohop import ops
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.base import BaseLoader
from halohop.loading.options import LoaderArguments, whole
from halohop.loading.pipeline import Made
from halohop.loading.seeds import Share
from halohop.pyg.draws import Draws
from halohop.pyg.graph import LiveGraph
from halohop.pyg.row_examples import RowExamples, Rows, rows_of
from halohop.pyg.weighing import bytes_of
from halohop.sampling.known_ids import KnownIdsOfThreads
from halohop.typing import EdgeDir, NodeType


class FunctionLoader(BaseLoader):
    """Batches of a function of your own, which asks the graph what it likes: any neighbours, edges and rows, hop after hop.

    The function gets the batch's `Draws` and its seeds, and what it returns is the batch. The loader's threads or processes call
    it ahead of the trainer, so it must not depend on what calls for other batches have done. Then batches are the same for any
    number of partitions, hosts and workers.

    Args:
        data: a PyG `Data` or `HeteroData`, or a graph from `halohop.open`.
        make: called as ``make(draws, seeds)`` for every batch, see `halohop.records.Draws`. It may return anything; with
            run="processes" anything that can be pickled, whose large tensors come in shared memory. Of a graph on a GPU the host
            answers, and what is returned lies on the CPU unless `make` moves it.
        seeds: ids of nodes or edges, or other rows that batches are of: a tensor ``[n, ...]``, of which `make` gets the rows of
            the batch. Or a dict of them, or a pair of a key and one, of which it gets a dict, with every key. Where keys are node
            types or relations, `locality` knows where the rows lie; a tensor alone counts as ids of nodes there.
        batch_size, shuffle, drop_last, world, own_seeds, locality, run, num_workers, ...: as of `halohop.NeighborLoader`.
        seed: of draws and shuffle.
        sampler, generator: as in `torch.utils.data.DataLoader`.
        edge_dir: "in" or "out": the edges by which neighbours are found; None takes what the graph was made for, of PyG's "in".

    Raises:
        InputError: arguments that cannot work; the message names the value and the remedy.

    Example:
        >>> import halohop, torch
        >>> ring = Data(x=torch.eye(4), edge_index=torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]))
        >>> def two_hops(draws, seeds):
        ...     first = draws.neighbors(seeds, 5)
        ...     second = draws.neighbors(first.src.unique(), 5)
        ...     return first, second, draws.rows({"node": (second.src, ["x"])})["node"]["x"]
        >>> first, second, x = next(iter(FunctionLoader(ring, two_hops, torch.tensor([2]))))
        >>> first.src.tolist(), second.src.tolist(), x.tolist()
        ([1], [0], [[1.0, 0.0, 0.0, 0.0]])
    """

    def __init__(
        self,
        data: Data | HeteroData | Graph,
        make: Callable[[Draws, Any], Any],
        seeds: Tensor | tuple[Any, Tensor] | Mapping[Any, Tensor],
        *,
        seed: int | None = None,
        sampler: Any = None,
        generator: Any = None,
        edge_dir: EdgeDir | None = None,
        **kwargs: Unpack[LoaderArguments],
    ) -> None:
        if not callable(make):
            raise InputError(f"make={make!r} is a {type(make).__name__}; give a function of (draws, seeds)")
        ops.warm_up()
        graph = _graph_of(data, edge_dir)
        self._function, self._known_ids = make, KnownIdsOfThreads(graph)
        rows = rows_of(seeds)
        self._examples = RowExamples(rows, lambda: _nodes_of(graph, rows))
        if seed is None:
            seed = 0 if generator is None else int(generator.initial_seed())
        super().__init__(graph, self._examples, seed=whole(seed, "seed"), sampler_of_seeds=sampler, generator=generator, **kwargs)

    def _functions(self) -> tuple[object, ...]:
        return (*super()._functions(), self._function)

    def _made(self, epoch: int, share: Share) -> Made[Any]:
        with self.counters.span("sample"):
            known = self._known_ids.mine()
            draws = Draws(self._graph(), seed=self._seed, epoch=epoch, batch=share.index, known=known)
            value = self._function(draws, self._examples.taken(share.positions))
        return Made(item=value, num_bytes=bytes_of(value))


def _graph_of(data: Any, edge_dir: EdgeDir | None) -> Graph:
    if isinstance(data, Graph):
        data.check_edge_dir(edge_dir)
        return data
    if not isinstance(data, Data | HeteroData):
        raise InputError(f"data is a {type(data).__name__}; give a Data, a HeteroData, or a graph from halohop.open")
    return LiveGraph(data, edge_dir=edge_dir or "in")


def _nodes_of(graph: Graph, rows: Rows) -> tuple[NodeType, Tensor] | None:
    """The node that each row stands for, by gid: itself, or of an edge that whose list it is in."""
    if isinstance(rows, dict):
        if len(rows) != 1:
            return None
        ((key, ids),) = rows.items()
        if isinstance(key, tuple):
            found = graph.edges(key, ids)
            return graph.book.list_type(graph.schema.relation(key)), (found.src_gid, found.dst_gid)[graph.book.list_end]
        return key, graph.locate(ids, key)
    if len(graph.schema.nodes) != 1 or rows.dim() != 1:
        return None
    name = graph.schema.node_type(None)
    return name, graph.locate(rows, name)
