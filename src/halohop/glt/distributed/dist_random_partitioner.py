"""GLT's `DistRandomPartitioner`: several processes divide a graph of which each has a slice."""

from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.errors import InputError
from halohop.glt.distributed.dist_context import required_context
from halohop.glt.distributed.dist_options import address_of
from halohop.glt.notes import note
from halohop.glt.partition.base import by_type, direction
from halohop.typing import EDGE, NODE


class DistRandomPartitioner:
    """Partitions of a graph of which each process has some nodes and edges; they meet at ``master_addr:master_port``.

    Args:
        output_dir: a new folder on a disk that all processes share; one that names another folder there gets its own partition.
        num_nodes: of the whole graph, or by type, as all that follows where there are several types.
        edge_index, edge_ids: the edges of this process, ``[2, n]``, and their numbers among all, int64 ``[n]``, each once.
        node_feat, node_feat_ids: rows of some nodes, and which; every node of the type is with one process.
        edge_feat, edge_feat_ids: rows of the edges above, and which.
        num_parts, current_partition_idx: how many processes, and so partitions, and which this is; by default those of
            `init_worker_group`.
        Others are those of `PartitionerBase`.

    Raises:
        InputError: another strategy, or no context.
    """

    def __init__(
        self,
        output_dir: Any,
        num_nodes: Any,
        edge_index: Any,
        edge_ids: Any,
        node_feat: Any = None,
        node_feat_ids: Any = None,
        edge_feat: Any = None,
        edge_feat_ids: Any = None,
        num_parts: int | None = None,
        current_partition_idx: int | None = None,
        node_feat_dtype: torch.dtype = torch.float32,
        edge_feat_dtype: torch.dtype = torch.float32,
        edge_assign_strategy: str = "by_src",
        chunk_size: int = 10000,
        master_addr: str | None = None,
        master_port: int | None = None,
        num_rpc_threads: int = 16,
    ) -> None:
        for option, changed in (("chunk_size", chunk_size != 10000), ("num_rpc_threads", num_rpc_threads != 16)):
            if changed:
                note(option)
        if num_parts is None or current_partition_idx is None:
            self.world = required_context("DistRandomPartitioner without num_parts and current_partition_idx").world
        else:
            self.world = halohop.World(rank=current_partition_idx, size=num_parts)
        self.num_parts, self.output_dir = self.world.size, output_dir
        self.master, self._edge_dir = address_of(master_addr, master_port), direction(edge_assign_strategy)
        rows, ids = by_type(node_feat, NODE), by_type(node_feat_ids, NODE)
        self._nodes = {}
        for name, count in by_type(num_nodes, NODE).items():
            columns = {"x": torch.as_tensor(rows[name]).to(node_feat_dtype)} if name in rows else {}
            own = torch.as_tensor(ids[name]) if name in rows and name in ids else None
            self._nodes[name] = halohop.slices.NodeSlice(
                owner=halohop.placement.place_at_random(count, self.num_parts), id=own, columns=columns
            )
        rows, given, ids = by_type(edge_feat, EDGE), by_type(edge_feat_ids, EDGE), by_type(edge_ids, EDGE)
        self._edges = {}
        for etype, ends in by_type(edge_index, EDGE).items():
            pair, eids = torch.stack([torch.as_tensor(end) for end in ends]), torch.as_tensor(ids[etype])
            columns = {}
            if etype in rows:
                columns["edge_attr"] = _in_order(rows[etype], given.get(etype, []), eids).to(edge_feat_dtype)
            self._edges[etype] = halohop.slices.EdgeSlice(edge_index=pair, edge_id=eids, columns=columns)

    def partition(self) -> None:
        """Writes the partitions; all processes call it.

        Raises:
            InputError, ClusterError: as of `halohop.slices.partition_slices`.
        """
        halohop.slices.partition_slices(
            self.output_dir,
            self._nodes,
            self._edges,
            num_parts=self.num_parts,
            edge_dir=self._edge_dir,
            world=self.world,
            master=self.master,
        )


def _in_order(rows: Any, given: Any, eids: Tensor) -> Tensor:
    """Rows of edges in the order of the edges.

    Raises:
        InputError: they are not those of these edges.
    """
    ids = torch.as_tensor(given)
    if not torch.equal(ids.sort().values, eids.sort().values):
        raise InputError(f"edge_feat_ids {ids.tolist()[:3]}... are not the edge_ids of this process; give rows of its own edges")
    return torch.as_tensor(rows)[ids.argsort()][eids.argsort().argsort()]
