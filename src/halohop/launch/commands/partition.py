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
from halohop.launch.options.fields import field_option
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console, echo
from halohop.partitioning.assigners.defaults import TOLERANCE
from halohop.recipes.config import TaskName, TrainConfig
from halohop.typing import EdgeDir as EdgeDirection

if TYPE_CHECKING:
    from halohop.launch.commands.planning import Planned
    from halohop.partitioning.assigners.assign import Method


Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="synthetic:SIZE, synthetic-hetero:SIZE, pyg:CLASS/NAME, a .pt file, a graph.toml, a dataset folder, "
        "glt:FOLDER, or dgl:FOLDER/part_config.json.",
    ),
]
FeatureDtype = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        show_default="as in SOURCE",
        help="Store x and edge_attr as float16, bfloat16 or int8; other columns by name: feat=int8.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the partitioned graph in OUT.")]
Tolerance = Annotated[float, typer.Option(min=0.0, help="How far a partition may exceed the mean size, as a share of it.")]
Blocks = Annotated[
    int | None,
    typer.Option(
        "--blocks",
        metavar="N",
        min=0,
        show_default="16, or 64 for 32 or 64 partitions",
        help="Blocks for --locality blocks: a power of two. Only metis makes them. 0 is none.",
    ),
]
BalanceTypes = Annotated[bool, typer.Option("--balance-types", help="Balance each node type separately.")]
GivenAssignment = Annotated[
    list[str] | None,
    typer.Option(
        "--assignment",
        metavar="[TYPE=]FILE",
        show_default=False,
        help="The partition of each node: a .npy file, or a text file with a number per line. Repeat it for each node type, "
        "or give a folder of such files.",
    ),
]
Halo = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        show_default=False,
        help="Node columns, or raw_id, to also store with the edges, for sampling by node times or labor on several hosts.",
    ),
]
WeightSums = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        show_default=False,
        help="Edge weights to store running sums of, for faster sampling. Costs a byte per edge.",
    ),
]
EdgeDir = Annotated[
    EdgeDirection,
    typer.Option(help="Neighbors that can be sampled: sources of edges into a node, or destinations of edges out of it."),
]
BuildMemory = Annotated[
    str | None,
    shared.size_option(
        "Memory limit of the build, such as 4GB. The rest is read and written in pieces.", "half of the free memory"
    ),
]
Worker = Annotated[
    bool, typer.Option("--worker", help="Share the work with all processes that have the same arguments, on any host.")
]
Task = Annotated[TaskName, typer.Option(help="link splits the edges into train, val and test.")]
TimeAttr = Annotated[str | None, field_option(TrainConfig, "time_attr", shared.LINKS).info]


def partition(
    source: Source,
    out: Annotated[str, typer.Argument(metavar="OUT", help="New folder, or a URL with --stage.")],
    parts: Annotated[
        int | None,
        typer.Option(min=1, help="Number of partitions, at least one per training node.", show_default="2, or as in SOURCE"),
    ] = None,
    method: replicate.MethodOrFrequency = "auto",
    seed: Annotated[int, typer.Option(help="Random seed of the partitioning.")] = 0,
    tolerance: Tolerance = TOLERANCE,
    blocks: Blocks = None,
    balance_types: BalanceTypes = False,
    assignment: GivenAssignment = None,
    halo: Halo = None,
    edge_dir: EdgeDir = "in",
    feature_dtype: FeatureDtype = None,
    weight_sums: WeightSums = None,
    memory: BuildMemory = None,
    worker: Worker = False,
    overwrite: Overwrite = False,
    stage: shared.StageFolder = None,
    undirected: shared.Undirected = False,
    normalize: shared.Normalize = False,
    task: Task = "node",
    time_attr: TimeAttr = None,
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
