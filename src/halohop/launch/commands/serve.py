"""The command that serves partitions to trainers elsewhere."""

from pathlib import Path

from halohop.launch.options import memory as memory_options
from halohop.launch.options import serving as serve_options
from halohop.launch.options import shared
from halohop.launch.options import stage as stage_options
from halohop.launch.terminal import logs


def serve(
    parts: stage_options.PartsOrUrl,
    partitions: shared.ServedParts = None,
    share: serve_options.Shares = None,
    column: shared.GivenColumns = None,
    listen: shared.Listen = "127.0.0.1:5510",
    advertise: serve_options.Advertise = None,
    peers: shared.Peers = "",
    token_file: shared.TokenFile = None,
    encrypt: shared.Encrypt = False,
    stage: stage_options.Folder = None,
    stage_bytes: stage_options.Bytes = None,
    lease: shared.Lease = 60.0,
    metrics: shared.ServerMetricsAt = None,
    seeds: serve_options.Seeds = None,
    tables: serve_options.Tables = None,
    clients: serve_options.Clients = None,
    grace: serve_options.Grace = 0.0,
    threads: serve_options.Threads = 8,
    cache: shared.Cache = "auto",
    memory: memory_options.Memory = None,
    hot_memory: memory_options.HotMemory = None,
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
