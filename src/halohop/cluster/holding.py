"""What a process holds of a data set on disk: the manifest, and some partitions, mapped."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from halohop.cluster.replicas import Replicas
from halohop.cluster.router import PartitionOwner
from halohop.cluster.shard import LocalShard
from halohop.errors import InputError
from halohop.files.private import refuse_links
from halohop.files.reading import read_regular
from halohop.memory import available_bytes, parse_size
from halohop.ops import Pool
from halohop.partitioning.book import Book
from halohop.store.disk import held_parts, map_part, map_replica, read_manifest
from halohop.store.given import Given, GivenColumn, part_with, read_given, with_given
from halohop.store.manifest import Manifest, encode, part_folder
from halohop.store.names import MANIFEST
from halohop.store.part import Part
from halohop.store.replica import Replica
from halohop.store.residency import IN_MEMORY, Residency, residency_of
from halohop.tables.owner import Owner
from halohop.telemetry import Counters
from halohop.transport import Identity
from halohop.typing import TableKey

_SHARE = 2  # of the memory that is available, one part of these is for mapped partitions, where a user does not say how much


def book_of(manifest: Manifest) -> Book:
    """Who owns what."""
    return Book(
        nodes=manifest.node_bounds, edges=manifest.edge_bounds, edge_dir=manifest.edge_dir, num_blocks=manifest.num_blocks
    )


def fingerprint(document: bytes) -> str:
    """Of a data set, by the bytes of its `manifest.json`."""
    return hashlib.blake2b(document, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Some partitions of a data set.

    Args:
        manifest: of the whole data set.
        document: the bytes of its `manifest.json`.
        book: who owns what.
        parts: the partitions by number, mapped.
        residency: what of them is in memory.
        replicas: by number, what lies with these of others' rows and lists.
        tables: a folder for tables on disk, and their checkpoints.
        saves_anywhere: whether checkpoints of tables may lie outside of it, as in a process that belongs to the user.
    """

    manifest: Manifest
    document: bytes
    book: Book
    parts: dict[int, Part]
    residency: Residency = IN_MEMORY
    replicas: dict[int, Replica] = field(default_factory=dict)
    tables: Path | None = None
    saves_anywhere: bool = True

    @classmethod
    def of(
        cls,
        path: Path,
        *,
        partitions: Sequence[int] | None = None,
        verify: bool = False,
        memory: str | int | None = None,
        hot_memory: str | int = 0,
    ) -> "Holding":
        """Those found in the folder, or some of them.

        Args:
            path, partitions, verify, memory, hot_memory: as of `halohop.open`.

        Raises:
            DatasetError: the folder is no complete, healthy data set of this version; names the file.
            InputError: partitions that are not here.
        """
        manifest = read_manifest(path)
        found = held_parts(path, manifest)
        chosen = found if partitions is None else tuple(sorted(set(partitions)))
        if absent := sorted(set(chosen) - set(found)):
            raise InputError(f"partitions {absent} are not in {path}, which holds {list(found)}")
        room = available_bytes() // _SHARE if memory is None else parse_size(memory)
        parts = {part: map_part(path, manifest, part, verify=verify) for part in chosen}
        lacking = chosen if len(chosen) < manifest.num_parts else ()  # with all partitions no copy is ever asked
        return cls(
            manifest=manifest,
            document=read_regular(path / MANIFEST),
            book=book_of(manifest),
            parts=parts,
            replicas={part: copied for part in lacking if (copied := map_replica(path, manifest, part))},
            residency=residency_of(parts, room, parse_size(hot_memory)),
        )

    @classmethod
    def to_change(cls, path: Path, change: str) -> "Holding":
        """All partitions of a data set whose files are to be changed.

        Args:
            path: its folder; a partition may be a link to a folder on another disk, and nothing in it may be a link.
            change: what is done, for the error.

        Raises:
            DatasetError: as `of`.
            InputError: a partition is not here, or a symbolic link is in one.
        """
        found = cls.of(path)
        if absent := sorted({*range(found.book.num_parts)} - {*found.parts}):
            raise InputError(f"partitions {absent} are not in {path}; {change} where all partitions are")
        refuse_links(*((path / part_folder(part)).resolve() for part in found.parts))
        return found

    def with_columns(self, columns: Given | None) -> "Holding":
        """The same with columns that a user gives, which look as if they were stored.

        Raises:
            SchemaError, InputError: as of `halohop.store.given.read_given`; or a node or edge of these partitions has no row.
        """
        if columns is None:
            return self
        given = read_given(columns, self.manifest)
        manifest = replace(self.manifest, schema=with_given(self.manifest.schema, given))
        parts = {
            index: part_with(part, given, {table: self.book.offset(table, index) for table in manifest.schema.tables})
            for index, part in self.parts.items()
        }
        replicas = {index: _copies_with(replica, given) for index, replica in self.replicas.items()}
        return replace(self, manifest=manifest, document=encode(manifest), parts=parts, replicas=replicas)

    @property
    def fingerprint(self) -> str:
        """The same on all hosts that hold parts of one data set, and on no others."""
        return fingerprint(self.document)

    @property
    def identity(self) -> Identity:
        """What a server of this shows its clients."""
        return Identity(dataset=self.fingerprint, parts=tuple(self.parts))

    def shard(self, pool: Pool, counters: Counters) -> LocalShard:
        """What answers about these partitions, of which there is at least one."""
        owner = Owner(self.book, self.parts, folder=self.tables, anywhere=self.saves_anywhere, pool=pool)
        return LocalShard(self.parts, book=self.book, pool=pool, counters=counters, residency=self.residency, owner=owner)

    def owner(self, shard: LocalShard, pool: Pool, counters: Counters) -> PartitionOwner:
        """These partitions for a router; `shard` answers about them."""
        schema, book = self.manifest.schema, self.book
        replicas = tuple(Replicas(replica, schema, book, pool, counters) for replica in self.replicas.values())
        return PartitionOwner(shard=shard, parts=tuple(self.parts), replicas=replicas, identities=shard.identities)


def _copies_with(replica: Replica, given: dict[TableKey, dict[str, GivenColumn]]) -> Replica:
    """The copies with those rows of given columns that are here; where one is missing, owners are asked for that column."""
    part = replica.part
    for table, columns in given.items():
        for name, column in columns.items():
            with suppress(InputError):
                part = part_with(part, {table: {name: column}}, dict.fromkeys((*part.nodes, *part.edges), 0))
    return replace(replica, part=part)
