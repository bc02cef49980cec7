"""The command that divides a graph into partitions on disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from halohop.errors import InputError
from halohop.files import is_url, masked
from halohop.launch.commands import replicate
from halohop.launch.commands.replicate import copies_of
from halohop.launch.options import shared
from halohop.launch.options import stage as stage_options
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console, echo
from halohop.partitioning.assigners.defaults import TOLERANCE

if TYPE_CHECKING:
    from halohop.launch.commands.planning import Planned
    from halohop.partitioning.assigners.assign import Method


def partition(
    source: shared.Source,
    out: Annotated[str, typer.Argument(metavar="OUT", help="New folder, or a URL with --stage.")],
    parts: Annotated[
        int | None,
        typer.Option(min=1, help="Number of partitions, at least one per training node.", show_default="2, or as in SOURCE"),
    ] = None,
    method: replicate.MethodOrFrequency = "auto",
    seed: Annotated[int, typer.Option(help="Random seed of the partitioning.")] = 0,
    tolerance: shared.Tolerance = TOLERANCE,
    blocks: shared.Blocks = None,
    balance_types: shared.BalanceTypes = False,
    assignment: shared.GivenAssignment = None,
    halo: shared.Halo = None,
    edge_dir: shared.EdgeDir = "in",
    feature_dtype: shared.FeatureDtype = None,
    weight_sums: shared.WeightSums = None,
    memory: shared.BuildMemory = None,
    worker: shared.Worker = False,
    overwrite: shared.Overwrite = False,
    stage: stage_options.Folder = None,
    undirected: shared.Undirected = False,
    normalize: shared.Normalize = False,
    task: shared.PartitionTask = "node",
    time_attr: shared.TimeAttr = None,
    replica_ratio: replicate.Ratio = None,
    replica_memory: replicate.Memory = None,
    fanout: replicate.Fanout = "10,5",
    batch_size: replicate.BatchSize = 512,
    split: replicate.Split = "train",
    locality: replicate.Locality = "owner",
    hotness: replicate.Hotness = "vip",
    replica_lists: replicate.Lists = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the time, memory and disk space needed. Partition nothing.")
    ] = False,
    config: shared.Config = None,
) -> None:
    """Divide a graph into partitions on disk.

    $ halohop partition synthetic:small parts --parts 4

    $ halohop partition 'pyg:Coauthor/CS?root=data' parts --parts 2 --normalize

    $ halohop partition 'dgl:products/graph.json' parts

    $ halohop partition dataset/ogbn_products parts --parts 8 --memory 4GB

    $ halohop partition dataset/ogbn_products parts --parts 8 --memory 4GB --plan

    $ halohop partition synthetic:small parts --parts 4 --replica-ratio 0.1

    \b
    $ halohop partition dataset/ogbn_products s3://bucket/products \\
        --parts 8 --stage /scratch/stage
    """
    given = locals()
    copies = copies_of(given)
    if worker and copies.are_wanted:
        raise InputError("--worker builds partitions only; leave --replica-ratio and --replica-memory to `halohop replicate`")
    if is_url(out) and not plan:
        _to_url(given)
        return
    folder = (stage or Path()) / "plan" if is_url(out) else Path(out)
    from halohop.launch.commands.planning import check_unread, planned
    from halohop.launch.pages import summary
    from halohop.launch.runs.source import assigned_by, partition_source

    if plan:
        Console().print(planned(_planned(given, folder, assigned_by(method, assignment or ()))))
        return
    if not worker:
        check_unread(_planned(given, folder, "range"))  # by any method they take as much
    by_frequency = method == "frequency" and not assignment
    partition_source(
        source,
        folder,
        num_parts=parts,
        method=copies.frequency if by_frequency else assigned_by(method, assignment or ()),
        check=copies.check if by_frequency or copies.are_wanted else None,
        seed=seed,
        tolerance=tolerance,
        blocks=blocks,
        balance_types=balance_types,
        halo=tuple(halo.split(",")) if halo else (),
        edge_dir=edge_dir,
        feature_dtype=feature_dtype,
        weight_sums=tuple(weight_sums.split(",")) if weight_sums else (),
        memory=memory,
        worker=worker,
        overwrite=overwrite,
        undirected=undirected,
        normalize=normalize,
        task=task,
        time_attr=time_attr,
        console=logs.people(),
    )
    if copies.are_wanted:
        copies.make(folder)
    Console().print(summary.render(summary.summarize(folder)))


def _planned(given: Mapping[str, Any], folder: Path, method: "Method") -> "Planned":
    """What an estimate is made of."""
    from halohop.launch.commands.planning import Planned

    return Planned(
        out=folder,
        num_parts=given["parts"],
        method=method,
        halo=tuple(given["halo"].split(",")) if given["halo"] else (),
        edge_dir=given["edge_dir"],
        weight_sums=tuple(given["weight_sums"].split(",")) if given["weight_sums"] else (),
        **{name: given[name] for name in ("source", "blocks", "feature_dtype", "memory", "undirected", "normalize")},
    )


def _to_url(given: Mapping[str, Any]) -> None:
    """Divides a graph in a folder of this host, and sends the partitions to a URL."""
    from halohop.launch.commands.planning import check_disk
    from halohop.launch.runs.afar import built_and_sent
    from halohop.store.afar.staging import Stage

    if given["worker"]:
        raise InputError("--worker shares a folder that all hosts see; build in one, and send it: `halohop upload FOLDER URL`")
    asked = {
        name: value for name, value in given.items() if name not in ("overwrite", "stage", "memory", "config", "plan", "worker")
    }

    def build(folder: Path) -> None:
        check_disk(_planned(given, folder, "range"))  # by any method they take as much
        partition(**{**given, "out": str(folder), "overwrite": True})

    built_and_sent(
        given["out"], Stage.of(given["stage"]), asked, build, overwrite=given["overwrite"], console=logs.people(soft_wrap=True)
    )
    echo(f"the partitions are at {masked(given['out'])}")
