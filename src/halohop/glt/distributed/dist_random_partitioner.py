"""GLT's `DistRandomPartitioner`: several processes divide a graph of which each has a slice."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import halohop
from halohop.errors import ClusterError, HalohopError, InputError
from halohop.files import remove
from halohop.glt.distributed.dist_context import required_context
from halohop.glt.distributed.dist_options import address_of
from halohop.glt.notes import note
from halohop.glt.partition.base import DIRECTIONS, by_type
from halohop.typing import EDGE, NODE

_PATIENCE = 3600.0  # seconds that a process waits while others write their slices, or join them


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
        if edge_assign_strategy not in DIRECTIONS:
            raise InputError(f"edge_assign_strategy={edge_assign_strategy!r} is none of {list(DIRECTIONS)}")
        for name, given in (("chunk_size", chunk_size != 10000), ("num_rpc_threads", num_rpc_threads != 16)):
            if given:
                note(name)
        if num_parts is None or current_partition_idx is None:
            self.world = required_context("DistRandomPartitioner without num_parts and current_partition_idx").world
        else:
            self.world = halohop.World(rank=current_partition_idx, size=num_parts)
        self.num_parts, self.output_dir = self.world.size, Path(output_dir).resolve()
        self.edge_dir, self.master = DIRECTIONS[edge_assign_strategy], address_of(master_addr, master_port)
        self.num_nodes = by_type(num_nodes, NODE)
        self._ends, self._ids = by_type(edge_index, EDGE), by_type(edge_ids, EDGE)
        self._rows = by_type(node_feat, NODE), by_type(node_feat_ids, NODE), node_feat_dtype
        self._edge_rows = by_type(edge_feat, EDGE), by_type(edge_feat_ids, EDGE), edge_feat_dtype

    def partition(self) -> None:
        """Writes the partitions; all processes call it.

        Raises:
            InputError: `output_dir` holds something; rows or edges that are missing, come twice, or do not fit.
            ClusterError: another process failed, or did not come in time.
        """
        with halohop.meet(world=self.world, master=self.master, deadline=180) as meeting:
            (first, seed), *_ = meeting.all_gather([str(self.output_dir), torch.initial_seed()])
            owner = {name: halohop.place_at_random(count, self.num_parts, seed=seed) for name, count in self.num_nodes.items()}
            for step in (self._write, self._join, self._take):
                error: HalohopError | None = None
                try:
                    step(Path(first), owner)
                except HalohopError as failed:
                    error = failed  # the others wait for this process: they end with it
                errors = meeting.all_gather(str(error or ""), deadline=_PATIENCE)
                if any(errors) and self.world.rank == 0:
                    remove(_slices(Path(first)))
                if error is not None:
                    raise error
                for rank, text in enumerate(errors):
                    if text:
                        raise ClusterError(f"process {rank} of {self.num_parts} failed: {text}")

    def _write(self, first: Path, owner: dict[str, Tensor]) -> None:
        """Writes what this process has, for all to see."""
        if self.output_dir.is_dir() and any(self.output_dir.iterdir()):
            raise InputError(f"{self.output_dir} is not empty; delete it, or name a new output_dir")
        how: dict[str, Any] = {"num_parts": self.num_parts, "owner": owner, "edge_dir": self.edge_dir}
        with halohop.SliceWriter(_slices(first), writer=self.world.rank, relations=list(self._ends), **how) as writer:
            for name in self._rows[0]:
                ids, rows = _given(name, *self._rows)
                writer.add_nodes(name, ids, {"x": rows})
            for etype, ends in self._ends.items():
                ids, columns = torch.as_tensor(self._ids[etype]), {}
                if etype in self._edge_rows[0]:
                    places, order = ids.sort()
                    named, rows = _given(etype, *self._edge_rows)
                    if not torch.equal(named.sort().values, places):
                        raise InputError(
                            f"edge_feat_ids of {etype} are not the edge_ids of this process; give rows of its own edges"
                        )
                    columns["edge_attr"] = torch.empty_like(rows).index_copy_(0, order, rows[named.argsort()])
                writer.add_edges(etype, torch.stack([torch.as_tensor(end) for end in ends]), ids, columns)

    def _join(self, first: Path, owner: dict[str, Tensor]) -> None:
        """Makes the partitions, in the first process."""
        if self.world.rank == 0:
            halohop.join_slices(_slices(first), first, num_writers=self.num_parts, owner=owner)
            remove(_slices(first))

    def _take(self, first: Path, owner: dict[str, Tensor]) -> None:
        """Copies the own partition to a folder of its own."""
        if self.output_dir != first:
            halohop.fetch(first, self.output_dir, partitions=[self.world.rank])


def _slices(first: Path) -> Path:
    """Where all processes write."""
    return first.with_name(f"{first.name}.slices")


def _given(name: Any, rows: dict[Any, Any], ids: dict[Any, Any], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The ids of a type whose rows are here, and these.

    Raises:
        InputError: there are no ids.
    """
    if ids.get(name) is None:
        raise InputError(f"there are features of {name!r} without ids; give node_feat_ids, edge_feat_ids with them")
    return torch.as_tensor(ids[name]), torch.as_tensor(rows[name]).to(dtype)
