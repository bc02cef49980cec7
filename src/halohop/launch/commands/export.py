"""The command that writes a partitioned graph as the partitions of another library."""

from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options import shared
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import echo


def export(
    parts: shared.PartsFolder,
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder for the DGL partitions.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", show_default="name of PARTS", help="Name of the graph and of the JSON file.")
    ] = None,
) -> None:
    """Write a partitioned graph in DGL's format.

    The result is NAME.json and a folder for each partition.

    $ halohop export parts data --name products
    """
    from halohop.datasets import write_dgl
    from halohop.launch.terminal.progress import stages

    with stages(logs.people()) as progress:
        file = write_dgl(parts, out, name=name, progress=progress)
    echo(f"wrote {file}, for dgl.distributed.load_partition and DistGraph")
