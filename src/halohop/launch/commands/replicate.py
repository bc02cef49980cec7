"""The command that gives partitions copies of what their batches need most of the others, and its options."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from halohop.errors import InputError
from halohop.launch.options import shared
from halohop.launch.options.fields import from_fields
from halohop.launch.terminal.console import echo
from halohop.recipes.checks import Count, SizeText
from halohop.recipes.config import Locality

if TYPE_CHECKING:
    from halohop import Replicas
    from halohop.placement import Frequency
    from halohop.store.tables import GraphTables

COPIES = "Replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """Options of what is copied: what training will need, and how much of it.

    Args:
        replica_ratio: Remote nodes to copy, as a share of the nodes of a partition, such as 0.1.
        replica_memory: Memory of each partition for copies, such as 4GiB. Give this or `replica_ratio`.
        fanout: Neighbors per hop in training.
        batch_size: Seeds per batch in training.
        split: Seeds of training: a split, or TYPE:SPLIT for several node types.
        locality: The `locality` of training.
        hotness: Rank nodes by computed access counts, sampled counts, or degree.
        replica_lists: Also copy the in-neighbors of the nodes.
    """

    replica_ratio: float | None = None
    replica_memory: SizeText | None = None
    fanout: tuple[int, ...] = (10, 5)
    batch_size: Count = 512
    split: str = "train"
    locality: Locality = "owner"
    hotness: Literal["vip", "presample", "degree"] = "vip"
    replica_lists: bool = False

    @property
    def are_wanted(self) -> bool:
        """Whether there is to be any copy."""
        return self.replica_ratio is not None or self.replica_memory is not None

    @property
    def frequency(self) -> "Frequency":
        """What divides a graph by how often nodes are needed."""
        from halohop.placement import Frequency

        node_type, _, of_type = self.split.partition(":")
        name, of = (of_type, node_type) if of_type else (self.split, None)
        return Frequency(fanouts=self.fanout, batch_size=self.batch_size, split=name, node_type=of, method=self.hotness)

    def check(self, tables: "GraphTables") -> None:
        """Refuses options that cannot work, before a graph is partitioned.

        Raises:
            InputError: there is no such split, or the options contradict each other.
        """
        masks = {key: [name[:-5] for name in table.columns if name.endswith("_mask")] for key, table in tables.nodes.items()}
        seeds = _seeds_of(masks, self.split)
        if self.are_wanted:
            self._replicas(seeds)

    def make(self, parts: Path) -> None:
        """Makes the copies of a data set, and prints how many."""
        from halohop import add_replicas
        from halohop.memory import format_size
        from halohop.store.disk import read_manifest

        schema = read_manifest(parts).schema
        replicas = self._replicas(_seeds_of({known: schema.splits(known) for known in schema.nodes}, self.split))
        for report in add_replicas(parts, replicas):
            echo(
                f"partition {report.part}: {report.rows:,} copies, {format_size(report.bytes)}; remote rows of a batch: "
                f"{report.remote_rows:,.0f}, with the copies {report.remote_rows_left:,.0f}"
            )

    def _replicas(self, seeds: tuple[str, str]) -> "Replicas":
        from halohop import Replicas

        if (self.replica_ratio is None) == (self.replica_memory is None):
            raise InputError("give one of --replica-ratio and --replica-memory")
        return Replicas(
            fanouts=self.fanout,
            batch_size=self.batch_size,
            ratio=self.replica_ratio,
            memory=self.replica_memory,
            seeds=seeds,
            locality=self.locality,
            method=self.hotness,
            lists=self.replica_lists,
        )


def _seeds_of(splits: Mapping[str, Collection[str]], split: str) -> tuple[str, str]:
    """Node type and split of ``TYPE:SPLIT``; without a type that of the only one which has such a split."""
    node_type, _, name = split.rpartition(":")
    able = [known for known, names in splits.items() if name in names and node_type in ("", known)]
    if len(able) > 1:
        raise InputError(f"--split {split}: several node types have it; use one of {', '.join(f'{one}:{name}' for one in able)}")
    if not able:
        known = ", ".join(f"{key}:{each}" for key, names in splits.items() for each in names)
        raise InputError(f"--split {split}: the graph has no such split; its splits: {known or 'none'}")
    return able[0], name


@from_fields(Copies, panels={"replica_ratio": COPIES})
def replicate(
    parts: shared.PartsFolder,
    settings: dict[str, Any],
    remove: Annotated[bool, typer.Option("--remove", help="Remove existing copies.")] = False,
    config: shared.Config = None,
) -> None:
    """Copy the most used remote nodes into each partition.

    Their features then do not cross the network.

    $ halohop replicate parts --replica-ratio 0.5 --fanout 15,10,5

    $ halohop replicate parts --remove
    """
    if remove:
        from halohop import add_replicas

        add_replicas(parts, None)
        echo(f"{parts} has no copies")
        return
    Copies(**settings).make(parts)
