"""What `halohop partition --plan` says: time, memory and disk, before anything is divided."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from halohop.datasets.imports.named import import_owners, is_import
from halohop.datasets.sizing import source_sizes, stored_sizes
from halohop.launch.terminal.wording import format_seconds
from halohop.memory import format_size
from halohop.partitioning.assigners.assign import Method, chosen
from halohop.partitioning.building.narrowing import parse_feature_dtype, stored_shares
from halohop.partitioning.planning.budget import Budget
from halohop.partitioning.planning.estimate import Estimate, PartitionPlan, Rates, disk_bytes, estimate
from halohop.partitioning.planning.rates import measured_rates
from halohop.partitioning.planning.sizes import GraphSizes
from halohop.store.afar.chunks import check_room
from halohop.typing import EdgeDir

_GIVEN = "range"  # what reading an assignment costs about as much as
_PASSES = {
    "read": "the source is written to files",
    "assign": "nodes are assigned",
    "number": "nodes are numbered",
    "count": "edges are counted",
    "move": "rows are moved",
    "sort": "lists are sorted and written",
    "finish": "partitions are measured",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is asked for: the arguments of `halohop.launch.runs.source.partition_source` that matter here."""

    source: str
    out: Path
    num_parts: int | None
    method: Method
    halo: Sequence[str]
    edge_dir: EdgeDir
    weight_sums: Sequence[str]
    blocks: int | None
    feature_dtype: str | None
    memory: str | None
    undirected: bool
    normalize: bool


def planned(wanted: Planned) -> RenderableType:
    """The estimate, for people. Beside the new folder a small graph is divided for a few seconds, and removed.

    Raises:
        InputError, DatasetError: as reading the source, as far as its files' beginnings show it; or the memory is too little.
        WriteError: the disk cannot be written.
    """
    sizes, plan = _plan(wanted)
    rates = measured_rates(wanted.out.resolve().parent, plan.method)
    found = estimate(sizes, plan, rates, Budget.parse(wanted.memory))
    free = shutil.disk_usage(wanted.out.resolve().parent).free
    return rendered(sizes, plan.num_parts, found, free)


def check_disk(wanted: Planned) -> None:
    """Compares the room on the disk with the estimate, before what may take hours.

    Raises:
        WriteError: there is too little.
        InputError, DatasetError: as of `planned`.
    """
    sizes, plan = _plan(wanted)
    any_rates = Rates(read=1, number=1, count=1, move=1, sort=1, finish=1, assign={plan.method: 1})  # of the seconds only
    found = estimate(sizes, plan, any_rates, Budget.parse(wanted.memory))
    check_room(wanted.out.resolve(), found.disk_bytes + found.scratch_bytes)


def check_unread(wanted: Planned) -> None:
    """Compares free disk space with the space that partitions will need, before a source is read.

    If sizes are guessed, half of them count. Nothing is checked if the folder exists or an interrupted run has started it.

    Raises:
        WriteError: there is too little.
        InputError, DatasetError: see `planned`.
    """
    out = wanted.out.resolve()
    begun = any(out.with_name(f"{out.name}{suffix}").exists() for suffix in ("", ".build", ".source"))
    if not begun and stored_sizes(wanted.source) is not None:
        sizes, plan = _plan(wanted)
        check_room(out, disk_bytes(sizes, plan) // (2 if sizes.guessed else 1))


def _plan(wanted: Planned) -> tuple[GraphSizes, PartitionPlan]:
    sizes = source_sizes(wanted.source, undirected=wanted.undirected, normalize=wanted.normalize)
    owners = import_owners(wanted.source) if wanted.num_parts is None and is_import(wanted.source) else None
    kept = owners is not None and wanted.method == "auto"
    method = chosen(wanted.method) if isinstance(wanted.method, str) and not kept else _GIVEN
    plan = PartitionPlan(
        num_parts=wanted.num_parts or (owners.num_parts if owners else 2),
        method=method,
        ordered=method == "range" and isinstance(wanted.method, str) and not kept,
        halo=wanted.halo,
        edge_dir=wanted.edge_dir,
        weight_sums=wanted.weight_sums,
        blocks=wanted.blocks,
        stored=stored_shares(parse_feature_dtype(wanted.feature_dtype) if wanted.feature_dtype else None),
    )
    return sizes, plan


def rendered(sizes: GraphSizes, num_parts: int, found: Estimate, free: int) -> RenderableType:
    """An estimate as a table; `free` are the bytes that the disk has."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), title="Time", title_justify="left", title_style="bold")
    table.add_column("pass")
    table.add_column("about", justify="right")
    for name, seconds in found.seconds.items():
        table.add_row(_PASSES[name], format_seconds(seconds))
    table.add_row("together", format_seconds(found.total_seconds), style="bold")
    needed = found.disk_bytes + found.scratch_bytes
    lines = [
        Text(f"{sizes.num_nodes:,} nodes, {sizes.num_edges:,} edges, {num_parts} partitions"),
        Text(f"memory: at most {format_size(found.peak_bytes)}, of {format_size(found.budget.bytes)} that it may take"),
        Text(
            f"disk: {format_size(found.disk_bytes)} for the partitions"
            + (f", and meanwhile {format_size(found.scratch_bytes)} more" if found.scratch_bytes else "")
            + f"; {format_size(free)} are free"
        ),
    ]
    warnings = [f"{format_size(needed - free)} of disk are missing"] if needed > free else []
    return Group(
        *lines,
        *(Text(warning, style="red") for warning in warnings),
        *(Text(note, style="yellow") for note in found.notes),
        table,
    )
