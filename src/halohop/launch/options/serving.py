"""Options of `halohop serve` that concern its clients."""

from pathlib import Path
from typing import Annotated

import typer

Shares = Annotated[
    str | None,
    typer.Option(
        metavar="K/N,...",
        show_default=False,
        help="Instead of --partitions, serve every N-th partition, from number K. Several: 0/3,1/3.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        show_default="as --listen",
        help="Address that others connect to, if it is not that of --listen. Port 0 is the port of --listen.",
    ),
]
Seeds = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        show_default="none",
        file_okay=False,
        exists=True,
        help="Folder of .npy files with ids that clients may read.",
    ),
]
Tables = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", show_default="none", file_okay=False, help="Folder for embedding tables on disk, and their checkpoints."
    ),
]
Threads = Annotated[int, typer.Option(metavar="N", min=1, help="Requests to answer at a time.")]
Clients = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        show_default="never end",
        help="End after N clients have connected and all have disconnected. halohop train connects once per trainer, and "
        "once more.",
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0.0,
        help="How long to serve connected clients after SIGTERM, before exit code 0. With 0, end at once.",
    ),
]
