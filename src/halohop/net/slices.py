"""`halohop.slices.partition_slices`: processes that each have a slice of a graph divide it together."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from halohop.errors import ClusterError, HalohopError, InputError
from halohop.files.aside import remove
from halohop.net.meeting import Meeting, meet
from halohop.partitioning.slices.slice_reader import join_slices
from halohop.partitioning.slices.slice_writer import SliceWriter
from halohop.partitioning.slices.slices import EdgeSlice, NodeSlice
from halohop.store.afar.fetching import fetch
from halohop.store.writer import check_target
from halohop.typing import EdgeDir, NodeType, Relation
from halohop.world import World


def partition_slices(
    out: str | Path,
    nodes: Mapping[NodeType, NodeSlice],
    edges: Mapping[Relation, EdgeSlice],
    *,
    num_parts: int,
    edge_dir: EdgeDir = "in",
    halo: Sequence[str] = (),
    weight_sums: Sequence[str] = (),
    world: World | None = None,
    master: str | None = None,
    deadline: float = 3600.0,
) -> None:
    """Makes partitions of a graph of which each process has some nodes and edges; public as `halohop.slices.partition_slices`.

    All processes call it, and meet. Each writes its slice to a folder beside `out` (`SliceWriter`), the first joins them
    (`join_slices`), and removes them at the end. A process that fails ends all.

    Args:
        out: a new folder, on a disk that all processes share. A process that names another folder than the first one gets the
            manifest and the partition of its rank there.
        nodes: per type the owners of all its nodes, the same in all processes, and rows of some nodes with their ids; a node's
            row comes from one process. All processes name all types.
        edges: per relation some edges with their numbers; each edge comes from one process. All name all relations.
        num_parts, edge_dir, halo, weight_sums: as of `halohop.partition`.
        world: who takes part; None reads torchrun's environment.
        master: ``"HOST:PORT"`` where they meet, as of `halohop.hosts.meet`.
        deadline: seconds to wait while others write, or join.

    Raises:
        InputError: `out` holds something; rows or edges that are missing, come twice, or do not fit.
        ClusterError: another process failed, or did not come in time.

    Example:
        >>> import socket, torch, halohop
        >>> with socket.create_server(("127.0.0.1", 0)) as free:
        ...     port = free.getsockname()[1]
        >>> ids, ring = torch.arange(4), ("node", "to", "node")
        >>> owner = halohop.placement.place_at_random(4, 2)
        >>> nodes = {"node": halohop.slices.NodeSlice(owner=owner, id=ids, columns={"x": ids.float()})}
        >>> edges = {ring: halohop.slices.EdgeSlice(edge_index=torch.stack([ids, (ids + 1) % 4]), edge_id=ids)}
        >>> alone = {"world": halohop.World(), "master": f"127.0.0.1:{port}"}  # under torchrun neither is needed
        >>> partition_slices("parts", nodes, edges, num_parts=2, **alone)
        >>> halohop.describe("parts").parts
        (0, 1)
    """
    world, mine = world or World.from_env(), Path(out).resolve()
    with meet(world=world, master=master) as meeting:
        first = Path(meeting.all_gather(str(mine))[0])
        slices = first.with_name(f"{first.name}.slices")
        owner = {name: own.owner for name, own in nodes.items()}

        def write() -> None:
            check_target(mine, overwrite=False)
            how = {"num_parts": num_parts, "owner": owner, "relations": list(edges), "edge_dir": edge_dir}
            with SliceWriter(slices, writer=world.rank, **how) as writer:  # type: ignore[arg-type]
                _feed(writer, nodes, edges)

        def join() -> None:
            if world.rank == 0:
                join_slices(slices, first, num_writers=world.size, owner=owner, halo=halo, weight_sums=weight_sums)

        def take() -> None:
            if mine != first:
                fetch(first, mine, partitions=[world.rank])

        try:
            for step in (write, join, take):
                _together(meeting, step, deadline)
        finally:
            if world.rank == 0:
                remove(slices)


def _feed(writer: SliceWriter, nodes: Mapping[NodeType, NodeSlice], edges: Mapping[Relation, EdgeSlice]) -> None:
    """
    Raises:
        InputError: rows without ids, and as of `SliceWriter`.
    """
    for name, rows in nodes.items():
        if rows.id is None and rows.columns:
            raise InputError(f"rows of {name!r} have no ids; give NodeSlice(id=...), since a slice may hold any nodes")
        if rows.id is not None:
            writer.add_nodes(name, rows.id, rows.columns, names=rows.names)
    for relation, own in edges.items():
        if own.edge_id is None:
            raise InputError(
                f"edges of {relation} have no numbers; give EdgeSlice(edge_id=...), their numbers in the whole graph"
            )
        writer.add_edges(relation, own.edge_index, own.edge_id, own.columns)


def _together(meeting: Meeting, step: Callable[[], None], deadline: float) -> None:
    """Takes a step, and waits until all have taken it.

    Raises:
        ClusterError: another process could not.
    """
    error: HalohopError | None = None
    try:
        step()
    except HalohopError as failed:
        error = failed  # raised below, when the others know
    errors = meeting.all_gather(None if error is None else str(error), deadline=deadline)
    if error is not None:
        raise error
    for rank, text in enumerate(errors):
        if text is not None:
            raise ClusterError(f"process {rank} of {meeting.world.size} failed: {text}")
