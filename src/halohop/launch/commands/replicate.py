"""The command that gives partitions copies of what their batches need most of the others, and its options."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halohop.errors import InputError
from halohop.launch.options import choices, shared
from halohop.launch.options.parsing import check_numbers, check_size, numbers
from halohop.launch.terminal.console import echo

if TYPE_CHECKING:
    from halohop import Frequency
    from halohop.store.schema import Schema

COPIES = "Copies of hot nodes"

MethodOrFrequency = Annotated[
    choices.MethodOrFrequency,
    typer.Option(
        help="metis cuts the fewest edges; kaminpar, ldg and fennel take less memory; auto: metis if installed. frequency: nodes "
        "lie where batches need them, see --fanout, --batch-size, --split and --hotness."
    ),
]

Ratio = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE", rich_help_panel=COPIES, help="Each partition copies so many nodes of others, as a share of its own."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", rich_help_panel=COPIES, callback=check_size, help="Or as many as take so much, such as 4GB."),
]
Fanout = Annotated[
    str,
    typer.Option(
        metavar="N,N,...", rich_help_panel=COPIES, callback=check_numbers, help="Neighbours per hop that training will draw."
    ),
]
BatchSize = Annotated[int, typer.Option(min=1, rich_help_panel=COPIES, help="Seeds of a batch in training.")]
Split = Annotated[
    str,
    typer.Option(
        metavar="SPLIT", rich_help_panel=COPIES, help="What training has for seeds: a split, or with several types TYPE:SPLIT."
    ),
]
Locality = Annotated[choices.Locality, typer.Option(rich_help_panel=COPIES, help="How training will deal its seeds.")]
Hotness = Annotated[
    choices.Hotness, typer.Option(rich_help_panel=COPIES, help="What batches need is computed, tried out, or guessed.")
]
Lists = Annotated[bool, typer.Option("--replica-lists", rich_help_panel=COPIES, help="Copy lists of neighbours, too.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The options of the panel: what training will need, and how much of it is copied; names as on the command line."""

    replica_ratio: float | None
    replica_memory: str | None
    fanout: str
    batch_size: int
    split: str
    locality: choices.Locality
    hotness: choices.Hotness
    replica_lists: bool

    @property
    def are_wanted(self) -> bool:
        """Whether there is to be any copy."""
        return self.replica_ratio is not None or self.replica_memory is not None

    @property
    def frequency(self) -> "Frequency":
        """What divides a graph by how often nodes are needed."""
        from halohop import Frequency

        node_type, _, of_type = self.split.partition(":")
        name, of = (of_type, node_type) if of_type else (self.split, None)
        fanouts = numbers(self.fanout) or ()
        return Frequency(fanouts=fanouts, batch_size=self.batch_size, split=name, node_type=of, method=self.hotness.value)

    def make(self, parts: Path) -> None:
        """Makes the copies of a data set, and says what became of it."""
        from halohop import Replicas, add_replicas
        from halohop.memory import format_size
        from halohop.store.disk import read_manifest

        replicas = Replicas(
            fanouts=numbers(self.fanout) or (),
            batch_size=self.batch_size,
            ratio=self.replica_ratio,
            memory=self.replica_memory,
            seeds=_seeds_of(read_manifest(parts).schema, self.split),
            locality=self.locality.value,
            method=self.hotness.value,
            lists=self.replica_lists,
        )
        for report in add_replicas(parts, replicas):
            echo(
                f"partition {report.part}: {report.rows:,} copies, {format_size(report.bytes)}; remote rows of a batch: "
                f"{report.remote_rows:,.0f}, with the copies {report.remote_rows_left:,.0f}"
            )


def copies_of(given: Mapping[str, Any]) -> Copies:
    """The options of the panel among all those that a command was given."""
    return Copies(**{option.name: given[option.name] for option in fields(Copies)})


def _seeds_of(schema: "Schema", split: str) -> tuple[str, str]:
    """Node type and split of ``TYPE:SPLIT``; without a type that of the only one which has such a split."""
    node_type, _, name = split.rpartition(":")
    able = [node_type] if node_type else [known for known in schema.nodes if name in schema.splits(known)]
    if len(able) != 1:
        raise InputError(
            f"--split {split}: the node types with a split {name!r} are {able}, of {list(schema.nodes)}; name one as TYPE:SPLIT"
        )
    return able[0], name


def replicate(
    parts: shared.PartsFolder,
    replica_ratio: Ratio = None,
    replica_memory: Memory = None,
    fanout: Fanout = "10,5",
    batch_size: BatchSize = 512,
    split: Split = "train",
    locality: Locality = choices.Locality.owner,
    hotness: Hotness = choices.Hotness.vip,
    replica_lists: Lists = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the copies that there are.")] = False,
    config: shared.Config = None,
) -> None:
    """Copy into each partition what its batches need most of the others, so that it need not cross the network.

    $ halohop replicate parts --replica-ratio 0.5 --fanout 15,10,5 --batch-size 1024

    $ halohop replicate parts --remove
    """
    copies = copies_of(locals())
    if remove:
        from halohop import add_replicas

        add_replicas(parts, None)
        echo(f"{parts} has no copies")
        return
    copies.make(parts)
