"""Makes the copies of a data set: chooses what each partition copies, writes it, and then the manifest."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from halohop.access.choice import chosen
from halohop.access.copies import Copier
from halohop.access.dealing import Batches
from halohop.access.estimates import Method, estimated
from halohop.access.vip import Probabilities
from halohop.cluster.graph import Graph
from halohop.cluster.holding import Holding
from halohop.errors import InputError
from halohop.files.aside import remove, writing
from halohop.files.whole import whole_folder, write_file
from halohop.loading.seeds import digest
from halohop.partitioning.book import Book
from halohop.sampling.fanouts import Fanouts
from halohop.store.checksums import FileRecord
from halohop.store.draw import Rules
from halohop.store.manifest import HOTNESS_FILE, Manifest, encode, part_folder, structure_file
from halohop.store.names import MANIFEST
from halohop.store.npy import write_array
from halohop.store.replica import REPLICAS, ReplicaRecord
from halohop.store.replica_writer import ReplicaWriter
from halohop.typing import NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What copies may take, in one of two ways; the other is None.

    Args:
        ratio: nodes of all types, as a share of what a partition owns in the mean.
        memory: bytes, in each partition.

    Raises:
        InputError: neither or both are given, or a number that is not positive.
    """

    ratio: float | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        given = [value for value in (self.ratio, self.memory) if value is not None]
        if len(given) != 1 or not given[0] > 0:
            raise InputError(f"give one of ratio and memory, more than 0; got {' and '.join(map(str, given)) or 'none'}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """What a partition has copied.

    Args:
        part: its number.
        rows, bytes: copied nodes, and the size of their files.
        remote_rows: nodes of other partitions that a batch is expected to need; NaN where a user named the copies.
        remote_rows_left: those of them that are not copied.
    """

    part: int
    rows: int
    bytes: int
    remote_rows: float
    remote_rows_left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a partition shall copy.

    Args:
        gids: of the nodes, ascending, int64 ``[n]`` by type.
        remote_rows, remote_rows_left: as of `CopyReport`.
    """

    gids: dict[NodeType, Tensor]
    remote_rows: float = math.nan
    remote_rows_left: float = math.nan


def make_replicas(
    path: Path,
    holding: Holding,
    graph: Graph,
    deals: Sequence[Batches],
    fanouts: Fanouts,
    rules: Rules,
    *,
    room: Room,
    lists: bool,
    method: Method,
    epochs: int,
    seed: int,
    made: Mapping[str, Any],
) -> tuple[CopyReport, ...]:
    """Copies for every partition the hottest nodes of the others; what was copied before is removed at the end.

    With the nodes that it owns each partition has how often they are read (`NodePart.hotness`): the mean of their probabilities
    over the batches of all partitions. The manifest is replaced in one step; a data set that was made before is one without
    copies for the moment in which these files are replaced.

    Args:
        path: of the data set, all of whose partitions are here, as `holding` and `graph`.
        deals: per partition, from which seeds its batches are made.
        fanouts, rules, method, epochs, seed: see `halohop.access.estimates.estimated`.
        room: what the copies may take.
        lists: whether the nodes' lists are copied, too.
        made: what the manifest says of how they were made.

    Raises:
        InputError: rules or a method that do not fit.
        WriteError: the disk is full, or cannot be written.
    """
    copier = Copier(holding, graph)
    cost = {key: copier.cost(key, lists=lists) for key in holding.manifest.schema.nodes}
    reads = {key: torch.zeros(len(values), dtype=torch.float64) for key, values in cost.items()}
    hot: Probabilities = {}

    def hottest(part: int) -> Wanted:
        nonlocal hot
        if not part or deals[part] is not deals[part - 1]:
            hot = estimated(graph, deals[part], fanouts, rules, method=method, epochs=epochs, seed=seed)
        for key, chances in hot.items():
            reads[key] += chances / len(deals)
        return _worth(hot, holding.book, part, cost, room)

    seeds = [digest(*batches.groups) for batches in deals]
    return _make(path, holding, copier, hottest, lists=lists, made=made, inputs=seeds, reads=reads)


def copy_nodes(path: Path, holding: Holding, graph: Graph, wanted: Sequence[Mapping[NodeType, Tensor]]) -> tuple[CopyReport, ...]:
    """Copies for every partition the rows of the nodes that a user names, but for its own; else as `make_replicas`.

    Args:
        path, holding, graph: as of `make_replicas`.
        wanted: per partition, gids by node type, int64 ``[n]``.

    Raises:
        WriteError: the disk is full, or cannot be written.
    """

    def named(part: int) -> Wanted:
        found = {name: wanted[part].get(name, torch.empty(0, dtype=torch.int64)).unique() for name in holding.book.nodes}
        return Wanted(gids={name: gid[graph.owners_of(name, gid) != part] for name, gid in found.items()})

    inputs = [{name: digest(gid) for name, gid in sorted(nodes.items())} for nodes in wanted]
    return _make(path, holding, Copier(holding, graph), named, lists=False, made={"nodes": "given"}, inputs=inputs, reads={})


def _make(
    path: Path,
    holding: Holding,
    copier: Copier,
    wanted: Callable[[int], Wanted],
    *,
    lists: bool,
    made: Mapping[str, Any],
    inputs: Sequence[Any],
    reads: Probabilities,
) -> tuple[CopyReport, ...]:
    """Writes the copies of one partition after another. `inputs` are what `made` does not say; `reads` is read at the end."""
    document = msgspec.json.encode([made, inputs, holding.manifest.stamps], order="sorted")
    name = hashlib.blake2b(document, digest_size=16).hexdigest()
    reports, files = [], dict[str, FileRecord]()
    for part in range(holding.book.num_parts):
        own = wanted(part)
        with whole_folder(path / part_folder(part) / REPLICAS / name, lambda: None, overwrite=True) as folder:
            writer = ReplicaWriter(folder, part, name)
            copier.write(own.gids, writer, part, lists=lists)
        files |= writer.files
        reports.append(
            CopyReport(
                part=part,
                rows=sum(map(len, own.gids.values())),
                bytes=writer.num_bytes,
                remote_rows=own.remote_rows,
                remote_rows_left=own.remote_rows_left,
            )
        )
    record = ReplicaRecord(name=name, lists=lists, made={**made, "report": [asdict(report) for report in reports]})
    _publish(path, holding, record, files, reads)
    return tuple(reports)


def _worth(hot: Probabilities, book: Book, part: int, cost: dict[NodeType, Tensor], room: Room) -> Wanted:
    """The nodes that a partition copies, as many as there is room for."""
    if room.memory is not None:
        gids = chosen(hot, book, part, cost, room.memory)
    else:
        ones = {key: torch.ones_like(values) for key, values in cost.items()}
        gids = chosen(hot, book, part, ones, (room.ratio or 0) * sum(map(len, cost.values())) / book.num_parts)
    remote = sum(float(chances.sum() - chances[slice(*book.bounds(key)[part : part + 2])].sum()) for key, chances in hot.items())
    kept = sum(float(hot[key][gid].sum()) for key, gid in gids.items())
    return Wanted(gids=gids, remote_rows=remote, remote_rows_left=remote - kept)


def _publish(path: Path, holding: Holding, record: ReplicaRecord, files: dict[str, FileRecord], reads: Probabilities) -> None:
    """Gives the data set the copies that were written, and removes those that it had."""
    manifest = _without_copies(holding.manifest)
    if any(file.endswith(f"/{HOTNESS_FILE}.npy") for file in holding.manifest.files):
        _write_manifest(path, manifest)  # those files are written anew
    files = manifest.files | files | _write_reads(path, holding.book, reads)
    _write_manifest(path, replace(manifest, files=files, replicas=record))
    for part in range(manifest.num_parts):
        _remove_others(path / part_folder(part) / REPLICAS, record.name)


def remove_replicas(path: Path, manifest: Manifest) -> None:
    """Takes all copies out of a data set, all of whose partitions are here, and how often nodes are read with them."""
    _write_manifest(path, _without_copies(manifest))
    for part in range(manifest.num_parts):
        _remove_others(path / part_folder(part) / REPLICAS, None)
        for name in manifest.schema.nodes:
            remove(path / structure_file(part, name, HOTNESS_FILE))


def _write_manifest(path: Path, manifest: Manifest) -> None:
    write_file(path / MANIFEST, encode(manifest))


def _without_copies(manifest: Manifest) -> Manifest:
    """What the data set had before anything was copied or computed."""
    reads = {structure_file(part, name, HOTNESS_FILE) for part in range(manifest.num_parts) for name in manifest.schema.nodes}
    own = {file: found for file, found in manifest.files.items() if not _is_copy(file) and file not in reads}
    return replace(manifest, files=own, replicas=None)


def _write_reads(path: Path, book: Book, reads: Probabilities) -> dict[str, FileRecord]:
    """How often nodes are read, with their owners."""
    files = {}
    for name, chances in reads.items():
        for part in range(book.num_parts):
            file = structure_file(part, name, HOTNESS_FILE)
            remove(path / file)
            files[file] = write_array(path / file, chances[book.offset(name, part) :][: book.count(name, part)].float())
    return files


def _is_copy(file: str) -> bool:
    return file.split("/")[1] == REPLICAS


def _remove_others(folder: Path, name: str | None) -> None:
    """Removes copies of other names, which no manifest knows any longer; who has mapped them keeps their pages."""
    with writing(folder):
        for other in [entry for entry in folder.iterdir() if entry.name != name] if folder.is_dir() else []:
            remove(other)
