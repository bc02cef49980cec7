"""The command that divides a graph into partitions on disk."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from halohop.launch import choices, logs, options
from halohop.partitioning.division import TOLERANCE


def partition(
    source: options.Source,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new folder.")],
    parts: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many partitions: at least one per node that will train.",
            show_default="2, or as partitions of another library are",
        ),
    ] = None,
    method: options.PartitionMethod = choices.Method.auto,
    seed: Annotated[int, typer.Option(help="Same seed, same division.")] = 0,
    tolerance: options.Tolerance = TOLERANCE,
    blocks: options.Blocks = None,
    balance_types: options.ByType = False,
    assignment: options.GivenAssignment = None,
    halo: options.Halo = None,
    edge_dir: options.EdgeDir = choices.EdgeDir.into,
    overwrite: options.Overwrite = False,
    undirected: options.Undirected = False,
    normalize: options.Normalize = False,
    task: options.PartitionTask = choices.TaskName.node,
    time_attr: options.TimeAttr = None,
    config: options.Config = None,
) -> None:
    """Divide a graph into partitions on disk, once, for any number of runs.

    $ halohop partition synthetic:small parts --parts 4

    $ halohop partition 'pyg:Coauthor/CS?root=data' parts --parts 2 --normalize

    $ halohop partition 'dgl:products/graph.json' parts

    $ halohop partition synthetic:small parts --parts 4 --tolerance 0.02 --blocks 64
    """
    from halohop.launch import inspect
    from halohop.launch.source import assigned_by, partition_source

    partition_source(
        source,
        out,
        num_parts=parts,
        method=assigned_by(method.value, assignment or ()),
        seed=seed,
        tolerance=tolerance,
        blocks=blocks,
        by_type=balance_types,
        halo=tuple(halo.split(",")) if halo else (),
        edge_dir=edge_dir.value,
        overwrite=overwrite,
        undirected=undirected,
        normalize=normalize,
        task=task.value,
        time_attr=time_attr,
        console=logs.people(),
    )
    Console().print(inspect.render(inspect.summarize(out)))
