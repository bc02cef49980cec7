"""The commands beside partitioning, training and inference: a probe, a monitor, measurements, and a demonstration."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from halohop.launch.options import shared
from halohop.launch.options.parsing import numbers
from halohop.launch.terminal.console import Console, echo
from halohop.launch.terminal.group import is_alone


def health(
    addresses: Annotated[str, typer.Argument(metavar="HOST:PORT,...", help="Addresses that halohop serve printed.")],
    token_file: shared.TokenFile = None,
    encrypt: shared.Encrypt = False,
    seconds: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time limit for all answers.")] = 3.0,
) -> None:
    """Check that servers answer.

    The exit code is 0 if all answer, else 1. Use it as a probe, or to wait for servers that are starting.

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
    endpoints: Annotated[
        list[str], typer.Argument(metavar="HOST:PORT...", help="Addresses given to --metrics of trainers and servers.")
    ],
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two readings.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
) -> None:
    """Show live rates, queues and latencies of trainers and servers.

    Start these with --metrics.

    $ halohop top :9464 :9465 10.0.0.7:9464
    """
    from halohop.launch.commands.top import top as watch

    watch(endpoints, interval=interval, once=once, console=Console(width=None if sys.stdout.isatty() else 160))


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="sampling, gather or partitioned.")] = "sampling",
    size: Annotated[str, typer.Option(metavar="NAME", help="Size: tiny, small, medium, or products (4 GiB).")] = "medium",
    fanout: Annotated[str, shared.fanout_option("Neighbors per hop.", True)] = "15,10,5",
    threads: Annotated[int | None, typer.Option(min=1, help="Sampling threads.", show_default="one per core")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Measurements of each variant.")] = 20,
) -> None:
    """Measure the sampling and gathering speed of this machine.

    $ halohop bench sampling --size medium
    """
    from halohop.launch.commands.bench import bench as measure
    from halohop.launch.commands.bench import render

    rows = measure(name, size, fanout=numbers(fanout), threads=threads, rounds=rounds)
    Console().print(render(rows, title=f"{name}, {size} synthetic graph, fanout {fanout}"))


def compile_kernels(
    into: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder for the machine code.")] = None,
    cpu: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="generic, x86-64-v2, x86-64-v3, x86-64-v4, or another LLVM name.", show_default="this machine"
        ),
    ] = None,
) -> None:
    """Compile all kernels ahead of time.

    Use it when you build an image, or to fill a folder that hosts share. Set the printed environment variables in processes
    that use the result.

    $ halohop compile

    $ halohop compile --into /opt/kernels --cpu x86-64-v3
    """
    from halohop.launch.commands.compiling import compile_for

    compile_for(into, cpu)


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the run.")] = Path("runs/demo"),
    size: Annotated[str, typer.Option(metavar="NAME", help="Size: tiny, small, medium, or products.")] = "small",
) -> None:
    """Partition a small graph, train on two simulated nodes, and plot the result.

    This takes a few minutes.

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
