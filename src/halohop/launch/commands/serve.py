"""The command that serves partitions to trainers elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options import shared
from halohop.launch.options.fields import field_option
from halohop.launch.terminal import logs
from halohop.recipes.config import TrainConfig

PartsOrUrl = Annotated[str, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph, or its URL with --stage.")]
Partitions = Annotated[
    str | None, typer.Option(metavar="N,N,...", show_default="all in PARTS", help="Serve only these partitions.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TABLE:]NAME=FILE",
        show_default=False,
        help="Add a column from a .npy file. TABLE is a node type, or a relation as src__name__dst. Repeatable; same on all "
        "servers.",
    ),
]
Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on. Other hosts need a token.")]
Peers = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT,...|folder:PATH|dns:NAME:PORT",
        show_default=False,
        help="The other servers, or where to find them: a shared folder, or a DNS name that has all their addresses.",
    ),
]
Lease = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How long to keep the state of a trainer that disconnected.")
]
MetricsAt = Annotated[
    str | None,
    typer.Option(metavar="[HOST]:PORT", show_default="none; HOST is 127.0.0.1", help="Address for Prometheus and halohop top."),
]
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
Cache = Annotated[str, field_option(TrainConfig, "cache", shared.PLACE).info]
Memory = Annotated[str | None, field_option(TrainConfig, "memory", shared.PLACE).info]
HotMemory = Annotated[str | None, field_option(TrainConfig, "hot_memory", shared.PLACE).info]


def serve(
    parts: PartsOrUrl,
    partitions: Partitions = None,
    share: Shares = None,
    column: Columns = None,
    listen: Listen = "127.0.0.1:5510",
    advertise: Advertise = None,
    peers: Peers = "",
    token_file: shared.TokenFile = None,
    encrypt: shared.Encrypt = False,
    stage: shared.StageFolder = None,
    stage_bytes: shared.StageBytes = None,
    lease: Lease = 60.0,
    metrics: MetricsAt = None,
    seeds: Seeds = None,
    tables: Tables = None,
    clients: Clients = None,
    grace: Grace = 0.0,
    threads: Threads = 8,
    cache: Cache = "auto",
    memory: Memory = None,
    hot_memory: HotMemory = None,
    verify: shared.Verify = False,
) -> None:
    """Serve partitions to trainers on other hosts, until Ctrl-C.

    Trainers connect with halohop train HOST:PORT,... or halohop.connect.

    $ halohop serve parts

    $ halohop serve s3://bucket/parts --stage /scratch/stage --share 0/2

    \b
    $ halohop serve parts --partitions 0,1 --token-file secret \\
        --listen 10.0.0.7:5510 --peers 10.0.0.8:5510

    \b
    $ halohop serve parts --share 0/2 --token-file secret \\
        --listen 10.0.0.7:5510 --peers folder:/shared/servers
    """
    from halohop.launch.commands import serving
    from halohop.launch.runs.afar import parts_here
    from halohop.net.finders import named_servers
    from halohop.store.afar.staging import Stage

    place, numbers = Stage.of(stage, stage_bytes), serving.part_numbers(partitions)
    with parts_here(parts, place, console=logs.people(), partitions=numbers, share=share) as found:
        serving.serve(
            Path(found),
            partitions=serving.served_parts(Path(found), partitions, share),
            columns=serving.given_columns(column or ()),
            listen=listen,
            advertise=advertise,
            peers=named_servers(peers),
            token_file=token_file,
            encrypt=encrypt,
            lease=lease,
            metrics=metrics,
            seeds=seeds,
            tables=tables,
            clients=clients,
            grace=grace,
            threads=threads,
            cache=cache,
            memory=memory,
            hot_memory=hot_memory,
            verify=verify,
            console=logs.people(soft_wrap=True),
        )
