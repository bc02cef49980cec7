"""The command that brings partitions from an object store, or a folder, to a folder here."""

from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options import shared
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import echo

FarFolder = Annotated[str, typer.Argument(metavar="URL", help="s3://bucket/parts, gs://..., file:///..., or a folder.")]


def fetch(
    url: FarFolder,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Destination. Complete files in it are not fetched again.")],
    partitions: Annotated[
        str | None, typer.Option(metavar="N,N,...", show_default="all", help="Fetch only these partitions.")
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(metavar="K/N", show_default="all", help="Fetch only every N-th partition, from number K. Several: 0/3,1/3."),
    ] = None,
    verify: shared.Verify = False,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Give up after this long without a byte.")] = 300.0,
) -> None:
    """Copy a partitioned graph, or some of its partitions, from an object store.

    Every file is compared with its checksum. If the command is stopped, run it again to resume.

    $ halohop fetch s3://bucket/parts parts

    $ halohop fetch s3://bucket/parts parts --share 0/4
    """
    from halohop.launch.commands.serving import part_numbers
    from halohop.launch.terminal.progress import stages
    from halohop.store.afar.fetching import fetch as fetch_parts
    from halohop.store.disk import held_parts, read_manifest

    with stages(logs.people()) as progress:
        here = fetch_parts(
            url, folder, partitions=part_numbers(partitions), share=share, verify=verify, deadline=deadline, progress=progress
        )
    held = held_parts(here, read_manifest(here))
    echo(f"{folder} has the partitions {', '.join(map(str, held))}")
