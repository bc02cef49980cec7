"""The commands beside partitioning, training and inference: a probe, a monitor, measurements, and a demonstration."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options import parsing, shared
from halohop.launch.terminal.console import Console, echo
from halohop.launch.terminal.group import is_alone


def health(
    addresses: Annotated[str, typer.Argument(metavar="HOST:PORT,...", help="Of servers, as halohop serve says them.")],
    token_file: shared.TokenFile = None,
    encrypt: shared.Encrypt = False,
    seconds: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Until all must have answered.")] = 3.0,
) -> None:
    """Ask servers whether they are there, with the token, as clients do: exit code 0 if all answer, else 1. For probes, and to
    wait for servers that are starting.

    $ halohop health 127.0.0.1:5510 --token-file secret

    $ halohop health 10.0.0.7:5510,10.0.0.8:5510 --seconds 600
    """
    from halohop.net.health import ask_health
    from halohop.transport import load_token

    token, end = load_token(token_file, encrypt=encrypt), time.monotonic() + seconds
    for address in addresses.split(","):
        parts = ask_health(address, token=token, seconds=max(end - time.monotonic(), 0.1))
        echo(f"{address} serves partitions {', '.join(map(str, parts))}")


def top(
    endpoints: Annotated[list[str], typer.Argument(metavar="HOST:PORT...", help="What --metrics said of trainers and servers.")],
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
) -> None:
    """Watch trainers and servers that were started with --metrics: rates, queues, waiting, the latency of every peer.

    $ halohop top :9464 :9465 10.0.0.7:9464
    """
    from halohop.launch.commands.top import top as watch

    watch(endpoints, interval=interval, once=once, console=Console(width=None if sys.stdout.isatty() else 160))


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to measure: sampling, gather or partitioned.")] = "sampling",
    size: Annotated[str, typer.Option(help="Of the synthetic graph: small, medium, products (needs 4 GB).")] = "medium",
    fanout: Annotated[
        str, typer.Option(metavar="N,N,...", help="Neighbours per hop.", callback=parsing.check_numbers)
    ] = "15,10,5",
    threads: Annotated[int | None, typer.Option(min=1, help="Batches in flight.", show_default="a thread per core")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = 20,
) -> None:
    """Measure how fast this machine samples and gathers.

    $ halohop bench sampling --size medium
    """
    from halohop.launch.commands.bench import bench as measure
    from halohop.launch.commands.bench import render

    rows = measure(name, size, fanout=parsing.numbers(fanout) or (), threads=threads, rounds=rounds)
    Console().print(render(rows, title=f"{name}, {size} synthetic graph, fanout {fanout}"))


def compile_kernels(
    into: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where the machine code goes, instead.")] = None,
    cpu: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compile for x86-64-v2, -v3 or -v4, or generic.", show_default="this machine"),
    ] = None,
) -> None:
    """Compile all kernels now, so that no process has to: for an image, or for a folder that hosts share.

    What runs with them needs the same NUMBA_CACHE_DIR and NUMBA_CPU_NAME, which are printed where they are not as they were.

    $ halohop compile

    $ halohop compile --into /opt/kernels --cpu x86-64-v3
    """
    from halohop.launch.commands.compiling import compile_for

    compile_for(into, cpu)


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the run.")] = Path("runs/demo"),
    size: Annotated[str, typer.Option(help="Of the synthetic graph: tiny, small, ...")] = "small",
) -> None:
    """Do everything once, small: partition a synthetic graph, train on two nodes, draw a picture. Takes under two minutes.

    $ halohop demo
    """
    from halohop.launch.commands.demo import demo as show_everything
    from halohop.launch.processes.forking import fork_server
    from halohop.launch.runs.outcome import show

    console = Console()
    with fork_server(alone=is_alone(context)) as start:
        outcome = show_everything(out, size=size, console=console, start=start)
    console.print("\n3. Results", style="bold")
    show(outcome, console)
