"""The benchmarks: who takes part in each, and which comparisons are its point.

`expand` says which nodes a hop expands: "all" of them so far (DGL) or the "new" ones only (PyG). A comparison has the same on
both sides. Every contestant has `threads` threads to itself, and uses them as its library does: halohop makes that many batches
at once, DGL and torch share one batch among them.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from benchmarks.entries import FANOUT, Benchmark, Comparison, Entry, versus
from benchmarks.entries import in_threads as _t
from benchmarks.networks import cluster, transport
from benchmarks.small import SMALL
from benchmarks.steps import step, step_typed
from benchmarks.tables import tables
from benchmarks.training import epoch, layers

HETERO_FANOUT = [10, 5]
PARTS = (1, 2, 4, 8)
ALLOCATORS = ("", "jemalloc")
JEMALLOC = (
    "Every contestant runs twice: with the system's allocator, and with jemalloc told to keep memory on large pages, as the "
    "guides of DGL and PyG advise; each allocator's contestants take turns. The bars are those with jemalloc."
)
KEPT = "Results are tensors that the caller may keep; each batch is dropped before the next one is begun."


def sampling(threads: list[int]) -> Benchmark:
    """Subgraphs, relabelled, with edge ids, without rows."""
    return _sampling(threads, rows=False)


def batch(threads: list[int]) -> Benchmark:
    """Subgraphs and the features of their nodes: what a loader does."""
    return _sampling(threads, rows=True)


def _sampling(threads: list[int], *, rows: bool) -> Benchmark:
    def entry(name: str, module: str, count: int, environment: str = "ours", allocator: str = "", **options: Any) -> Entry:
        options |= {"fanout": FANOUT, "threads": count} | ({"rows": True} if rows else {})
        return Entry(
            name=_named(name, allocator, count),
            module=module,
            options=options,
            threads=count,
            environment=environment,
            allocator=allocator,
            group=f"{count} {allocator}",  # each peer holds a graph of its own
        )

    entries: list[Entry] = []
    comparisons: list[Comparison] = []
    for t, allocator in product(threads, ALLOCATORS):
        for expand in ("all", "new"):
            entries.append(entry(f"halohop, expand={expand}", "halohop_sampling", t, "ours", allocator, expand=expand))
        every, new = (entries[number].name for number in (-2, -1))
        for ids in ("int64", "int32"):
            entries.append(entry(f"DGL, {ids}", "dgl_sampling", t, "dgl", allocator, ids=ids))
            comparisons.append(versus(every, entries[-1].name, 8.0 if allocator and not rows else None))
        if not rows:
            entries.append(entry("graphbolt", "graphbolt_sampling", t, "dgl", allocator))
            comparisons.append(versus(every, entries[-1].name))
        entries.append(entry("PyG, expand=new", "pyg_sampling", t, "pyg", allocator))
        comparisons.append(versus(new, entries[-1].name, (8.0 if rows else 15.0) if allocator else None))
    return Benchmark(
        title="Sampling and features" if rows else "Sampling",
        graph="products",
        measure="edges",
        unit=8,
        entries=[*entries, *_limits(threads, "moves" if rows else "lines")],
        comparisons=comparisons,
        remarks=[
            f"1024 seeds, fanout {FANOUT}, without replacement. DGL and graphbolt expand all nodes so far.",
            JEMALLOC,
            KEPT,
        ],
    )


def loader(threads: list[int]) -> Benchmark:
    """Finished batches of each library's own loader: subgraph, features, labels."""
    entries: list[Entry] = []
    comparisons: list[Comparison] = []

    def add(name: str, module: str, t: int, environment: str, allocator: str = "", **how: Any) -> str:
        name, options = _named(name, allocator, t), {"fanout": FANOUT, "threads": t, "train": False} | how
        group = f"{t} {allocator}"  # each peer holds a graph and features of its own
        entries.append(
            Entry(name=name, module=module, options=options, threads=t, environment=environment, allocator=allocator, group=group)
        )
        return name

    for t, allocator in product(threads, ALLOCATORS):
        how = {"run": "inline", "workers": 0} if t == 1 else {"run": "threads", "workers": t}
        every, new = (
            add(f"halohop, expand={expand}", "halohop_epoch", t, "ours", allocator, expand=expand, **how)
            for expand in ("all", "new")
        )
        # Two threads of DGL that share a batch of int32 draw too few edges.
        for ids, workers in (("int64", 0), ("int32", 0)) if t == 1 else (("int64", 0), ("int64", t), ("int32", t)):
            dgl = add(f"DGL, {ids}, {_way(workers)}", "dgl_epoch", t, "dgl", allocator, workers=workers, ids=ids)
            comparisons.append(versus(every, dgl, 3.0 if allocator else None))
        workers = 0 if t == 1 else t
        pyg = add(f"PyG, {_way(workers)}", "pyg_epoch", t, "pyg", allocator, workers=workers)
        comparisons.append(versus(new, pyg, 5.0 if allocator else None))
    return Benchmark(
        title="Finished batches",
        graph="products",
        measure="batches",
        unit=8,
        entries=entries,
        comparisons=comparisons,
        remarks=[
            f"1024 seeds, fanout {FANOUT}, 100 float32 features of every node, labels of the seeds. With two threads halohop "
            "makes two batches at once; its peers share one batch among them, or have two worker processes, which stay between "
            "epochs. A unit is a short epoch, its start and end included.",
            JEMALLOC,
            KEPT,
        ],
    )


