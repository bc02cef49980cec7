"""Who takes part in training: one plain model for all loaders, and each library's own layers after its own loader."""

from typing import Any

from benchmarks.entries import FANOUT, Benchmark, Comparison, Entry, versus
from benchmarks.layers import KINDS

_NAMES = {"sage": "GraphSAGE", "gcn": "GCN", "gat": "GAT", "rgcn": "R-GCN"}
_NEW = {"run": "threads", "expand": "new", "kind": "sage"}
_TESTS = ("tests/ops", "tests/sampling", "tests/nn")


def epoch(threads: list[int]) -> Benchmark:
    """GraphSAGE of two and three layers, training on the processor."""
    t = max(threads)
    entries, comparisons = [], []
    for fanout in ([15, 10], FANOUT):
        layers = f"{len(fanout)} layers"
        ways = (
            ("halohop, inline", "halohop_epoch", "ours", {"run": "inline", "workers": 0}),
            ("halohop, 1 maker", "halohop_epoch", "ours", {"run": "threads", "workers": 1}),
            ("halohop, threads", "halohop_epoch", "ours", {"run": "threads", "workers": t}),
            ("halohop, processes", "halohop_epoch", "ours", {"run": "processes", "workers": t}),
            ("halohop, threads, expand=new", "halohop_epoch", "ours", {"run": "threads", "workers": t, "expand": "new"}),
            ("DGL, inline", "dgl_epoch", "dgl", {"workers": 0}),
            (f"DGL, {t} workers", "dgl_epoch", "dgl", {"workers": t}),
            ("PyG, inline", "pyg_epoch", "pyg-lib", {"workers": 0}),
            (f"PyG, {t} workers", "pyg_epoch", "pyg-lib", {"workers": t}),
            ("halohop, threads, own layers", "halohop_epoch", "ours", {"run": "threads", "workers": t, "kind": "sage"}),
            ("halohop, threads, own layers, expand=new", "halohop_epoch", "ours", _NEW | {"workers": t}),
            ("DGL, inline, own layers", "dgl_epoch", "dgl", {"workers": 0, "kind": "sage"}),
            ("PyG, inline, own layers", "pyg_epoch", "pyg-lib", {"workers": 0, "kind": "sage"}),
        )
        for name, module, environment, how in ways:
            options = {"fanout": fanout, "threads": t} | how
            name = f"{name}, {layers}"
            entries.append(
                Entry(name=name, module=module, options=options, threads=t, environment=environment, group=layers)  # for memory
            )
        comparisons += [
            versus(f"halohop, {ours}, {layers}", f"{theirs}, {layers}")
            for ours, theirs in (
                ("inline", "DGL, inline"),
                ("threads", "DGL, inline"),
                ("threads", f"DGL, {t} workers"),
                ("threads", "halohop, inline"),
                ("threads", "halohop, 1 maker"),
                ("threads", "halohop, processes"),
                ("threads, expand=new", "PyG, inline"),
                ("threads, expand=new", f"PyG, {t} workers"),
                ("threads, own layers", "DGL, inline, own layers"),
                ("threads, own layers, expand=new", "PyG, inline, own layers"),
            )
        ]
    return Benchmark(
        title="Training epochs",
        graph="products",
        measure="batches",
        unit=6,
        entries=entries,
        comparisons=comparisons,
        tests=_TESTS,
        remarks=[
            f'One GraphSAGE written in plain torch for all, {t} intra-op threads. "data": waiting for the next batch with its '
            'features; "model": forward, backward and step. DGL brings its own, older torch, so compare data with data.',
            "A unit is a short epoch of its own, its start and end included. halohop and DGL expand all nodes so far, PyG new "
            "ones; halohop does the latter where it says so.",
            '"own layers": the `SAGEConv` of each library, with 128 columns between them, where the plain model has 64.',
        ],
    )


def layers(threads: list[int]) -> Benchmark:
    """Batch and step with each library's own layers: GraphSAGE, GCN, GAT and R-GCN of three."""
    t = max(threads)
    entries: list[Entry] = []
    comparisons: list[Comparison] = []

    def add(name: str, module: str, environment: str, kind: str, **how: Any) -> str:
        name = f"{_NAMES[kind]}: {name}"
        options = {"fanout": FANOUT, "threads": t, "kind": kind} | how
        entries.append(Entry(name=name, module=module, options=options, threads=t, environment=environment, group=_NAMES[kind]))
        return name

    for kind in KINDS:
        inline = {"run": "inline", "workers": 0}
        ours = add("halohop, inline", "halohop_epoch", "ours", kind, **inline)
        ahead = add("halohop, threads", "halohop_epoch", "ours", kind, run="threads", workers=t)
        new = add("halohop, inline, expand=new", "halohop_epoch", "ours", kind, expand="new", **inline)
        dgl = add("DGL, inline", "dgl_epoch", "dgl", kind, workers=0)
        pyg = add("PyG, inline", "pyg_epoch", "pyg-lib", kind, workers=0)
        bar = 1.2 if kind == "sage" else 1.0
        comparisons += [versus(ours, dgl, bar), versus(ahead, dgl, bar), versus(new, pyg)]
    return Benchmark(
        title="Training with each library's own layers",
        graph="products",
        measure="batches",
        unit=4,
        entries=entries,
        comparisons=comparisons,
        tests=_TESTS,
        remarks=[
            f"1024 seeds, fanout {FANOUT}, three layers, 128 columns between them, GAT with 4 heads, R-GCN with 8 relations "
            f"and 4 bases (sums); {t} intra-op threads. halohop's and PyG's layers have the same parameters; tests/nn shows that "
            "they give the same rows and gradients. GCN divides by degrees of both ends in each library's own way, and GAT has "
            "edges from a node to itself in halohop and PyG only.",
            "halohop and DGL expand all nodes so far and give each layer the edges of its hop; PyG expands new ones, with "
            "`trim_to_layer`, and halohop does that where it says so.",
        ],
    )
