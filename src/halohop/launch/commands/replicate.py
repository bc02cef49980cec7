"""The command that gives partitions copies of what their batches need most of the others, and its options."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from halohop.errors import InputError
from halohop.launch.options import shared
from halohop.launch.options.parsing import numbers
from halohop.launch.terminal.console import echo
from halohop.recipes import config

if TYPE_CHECKING:
    from halohop import Replicas
    from halohop.placement import Frequency
    from halohop.store.tables import GraphTables

COPIES = "Replicas"
_Hotness = Literal["vip", "presample", "degree"]

MethodOrFrequency = Annotated[
    Literal[shared.Method, "frequency"],
    typer.Option(help="How to assign nodes. auto prefers metis. frequency uses --fanout, --batch-size, --split and --hotness."),
]

Ratio = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", rich_help_panel=COPIES, help="Remote nodes to copy, as a share of the nodes of a partition, such as 0.1."
    ),
]
Memory = Annotated[
    str | None,
    shared.size_option("Memory of each partition for copies, such as 4GB. Give this or --replica-ratio.", True, COPIES),
]
Fanout = Annotated[str, shared.fanout_option("Neighbors per hop in training.", True, COPIES)]
BatchSize = Annotated[int, typer.Option(min=1, rich_help_panel=COPIES, help="Seeds per batch in training.")]
Split = Annotated[
    str,
    typer.Option(
        metavar="SPLIT", rich_help_panel=COPIES, help="Seeds of training: a split, or TYPE:SPLIT for several node types."
    ),
]
Locality = Annotated[config.Locality, typer.Option(rich_help_panel=COPIES, help="The --locality of training.")]
Hotness = Annotated[
    _Hotness, typer.Option(rich_help_panel=COPIES, help="Rank nodes by computed access counts, sampled counts, or degree.")
]
Lists = Annotated[bool, typer.Option("--replica-lists", rich_help_panel=COPIES, help="Also copy the in-neighbors of the nodes.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The options of the panel: what training will need, and how much of it is copied; names as on the command line."""

    replica_ratio: float | None
    replica_memory: str | None
    fanout: str
    batch_size: int
    split: str
    locality: config.Locality
    hotness: _Hotness
    replica_lists: bool

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
        fanouts = numbers(self.fanout)
        return Frequency(fanouts=fanouts, batch_size=self.batch_size, split=name, node_type=of, method=self.hotness)

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
            fanouts=numbers(self.fanout),
            batch_size=self.batch_size,
            ratio=self.replica_ratio,
            memory=self.replica_memory,
            seeds=seeds,
            locality=self.locality,
            method=self.hotness,
            lists=self.replica_lists,
        )


def copies_of(given: Mapping[str, Any]) -> Copies:
    """The options of the panel among all those that a command was given."""
    return Copies(**{option.name: given[option.name] for option in fields(Copies)})


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


def replicate(
    parts: shared.PartsFolder,
    replica_ratio: Ratio = None,
    replica_memory: Memory = None,
    fanout: Fanout = "10,5",
    batch_size: BatchSize = 512,
    split: Split = "train",
    locality: Locality = "owner",
    hotness: Hotness = "vip",
    replica_lists: Lists = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove existing copies.")] = False,
    config: shared.Config = None,
) -> None:
    """Copy the most used remote nodes into each partition.

    Their features then do not cross the network.

    $ halohop replicate parts --replica-ratio 0.5 --fanout 15,10,5

    $ halohop replicate parts --remove
    """
    copies = copies_of(locals())
    if remove:
        from halohop import add_replicas

        add_replicas(parts, None)
        echo(f"{parts} has no copies")
        return
    copies.make(parts)
