"""The command that sends a partitioned graph to an object store."""

from typing import Annotated

import typer

from halohop.launch.options import shared
from halohop.launch.terminal import logs
from halohop.launch.terminal.console import echo


def upload(
    parts: shared.PartsFolder,
    url: Annotated[str, typer.Argument(metavar="URL", help="Destination: s3://bucket/parts, gs://..., file:///...")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a partitioned graph at URL.")] = False,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Give up after this long without a complete file.")
    ] = 300.0,
) -> None:
    """Copy a partitioned graph to an object store.

    The manifest is sent last, so URL is not readable before all files are there. If the command is stopped, run it again to
    resume.

    $ halohop upload parts s3://bucket/parts
    """
    from halohop.files import masked
    from halohop.launch.terminal.progress import stages
    from halohop.store.afar.uploading import upload as send

    with stages(logs.people()) as progress:
        send(parts, url, overwrite=overwrite, deadline=deadline, progress=progress)
    echo(f"{parts} is at {masked(url)}")
