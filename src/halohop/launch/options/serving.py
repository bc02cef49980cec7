"""Options of `halohop serve` that concern its clients."""

from pathlib import Path
from typing import Annotated

import typer

Shares = Annotated[
    str | None,
    typer.Option(
        metavar="K/N,...",
        show_default=False,
        help="Serve every N-th partition from number K on; of several, all of them. Instead of --partitions.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        show_default="where it listens",
        help="What others are to connect to, where it is not what --listen says; port 0 stands for the port of --listen.",
    ),
]
Seeds = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        show_default="none",
        file_okay=False,
        exists=True,
        help="Clients may read ids from the .npy files below it (Graph.seed_file), and from nothing outside of it.",
    ),
]
Tables = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        show_default="none",
        file_okay=False,
        help="Where tables that clients make on disk lie (halohop.DistTensor), and checkpoints of tables; nothing is written "
        "outside of it. Without it tables are kept in memory.",
    ),
]
Threads = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Requests answered at a time, beside those that wait for other servers."),
]
Clients = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        show_default="for ever",
        help="End when N clients have connected, and all have left or are lost (not heard of for a --lease). "
        "halohop train connects once more than it has trainers, to look at the graph.",
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        metavar="S",
        min=0.0,
        help="At SIGTERM, take no new requests, answer what clients have asked for S seconds at most, and exit 0. With 0 the "
        "command ends at once.",
    ),
]
