"""`halohop demo`: everything once, small: a synthetic graph, two partitions, two nodes, and a picture at the end."""

from pathlib import Path

from halohop.cores import usable_cores
from halohop.launch.pages.summary import render, summarize
from halohop.launch.processes.starting import Start, fresh
from halohop.launch.runs import runs
from halohop.launch.runs.outcome import Outcome
from halohop.launch.runs.source import partition_source
from halohop.launch.terminal.console import Console
from halohop.recipes.config import TrainConfig

NODES = 2
EPOCHS = 8


def demo(out: Path, *, size: str, console: Console, start: Start = fresh) -> Outcome:
    """Partitions a synthetic graph and trains GraphSAGE on it, each half of the graph on a node of its own.

    Args:
        out: the run folder; an earlier demo in it is replaced.
        size: of the graph, see `halohop.datasets.synthetic`.
        console: where to tell about it.
        start: starts a trainer.
    """
    parts = out / "parts"
    console.print(f"1. Partition a synthetic graph of size {size!r} for {NODES} nodes", style="bold")
    partition_source(f"synthetic:{size}", parts, num_parts=NODES, method="auto", seed=0, overwrite=True, console=console)
    console.print(render(summarize(parts)))
    trainers = 2 if len(usable_cores()) >= 2 * NODES else 1
    console.print(
        f"\n2. Train GraphSAGE on {NODES} nodes x {trainers} trainer{'s' * (trainers > 1)}: "
        "every node holds one partition and asks the other for the rest",
        style="bold",
    )
    config = TrainConfig(parts=str(parts), model="sage", fanout=(10, 5), epochs=EPOCHS, out=str(out), overwrite=True)
    return runs.train_here(config, nodes=NODES, trainers=trainers, console=console, start=start)
