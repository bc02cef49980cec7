"""Partitions in memory as a holding: what `halohop.open` and `halohop.serve` make of a folder, made of tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

from halohop.cluster.holding import Holding, book_of
from halohop.errors import ClusterError, InputError
from halohop.partitioning.slices.agreement import PartRecord, check_alike, manifest_by_books, manifest_of, record_of
from halohop.partitioning.slices.own_parts import OwnBook, own_part, with_edge_ids
from halohop.partitioning.slices.slices import MemoryPartition
from halohop.store.manifest import Manifest, encode
from halohop.store.part import Part

InMemory = MemoryPartition | Sequence[MemoryPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnParts:
    """Partitions that a process gives, before they are known to fit to those of others.

    Args:
        book: the owners of nodes and edges.
        parts: the arrays, by number.
        records: what the partitions say of themselves, in the same order.
    """

    book: OwnBook
    parts: dict[int, Part]
    records: list[PartRecord]

    @classmethod
    def of(cls, given: InMemory, *, partitions: Sequence[int] | None = None, verify: bool = False) -> "OwnParts":
        """Arrays like those that dividing the whole graph would make.

        Args:
            given: one partition, or several.
            partitions, verify: options of folders.

        Raises:
            InputError: what is given is no partition, something of one cannot be, or two of them do not fit together.
            IdError: an edge names a node that has no owner.
        """
        own = [given] if isinstance(given, MemoryPartition) else list(given) if isinstance(given, Sequence) else []
        if partitions is not None or verify:
            raise InputError("partitions in memory have no files to choose or to verify; leave out `partitions` and `verify`")
        if not own or not all(isinstance(one, MemoryPartition) for one in own):
            raise InputError(
                f"{type(given).__name__} is neither a folder nor a halohop.slices.MemoryPartition nor a list of these; give one"
            )
        parts: dict[int, Part] = {}
        records: list[PartRecord] = []
        for one in sorted(own, key=lambda one: one.part):
            book = OwnBook.of(one)
            if one.part in parts:
                raise InputError(f"partition {one.part} is given twice; give each partition once")
            parts[one.part] = own_part(one, book)
            records.append(record_of(one, book, parts[one.part]))
            check_alike(records[0], records[-1])
        return cls(book=book, parts=parts, records=records)

    def holding(self, records: list[PartRecord] | None = None) -> Holding:
        """The partitions as a part of the whole graph.

        Args:
            records: of all partitions; None where others were not asked. Then either all partitions are here, or the owners of
                edges were given, which say how many edges each partition has.

        Raises:
            InputError: two partitions do not fit together.
            ClusterError: a partition is missing.
        """
        manifest = self._known_here() if records is None else manifest_of(records)
        return Holding(
            manifest=manifest,
            document=encode(manifest),
            book=book_of(manifest),
            parts={index: with_edge_ids(part, manifest.edge_bounds) for index, part in self.parts.items()},
        )

    def _known_here(self) -> Manifest:
        first = self.records[0]
        if len(self.parts) == first.num_parts:
            return manifest_of(self.records)
        known = manifest_by_books(first, self.book)
        if known is None:
            missing = [part for part in range(first.num_parts) if part not in self.parts]
            raise ClusterError(
                f"partitions {missing} of {first.num_parts} are not here, and how many edges they have is not known; give the "
                "owner of all edges, or a `board` where all processes meet"
            )
        return known