def gather(threads: list[int]) -> Benchmark:
    """400-byte rows of a batch's unique nodes."""
    entries, comparisons = [], []
    for t in threads:
        for how in ("halohop fresh", "halohop out", "halohop pool", "torch fresh", "torch out"):
            options = {"fanout": FANOUT, "how": how, "threads": t}
            entries.append(Entry(name=f"{how}, {_t(t)}", module="gather", options=options, threads=t))
        comparisons += [
            versus(f"halohop pool, {_t(t)}", f"torch fresh, {_t(t)}", 4.0),
            versus(f"halohop fresh, {_t(t)}", f"torch fresh, {_t(t)}"),
            versus(f"halohop out, {_t(t)}", f"torch out, {_t(t)}", 1.4),
        ]
        comparisons += [
            Comparison(entry=f"halohop {how}, {_t(t)}", versus=f"limit: {limit}, {_t(t)}", bar=0.8 if limit == "moves" else None)
            for how in ("out", "pool")
            for limit in ("moves", "rows")
        ]
    return Benchmark(
        title="Gather",
        graph="products",
        measure="rows",
        unit=8,
        entries=[*entries, *_limits(threads, "rows", "moves", "copy")],
        comparisons=comparisons,
        remarks=[
            "Rows of 100 float32, those of the unique nodes of sampled batches; the source is the mapped file for all.",
            '"fresh": into a new tensor. "out": into one that is used again. "pool": into one that a pool lends, the way of the '
            "loader: the caller may keep it.",
            KEPT,
        ],
    )


def hetero(threads: list[int]) -> Benchmark:
    """Four node types, four relations and their reverses."""
    entries, comparisons = [], []
    for t in threads:
        options = {"fanout": HETERO_FANOUT, "threads": t, "seed_type": "paper"}
        for expand in ("all", "new"):
            name = f"halohop, expand={expand}, {_t(t)}"
            entries.append(Entry(name=name, module="halohop_sampling", options=options | {"expand": expand}, threads=t))
        name = f"DGL, int64, {_t(t)}"
        entries.append(Entry(name=name, module="dgl_sampling", options=options, threads=t, environment="dgl"))
        comparisons.append(versus(f"halohop, expand=all, {_t(t)}", name))
    return Benchmark(
        title="Heterogeneous sampling",
        graph="mag",
        measure="edges",
        unit=8,
        entries=[*entries, *_limits(threads, "lines")],
        comparisons=comparisons,
        remarks=[f"1024 papers, fanout {HETERO_FANOUT} of each of 8 relations, without replacement.", KEPT],
    )


