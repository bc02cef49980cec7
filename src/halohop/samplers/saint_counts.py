"""What GraphSAINT's loaders go through, and how often nodes and edges occur in it, by which losses and sums are normalised."""

import itertools
import logging
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.cluster.graph import Graph
from halohop.errors import DatasetError
from halohop.files.aside import writing
from halohop.files.reading import open_regular
from halohop.files.whole import whole_file
from halohop.loading.examples import Examples
from halohop.loading.pipeline import Made, PrefetchConfig, in_order
from halohop.loading.seeds import Share
from halohop.loading.threads import Threads
from halohop.samplers.saint import RandomNodes
from halohop.sampling.batch import EdgeBlock, NodeBlock, NodeSet
from halohop.sampling.sampler import Sampler
from halohop.store.requests import FetchRequest, RowQuery
from halohop.typing import EDGE_ID

_LOG = logging.getLogger(__name__)
_COUNTING = -1
"""The epoch of the subgraphs that are only counted."""


class SaintDataset(Examples):
    """Subgraphs by number: the nodes of each are drawn when it is its turn."""

    def __init__(self, nodes: RandomNodes, num_steps: int) -> None:
        super().__init__(torch.arange(num_steps))
        self._nodes = nodes

    def seeds(self, epoch: int, share: Share) -> NodeSet:
        gid = self._nodes.draw(epoch=epoch, index=share.index)
        return NodeSet(gid={self._nodes.node_type: gid}, epoch=epoch, index=share.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrences:
    """In how many of some subgraphs each node and edge was; what was in none counts as if it had been in one.

    Args:
        of_nodes: by gid, int32 ``[num_nodes]``.
        of_edges: by the edges' position in the user's list, int32 ``[num_edges]``.
        num_subgraphs: how many subgraphs there were.
    """

    of_nodes: NDArray[np.int32]
    of_edges: NDArray[np.int32]
    num_subgraphs: int

    def node_norm(self, block: NodeBlock) -> Tensor:
        """What the loss of each node counts: one by its expected number in a subgraph and by the number of all nodes, float32; 0
        in empty places."""
        gid = block.gid.numpy()
        norm, known = np.zeros(len(gid), np.float32), gid >= 0
        norm[known] = self.num_subgraphs / np.maximum(self.of_nodes[gid[known]], 1) / len(self.of_nodes)
        return torch.from_numpy(norm)

    def edge_norm(self, block: EdgeBlock, dst_gid: Tensor) -> Tensor:
        """How often each edge's destination occurs for each time that the edge does, float32; 0 in empty places."""
        norm, known = np.zeros(len(block.gid), np.float32), block.gid.numpy() >= 0
        seen = np.maximum(self.of_edges[block.columns[EDGE_ID].numpy()[known]], 1)
        norm[known] = np.maximum(self.of_nodes[dst_gid.numpy()[known]], 1) / seen
        return torch.from_numpy(norm)


def count(
    nodes: RandomNodes, sampler: Sampler, *, coverage: float, config: PrefetchConfig, report: Callable[[float], None]
) -> Occurrences:
    """Draws subgraphs until they have `coverage` nodes for each node of the graph, and counts.

    A function of the graph, the seed and `coverage`. Costs as much as making so many batches, without their features; two numbers
    of 4 bytes a node and an edge are kept.

    Args:
        nodes: draws the nodes of a subgraph.
        sampler: finds the edges among them.
        coverage: how often a node is seen in the mean.
        config: how many are made at a time.
        report: called with the part that is done, 0 to 1.
    """
    graph, dataset = sampler.graph, SaintDataset(nodes, 0)

    def make(index: int) -> Made[tuple[Tensor, Tensor]]:
        batch = sampler.sample(dataset.seeds(_COUNTING, Share(index=index, positions=torch.arange(1))))
        query = RowQuery(table=nodes.relation, columns=(EDGE_ID,), gid=batch.edges[nodes.relation].gid)
        ((edge_id,),) = graph.fetch(FetchRequest(queries=(query,)))
        return Made(item=(batch.nodes[nodes.node_type].gid, edge_id))

    of_nodes = np.zeros(graph.schema.nodes[nodes.node_type].count, np.int32)
    of_edges = np.zeros(graph.schema.edges[nodes.relation].count, np.int32)
    wanted, seen, num_subgraphs = math.ceil(coverage * len(of_nodes)), 0, 0
    with closing(in_order(itertools.count(), Threads(make, max(config.workers, 1)), config)) as subgraphs:
        for gid, edge_id in subgraphs:
            of_nodes[gid.numpy()] += 1  # each is there once
            of_edges[edge_id.numpy()] += 1
            seen, num_subgraphs = seen + len(gid), num_subgraphs + 1
            report(min(seen / wanted, 1.0))
            if seen >= wanted:
                break
    return Occurrences(of_nodes=of_nodes, of_edges=of_edges, num_subgraphs=num_subgraphs)


def save(occurrences: Occurrences, path: Path, graph: Graph, nodes: RandomNodes) -> None:
    """Writes a file that is of use for any partitioning; whole or not at all."""
    gid, _ = graph.select(None, nodes.node_type)
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as stream:
        by_raw = occurrences.of_nodes[gid.numpy()]
        np.savez(stream, of_nodes=by_raw, of_edges=occurrences.of_edges, num_subgraphs=np.array(occurrences.num_subgraphs))


def load(path: Path, graph: Graph, nodes: RandomNodes) -> Occurrences:
    """What `save` wrote.

    Raises:
        DatasetError: the file is damaged, or of another graph.
    """
    gid, _ = graph.select(None, nodes.node_type)
    try:
        with open_regular(path) as stream, np.load(stream, allow_pickle=False) as stored:
            arrays: dict[str, NDArray[Any]] = {name: stored[name] for name in ("of_nodes", "of_edges", "num_subgraphs")}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise DatasetError(f"{path} cannot be read ({type(error).__name__}: {error}); delete it, and it is made anew") from error
    num_edges = graph.schema.edges[nodes.relation].count
    if arrays["of_nodes"].shape != (len(gid),) or arrays["of_edges"].shape != (num_edges,):
        raise DatasetError(f"{path} is of a graph of other size than {len(gid)} nodes and {num_edges} edges; delete it")
    of_nodes = np.empty(len(gid), np.int32)
    of_nodes[gid.numpy()] = arrays["of_nodes"]
    return Occurrences(
        of_nodes=of_nodes, of_edges=arrays["of_edges"].astype(np.int32), num_subgraphs=int(arrays["num_subgraphs"])
    )


def progress_lines(what: str) -> Callable[[float], None]:
    """Logs how much is done, a line for every tenth, at the lowest level that Python shows by default."""
    said = -1

    def report(part: float) -> None:
        nonlocal said
        if int(10 * part) > said:
            said = int(10 * part)
            _LOG.warning("%s: %d %%", what, 10 * said)

    return report
