"""The command that divides a graph into partitions on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from halohop.errors import InputError
from halohop.files import is_url, masked
from halohop.launch.commands import replicate
from halohop.launch.options import shared
from halohop.launch.options.fields import from_fields
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import Console, echo
from halohop.partitioning.assigners.defaults import TOLERANCE
from halohop.recipes.checks import Natural, NonNegative, SizeText
from halohop.recipes.config import TaskName
from halohop.typing import EdgeDir

if TYPE_CHECKING:
    from halohop.launch.commands.planning import Planned
    from halohop.partitioning.assigners.assign import Method


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Options of `halohop partition`, by the names of `partition_source`.

    Args:
        seed: Random seed of the partitioning.
        tolerance: How far a partition may exceed the mean size, as a share of it.
        blocks: Blocks for --locality blocks: a power of two. Only metis makes them. 0 is none. None: 16, or 64 for 32 or 64
            partitions.
        balance_types: Balance each node type separately.
        halo: Node columns, or raw_id, to also store with the edges, for sampling by node times or labor on several hosts.
        edge_dir: Neighbors that can be sampled: sources of edges into a node, or destinations of edges out of it.
        feature_dtype: Store x and edge_attr as float16, bfloat16 or int8; other columns by name: feat=int8. None: as in SOURCE.
        weight_sums: Edge weights to store running sums of, for faster sampling. Costs a byte per edge.
        memory: Memory limit of the build, such as 4GiB. The rest is read and written in pieces. None: half of the free memory.
        worker: Share the work with all processes that have the same arguments, on any host.
        overwrite: Replace the partitioned graph in OUT.
        undirected: Add the missing reverse of each edge.
        normalize: Divide the features of each node by their sum.
        task: link splits the edges into train, val and test.
        time_attr: As in `halohop.recipes.config.TrainConfig`.
    """

    seed: int = 0
    tolerance: NonNegative = TOLERANCE
    blocks: Natural | None = None
    balance_types: bool = False
    halo: tuple[str, ...] = ()
    edge_dir: EdgeDir = "in"
    feature_dtype: str | None = None
    weight_sums: tuple[str, ...] = ()
    memory: SizeText | None = None
    worker: bool = False
    overwrite: bool = False
    undirected: bool = False
    normalize: bool = False
    task: TaskName = "node"
    time_attr: str | None = None


@from_fields(replicate.Copies, panels={"replica_ratio": replicate.COPIES}, into="replicas")
@from_fields(
    BuildOptions,
    panels={"time_attr": shared.LINKS},
    before={"seed": ("parts", "method"), "halo": ("assignment",), "undirected": ("stage",)},
)
def partition(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="synthetic:SIZE, synthetic-hetero:SIZE, pyg:CLASS/NAME, a .pt file, a graph.toml, a dataset folder, "
            "glt:FOLDER, or dgl:FOLDER/part_config.json.",
        ),
    ],
    out: Annotated[str, typer.Argument(metavar="OUT", help="New folder, or a URL with --stage.")],
    settings: dict[str, Any],
    replicas: dict[str, Any],
    parts: Annotated[
        int | None,
        typer.Option(min=1, help="Number of partitions, at least one per training node.", show_default="2, or as in SOURCE"),
    ] = None,
    method: Annotated[
        Literal[shared.Method, "frequency"],
        typer.Option(
            help="How to assign nodes. auto prefers metis. frequency uses --fanout, --batch-size, --split and --hotness."
        ),
    ] = "auto",
    assignment: Annotated[
        list[str] | None,
        typer.Option(
            "--assignment",
            metavar="[TYPE=]FILE",
            show_default=False,
            help="The partition of each node: a .npy file, or a text file with a number per line. Repeat it for each node type, "
            "or give a folder of such files.",
        ),
    ] = None,
    stage: shared.StageFolder = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the time, memory and disk space needed. Partition nothing.")
    ] = False,
    config: shared.Config = None,
) -> None:
    """Divide a graph into partitions on disk.

    $ halohop partition synthetic:small parts --parts 4

    $ halohop partition 'pyg:Coauthor/CS?root=data' parts --parts 2 --normalize

    $ halohop partition 'dgl:products/graph.json' parts

    $ halohop partition dataset/ogbn_products parts --parts 8 --memory 4GiB

    $ halohop partition dataset/ogbn_products parts --parts 8 --memory 4GiB --plan

    $ halohop partition synthetic:small parts --parts 4 --replica-ratio 0.1

    \b
    $ halohop partition dataset/ogbn_products s3://bucket/products \\
        --parts 8 --stage /scratch/stage
    """
    copies = replicate.Copies(**replicas)
    if settings["worker"] and copies.are_wanted:
        raise InputError("--worker builds partitions only; leave --replica-ratio and --replica-memory to `halohop replicate`")
    given = {"source": source, "parts": parts, "method": method, "assignment": assignment or (), **settings}
    if plan:
        from halohop.launch.commands.planning import planned
        from halohop.launch.runs.source import assigned_by

        folder = (stage or Path()) / "plan" if is_url(out) else Path(out)
        Console().print(planned(_planned(given, folder, assigned_by(method, given["assignment"]))))
    elif is_url(out):
        _to_url(out, stage, given, copies)
    else:
        _build(Path(out), given, copies)


def _build(folder: Path, given: Mapping[str, Any], copies: replicate.Copies) -> None:
    """Divides a graph in a folder of this host, and shows the partitions."""
    from halohop.launch.commands.planning import check_unread
    from halohop.launch.pages import summary
    from halohop.launch.runs.source import assigned_by, partition_source

    if not given["worker"]:
        check_unread(_planned(given, folder, "range"))  # by any method they take as much
    by_frequency = given["method"] == "frequency" and not given["assignment"]
    partition_source(
        given["source"],
        folder,
        num_parts=given["parts"],
        method=copies.frequency if by_frequency else assigned_by(given["method"], given["assignment"]),
        check=copies.check if by_frequency or copies.are_wanted else None,
        console=logs.people(),
        **{name: given[name] for name in BuildOptions.__dataclass_fields__},
    )
    if copies.are_wanted:
        copies.make(folder)
    Console().print(summary.render(summary.summarize(folder)))


def _planned(given: Mapping[str, Any], folder: Path, method: "Method") -> "Planned":
    """What an estimate is made of."""
    from halohop.launch.commands.planning import Planned

    names = ("source", "halo", "edge_dir", "weight_sums", "blocks", "feature_dtype", "memory", "undirected", "normalize")
    return Planned(out=folder, num_parts=given["parts"], method=method, **{name: given[name] for name in names})


def _to_url(url: str, stage: Path | None, given: Mapping[str, Any], copies: replicate.Copies) -> None:
    """Divides a graph in a folder of this host, and sends the partitions to a URL."""
    from halohop.launch.commands.planning import check_disk
    from halohop.launch.runs.afar import built_and_sent
    from halohop.store.afar.staging import Stage

    if given["worker"]:
        raise InputError("--worker shares a folder that all hosts see; build in one, and send it: `halohop upload FOLDER URL`")
    asked = {name: value for name, value in given.items() if name not in ("overwrite", "memory", "worker")} | {"copies": copies}

    def build(folder: Path) -> None:
        check_disk(_planned(given, folder, "range"))  # by any method they take as much
        _build(folder, {**given, "overwrite": True}, copies)

    built_and_sent(url, Stage.of(stage), asked, build, overwrite=given["overwrite"], console=logs.people(soft_wrap=True))
    echo(f"the partitions are at {masked(url)}")