def options(threads: list[int]) -> Benchmark:
    """Weights, times, subgraphs of their own, and edges as seeds."""
    entries, comparisons = [], []

    def add(name: str, module: str, t: int, environment: str = "ours", **how: Any) -> None:
        how = {"fanout": HETERO_FANOUT, "threads": t} | how
        entries.append(Entry(name=f"{name}, {_t(t)}", module=module, options=how, threads=t, environment=environment))

    for t in threads:
        for kind, rules in _RULES.items():
            add(f"halohop, {kind}", "halohop_sampling", t, expand="all", rules=rules, links=kind == "links")
        for kind, how in {"uniform": {}, "weights": _BY_WEIGHT, "links": {"links": True}}.items():
            add(f"DGL, {kind}", "dgl_sampling", t, "dgl", **how)
            bar = {1: 2.0, 2: 1.2}.get(t) if how == _BY_WEIGHT else None
            comparisons.append(versus(f"halohop, {kind}, {_t(t)}", f"DGL, {kind}, {_t(t)}", bar))
        add("halohop, weights, running sums", "halohop_sampling", t, expand="all", rules=_BY_WEIGHT, sums=True)
        comparisons.append(versus(f"halohop, weights, running sums, {_t(t)}", f"DGL, weights, {_t(t)}", 4.0 if t == 1 else None))
        add("graphbolt, times", "graphbolt_sampling", t, "dgl", time="time")
        add("graphbolt, sorted times", "graphbolt_sampling", t, "dgl", time="arrival")
        comparisons += [versus(f"halohop, {kind}, {_t(t)}", f"graphbolt, {kind}, {_t(t)}") for kind in ("times", "sorted times")]
        for kind, bar in _BESIDE_PYG.items():
            rules = _RULES[kind]
            add(f"halohop, {kind}, expand=new", "halohop_sampling", t, expand="new", rules=rules)
            add(
                f"PyG, {kind}, expand=new",
                "pyg_sampling",
                t,
                "pyg-lib",
                **{key: rules[key] for key in rules if key != "disjoint"},
            )
            comparisons.append(versus(f"halohop, {kind}, expand=new, {_t(t)}", f"PyG, {kind}, expand=new, {_t(t)}", bar))
    return Benchmark(
        title="Sampling options",
        graph="events",
        measure="edges",
        unit=4,
        entries=entries,
        comparisons=comparisons,
        remarks=[
            f"1024 seeds, fanout {HETERO_FANOUT}, without replacement, expanding all nodes so far, or new ones as PyG does. "
            "Weights are of any size up to 1. Half of all edges are early enough; sorted times ascend in every list. Links: 1024 "
            "edges with a negative each.",
            "DGL's own sampler has no times, and neither peer has disjoint subgraphs as such: graphbolt's, with times, are.",
            KEPT,
        ],
    )


_BY_WEIGHT = {"weight": "weight"}
_RULES: dict[str, dict[str, Any]] = {
    "uniform": {},
    "weights": _BY_WEIGHT,
    "disjoint": {"disjoint": True},
    "times": {"disjoint": True, "time": "time"},
    "sorted times": {"disjoint": True, "time": "arrival"},
    "most recent": {"disjoint": True, "time": "arrival", "last": True},
    "links": {},
}
_BESIDE_PYG = {"weights": None, "sorted times": None, "most recent": 3.0}
"""What pyg-lib draws, too, with the bars."""


def partitioned(threads: list[int]) -> Benchmark:
    """The same batches from one partition and from several, all mapped by one process."""
    entries, comparisons = [], []
    for rows in (False, True):
        kind = "batches" if rows else "samples"
        for t in threads:
            for parts in PARTS:
                options = {"fanout": FANOUT, "threads": t, "expand": "new", "rows": rows, "parts": parts}
                name = f"{kind} of {parts}, {_t(t)}"
                entries.append(Entry(name=name, module="halohop_sampling", options=options, threads=t))
                if parts > 1:
                    comparisons.append(versus(name, f"{kind} of 1, {_t(t)}", 1 / 1.3))
    return Benchmark(
        title="Partitions on one host",
        graph="products",
        measure="batches",
        unit=4,
        entries=entries,
        comparisons=comparisons,
        parts=PARTS,
        remarks=[
            "Nodes were divided at random, which cuts the most edges: every hop asks every partition. "
            '"samples" are subgraphs alone, "batches" have features, labels and the user\'s ids. '
            "A bar of 0.77 is an overhead of 1.3.",
            KEPT,
        ],
    )


BENCHMARKS: dict[str, Callable[[list[int]], Benchmark]] = {
    "sampling": sampling,
    "gather": gather,
    "batch": batch,
    "loader": loader,
    "hetero": hetero,
    "options": options,
    "partitioned": partitioned,
    "epoch": epoch,
    "layers": layers,
    "step": step,
    "step_typed": step_typed,
    "transport": transport,
    "cluster": cluster,
    "tables": tables,
    **SMALL,
}


def _limits(threads: list[int], *kinds: str) -> Iterator[Entry]:
    for kind in kinds:
        for t in threads:
            yield Entry(
                name=f"limit: {kind}, {_t(t)}", module="limits", options={"kind": kind, "threads": t}, threads=t, is_limit=True
            )


def _named(name: str, allocator: str, threads: int = 0) -> str:
    return ", ".join([name, *filter(None, [allocator]), *([_t(threads)] if threads else [])])


def _way(workers: int) -> str:
    return f"{workers} workers" if workers else "inline"
