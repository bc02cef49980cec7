"""The command that divides a graph into partitions on disk."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from halohop.errors import InputError
from halohop.launch.commands import replicate as copies
from halohop.launch.options import choices, shared
from halohop.launch.terminal import logs
from halohop.partitioning.assigners.defaults import TOLERANCE


def partition(
    source: shared.Source,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The new folder.")],
    parts: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many partitions: at least one per node that will train.",
            show_default="2, or as partitions of another library are",
        ),
    ] = None,
    method: copies.MethodOrFrequency = choices.MethodOrFrequency.auto,
    seed: Annotated[int, typer.Option(help="Same seed, same division.")] = 0,
    tolerance: shared.Tolerance = TOLERANCE,
    blocks: shared.Blocks = None,
    balance_types: shared.ByType = False,
    assignment: shared.GivenAssignment = None,
    halo: shared.Halo = None,
    edge_dir: shared.EdgeDir = choices.EdgeDir.into,
    feature_dtype: shared.FeatureDtype = None,
    memory: shared.BuildMemory = None,
    worker: shared.Worker = False,
    overwrite: shared.Overwrite = False,
    undirected: shared.Undirected = False,
    normalize: shared.Normalize = False,
    task: shared.PartitionTask = choices.TaskName.node,
    time_attr: shared.TimeAttr = None,
    replica_ratio: copies.Ratio = None,
    replica_memory: copies.Memory = None,
    fanout: copies.Fanout = "10,5",
    batch_size: copies.BatchSize = 512,
    split: copies.Split = "train",
    locality: copies.Locality = choices.Locality.owner,
    hotness: copies.Hotness = choices.Hotness.vip,
    replica_lists: copies.Lists = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say how long it takes, how much memory and disk, and divide nothing.")
    ] = False,
    config: shared.Config = None,
) -> None:
    """Divide a graph into partitions on disk, once, for any number of runs.

    $ halohop partition synthetic:small parts --parts 4

    $ halohop partition 'pyg:Coauthor/CS?root=data' parts --parts 2 --normalize

    $ halohop partition 'dgl:products/graph.json' parts

    $ halohop partition dataset/ogbn_products parts --parts 8 --memory 4GB

    $ halohop partition dataset/ogbn_products parts --parts 8 --memory 4GB --plan

    $ halohop partition synthetic:small parts --parts 4 --tolerance 0.02 --blocks 64

    $ halohop partition synthetic:small parts --parts 4 --replica-ratio 0.1 --fanout 10,5 --batch-size 512
    """
    if worker and (replica_ratio is not None or replica_memory is not None):
        raise InputError("--worker builds partitions only; leave --replica-ratio and --replica-memory to `halohop replicate`")
    from halohop.launch.pages import summary
    from halohop.launch.runs.source import assigned_by, partition_source

    if plan:
        from halohop.launch.commands.planning import Planned, planned

        wanted = Planned(
            source=source,
            out=out,
            num_parts=parts,
            method=assigned_by(method.value, assignment or ()),
            halo=tuple(halo.split(",")) if halo else (),
            edge_dir=edge_dir.value,
            blocks=blocks,
            feature_dtype=feature_dtype,
            memory=memory,
            undirected=undirected,
            normalize=normalize,
        )
        Console().print(planned(wanted))
        return
    partition_source(
        source,
        out,
        num_parts=parts,
        method=copies.by_frequency(fanout, batch_size=batch_size, split=split, hotness=hotness)
        if method == choices.MethodOrFrequency.frequency and not assignment
        else assigned_by(method.value, assignment or ()),
        seed=seed,
        tolerance=tolerance,
        blocks=blocks,
        by_type=balance_types,
        halo=tuple(halo.split(",")) if halo else (),
        edge_dir=edge_dir.value,
        feature_dtype=feature_dtype,
        memory=memory,
        worker=worker,
        overwrite=overwrite,
        undirected=undirected,
        normalize=normalize,
        task=task.value,
        time_attr=time_attr,
        console=logs.people(),
    )
    if replica_ratio is not None or replica_memory is not None:
        copies.copy_hot_nodes(
            out,
            ratio=replica_ratio,
            memory=replica_memory,
            fanout=fanout,
            batch_size=batch_size,
            split=split,
            locality=locality,
            hotness=hotness,
            lists=replica_lists,
        )
    Console().print(summary.render(summary.summarize(out)))
