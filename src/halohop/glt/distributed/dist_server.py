"""GLT's servers: each has a partition, makes batches of the whole graph, and answers questions about what it has."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.errors import InputError
from halohop.glt.distributed.dist_context import DistContext, DistRole, process
from halohop.glt.distributed.dist_dataset import DistDataset
from halohop.glt.distributed.dist_options import address_of
from halohop.glt.notes import note
from halohop.glt.typing import EdgeType, NodeType
from halohop.typing import RAW_ID


class DistServer:
    """What can be asked about a server, there or from a client: `request_server(0, DistServer.get_node_feature, None, ids)`.

    Args:
        dataset: its partition; None at a client.
        server: of halohop, or the client's graph.
        part: the partition's number.
    """

    def __init__(self, dataset: DistDataset | None, server: Any = None, part: int = 0) -> None:
        self.dataset, self.server, self.part = dataset, server, part

    @property
    def _graph(self) -> halohop.Graph:
        graph: halohop.Graph = self.server if self.dataset is None else self.server.graph
        return graph

    def get_dataset_meta(self) -> tuple[int, int, list[NodeType] | None, list[EdgeType] | None]:
        """How many partitions there are, which is here, and the types of nodes and edges; None where there is one."""
        schema, several = self._graph.schema, not self._graph.schema.is_homogeneous
        types = (list(schema.nodes), list(schema.edges)) if several else (None, None)
        return self._graph.book.num_parts, self.part, *types

    def get_node_partition_id(self, node_type: NodeType | None, index: Tensor) -> Tensor:
        """The partition of each of some nodes, int64 ``[n]``."""
        return self._graph.owners(index, node_type)

    def get_node_feature(self, node_type: NodeType | None, index: Tensor) -> Tensor:
        """The features of some nodes, wherever they lie, ``[n, ...]``."""
        return self._graph.rows("x", index, node_type=node_type)

    def get_node_label(self, node_type: NodeType | None, index: Tensor) -> Tensor:
        """Their labels."""
        return self._graph.rows("y", index, node_type=node_type)

    def get_tensor_size(self, node_type: NodeType | None) -> torch.Size:
        """The shape of the features that this partition owns."""
        features = self.get_node_feature(node_type, torch.empty(0, dtype=torch.int64))
        return torch.Size([self._graph.book.count(self._graph.schema.node_type(node_type), self.part), *features.shape[1:]])

    def get_edge_index(self, edge_type: EdgeType | None, layout: str = "coo") -> tuple[Tensor, Tensor]:
        """The ends of the edges that this partition owns, int64 ``[n]`` each."""
        if str(layout).lower() != "coo":
            raise InputError(f"layout={layout!r}: servers answer with 'coo'")
        src, _, dst = relation = self._relation(edge_type)
        edges = self._graph.edges(relation, part=self.part)
        (row,), (col,) = (self._graph.fetch_rows(end, [RAW_ID], gid) for end, gid in ((src, edges.src_gid), (dst, edges.dst_gid)))
        return row, col

    def get_edge_size(self, edge_type: EdgeType | None, layout: str = "coo") -> tuple[int, int]:
        """The numbers of nodes at both ends of a relation, in the whole graph."""
        src, _, dst = self._relation(edge_type)
        return self._graph.schema.nodes[src].count, self._graph.schema.nodes[dst].count

    def _relation(self, edge_type: EdgeType | None) -> EdgeType:
        known = list(self._graph.schema.edges)
        if edge_type is None and len(known) > 1:
            raise InputError(f"edge_type=None, but there are {known}; name one")
        return self._graph.schema.relation(known[0] if edge_type is None else edge_type)


QUESTIONS: dict[str, Callable[..., Any]] = {
    name: question for name, question in vars(DistServer).items() if name.startswith("get_")
}
"""All that `request_server` asks, beside torch's about GPUs."""


def init_server(
    num_servers: int,
    server_rank: int,
    dataset: DistDataset,
    master_addr: str,
    master_port: int,
    num_clients: int = 0,
    num_rpc_threads: int = 16,
    request_timeout: float = 180,
    server_group_name: str | None = None,
    is_dynamic: bool = False,
) -> None:
    """Serves a partition from now on. Server 0 listens at the address, where the others and clients find it.

    Clients may read the splits of `dataset`, and files of ids below the folder that HALOHOP_SEEDS names, or where that of the
    partitions lies.

    Args:
        num_clients: how many `wait_and_shutdown_server` waits for; 0: as many as they say themselves.
        request_timeout: seconds to wait for answers of other servers.
        is_dynamic: servers and clients come when they do; otherwise this waits for server 0.

    Raises:
        InputError: a rank that is none.
        ClusterError: two servers have one rank, or there is another number of them, or another data set.
        TransportError: the address is taken, or the master is not reached in time.
    """
    if num_rpc_threads != 16:
        note("num_rpc_threads")
    beside = None if dataset.stored is None else Path(dataset.stored.path).resolve().parent
    splits = {"train": dataset.train_idx, "valid": dataset.val_idx, "test": dataset.test_idx}
    with ExitStack() as undo:
        server = halohop.serve(
            **dataset.held(),
            master=address_of(master_addr, master_port),
            world=halohop.World(rank=server_rank, size=num_servers),
            clients="jobs" if is_dynamic or not num_clients else num_clients,
            seeds=os.environ.get("HALOHOP_SEEDS") or beside,
            splits={name: ids for name, ids in splits.items() if ids is not None},
            limits=halohop.hosts.Limits(call_seconds=request_timeout),
        )
        undo.enter_context(server)
        if not is_dynamic:
            server.meet(deadline=request_timeout)
        undo.pop_all()
    role = DistRole.SERVER, server_group_name or "_default_server", num_servers, server_rank
    process.context = DistContext(*role, num_servers + num_clients, server_rank)
    process.server = DistServer(dataset, server, dataset.partition_idx)


def get_server() -> DistServer | None:
    """What this process answers; None before `init_server`."""
    found: DistServer | None = process.server
    return found


def wait_and_shutdown_server() -> None:
    """Waits until all clients have come and have left, or are lost, and ends the server.

    Raises:
        InputError: the process is no server.
    """
    if process.server is None:
        raise InputError("wait_and_shutdown_server is for servers; call init_server before")
    with process.server.server as server:
        server.wait()
    process.server = None
