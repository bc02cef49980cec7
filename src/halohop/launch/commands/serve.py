"""The command that serves partitions to trainers elsewhere."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Meta

from halohop.launch.options import shared
from halohop.launch.options.fields import from_fields
from halohop.launch.terminal import logs
from halohop.recipes.checks import Bytes, CacheSize, Count, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `halohop serve`.

    Args:
        partitions: Serve only these partitions. None: all in PARTS.
        share: Instead of `partitions`, serve every N-th partition, from number K. Several: 0/3,1/3.
        column: Add a column from a .npy file. TABLE is a node type, or a relation as src__name__dst. Repeatable; same on all
            servers.
        listen: Address to listen on. Other hosts need a token.
        advertise: Address that others connect to, if it is not that of `listen`. Port 0 is the port of `listen`. None: as
            `listen`.
        peers: The other servers, or where to find them: a shared folder, or a DNS name that has all their addresses.
        lease: How long to keep the state of a trainer that disconnected.
        metrics: Address for Prometheus and `halohop top`. None: none; HOST is 127.0.0.1.
        clients: End after N clients have connected and all have disconnected. `halohop train` connects once per trainer, and once
            more. None: never end.
        grace: How long to serve connected clients after SIGTERM, before exit code 0. With 0, end at once.
        threads: Requests to answer at a time.
        token_file, encrypt, cache, memory, hot_memory: As in `halohop.recipes.config.TrainConfig`.
    """

    partitions: str | None = None
    share: str | None = None
    column: list[str] | None = None
    listen: str = "127.0.0.1:5510"
    advertise: str | None = None
    peers: str | None = None
    token_file: str | None = None
    encrypt: bool = False
    lease: Annotated[float, Meta(ge=0.1)] = 60.0
    metrics: str | None = None
    clients: Count | None = None
    grace: NonNegative = 0.0
    threads: Count = 8
    cache: CacheSize | None = "auto"
    memory: Bytes | None = None
    hot_memory: Bytes | None = None


@from_fields(
    ServeOptions, panels={"cache": shared.PLACE}, before={"clients": ("seeds", "tables"), "cache": ("stage", "stage_bytes")}
)
def serve(
    parts: Annotated[str, typer.Argument(metavar="PARTS", help="Folder of a partitioned graph, or its URL with --stage.")],
    settings: dict[str, Any],
    stage: shared.StageFolder = None,
    stage_bytes: shared.StageBytes = None,
    seeds: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default="none",
            file_okay=False,
            exists=True,
            help="Folder of .npy files with ids that clients may read.",
        ),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default="none",
            file_okay=False,
            help="Folder for embedding tables on disk, and their checkpoints.",
        ),
    ] = None,
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
    from halohop.store.afar.staging import Stage

    options, place = ServeOptions(**settings), Stage.of(stage, stage_bytes)
    numbers = serving.part_numbers(options.partitions)
    with parts_here(parts, place, console=logs.people(), partitions=numbers, share=options.share) as found:
        serving.serve(Path(found), options, seeds=seeds, tables=tables, verify=verify, console=logs.people(soft_wrap=True))
