"""Finished batches of small graphs in memory, where a batch costs what its records cost."""

from typing import Any

from benchmarks.entries import Benchmark, Comparison, Entry, versus

FANOUT = [10, 10]
BATCH_SIZES = (64, 256)


def small(threads: list[int]) -> Benchmark:
    """A graph of Cora's size."""
    shape = "2,708 nodes, 10,556 edges, 1,433 float32 features: made up, of Cora's size"
    return _small("cora", "Batches of a small graph", shape, threads, {64: 1.0, 256: 1.3})


def computers(threads: list[int]) -> Benchmark:
    """Amazon Computers."""
    shape = "Amazon Computers: 13,752 nodes, 491,722 edges, 767 float32 features"
    return _small("computers", "Batches of Amazon Computers", shape, threads, {64: 1.3, 256: 1.3})


def _small(graph: str, title: str, shape: str, threads: list[int], bars: dict[int, float]) -> Benchmark:
    entries: list[Entry] = []
    comparisons: list[Comparison] = []
    most = max(threads)

    def add(name: str, module: str, size: int, environment: str, **how: Any) -> str:
        name = f"{name}, {size} seeds"
        options = {"fanout": FANOUT, "threads": most, "batch_size": size, "train": False} | how
        entries.append(Entry(name=name, module=module, options=options, threads=most, environment=environment, group=str(size)))
        return name

    for size in BATCH_SIZES:
        default = add("halohop, default", "halohop_small", size, "ours", expand="new", run="auto", workers=None)
        inline = add("halohop, inline", "halohop_small", size, "ours", expand="new", run="inline", workers=0)
        every = add("halohop, inline, expand=all", "halohop_small", size, "ours", expand="all", run="inline", workers=0)
        pyg = add("PyG, inline", "pyg_epoch", size, "pyg", workers=0)
        dgl = add("DGL, int64, inline", "dgl_epoch", size, "dgl", workers=0)
        comparisons += [
            versus(inline, pyg, bars[size]),
            versus(default, inline, 1.0),
            versus(default, pyg, bars[size]),
            versus(every, dgl),
        ]
    return Benchmark(
        title=title,
        graph=graph,
        measure="batches",
        unit=40,
        entries=entries,
        comparisons=comparisons,
        tests=("tests/ops", "tests/sampling", "tests/loading"),
        remarks=[
            f"{shape}. Fanout {FANOUT}; features, labels and ids of every node. halohop and PyG read one `Data` in memory. "
            f"Everything in the trainer's process, {most} intra-op threads, which PyG and DGL use for a batch; by default "
            "halohop takes threads where they were quicker for the first batches. A unit is a short epoch, its start included."
        ],
    )


SMALL = {"small": small, "computers": computers}
