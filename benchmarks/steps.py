"""Who takes part in a training step: PyG's models as users write them, with and without one line, and DGL's own layers."""

from typing import Any

from benchmarks.entries import FANOUT, Benchmark, Comparison, Entry, versus

_MODELS = ("GraphSAGE", "GCN", "GIN", "GAT")
_LAYERS = {"SAGEConv": "sage", "GCNConv": "gcn", "GINConv": "gin", "GATConv": "gat", "GraphConv": ""}
"""PyG's layers, and the names of DGL's that do the same."""
_TYPED = ("to_hetero(GraphSAGE)", "HeteroConv(SAGEConv)", "HGTConv")
_WAYS = {"import": "plain", "one line": "seeds", "counts": "counts"}
_REMARKS = [
    "Forward, backward and a step of Adam; batches are made between the steps and not measured.",
    '"import": `model(batch.x, batch.edge_index)` with halohop\'s loader and nothing else. "one line": the same after '
    '`fuse(model, rows="seeds")`. "counts": `fuse(model)`, and the two counts of the hops in the call, by which PyG trims. '
    '"PyG": its own loader and the same call.',
]


def step(threads: list[int]) -> Benchmark:
    """Models of three layers on products' shape."""
    t = max(threads)
    entries: list[Entry] = []
    comparisons: list[Comparison] = []

    def add(group: str, name: str, module: str = "pyg_step", environment: str = "ours", **how: Any) -> str:
        entries.append(_entry(f"{group}: {name}", group, module, environment, {"fanout": FANOUT, "threads": t} | how))
        return entries[-1].name

    for kind in (*_MODELS, *_LAYERS):
        ours = {name: add(kind, f"halohop, {name}", kind=kind, way=way) for name, way in _WAYS.items() if _has(kind, way)}
        pyg = add(kind, "PyG", environment="pyg", kind=kind, way="plain", loader="pyg")
        comparisons.append(versus(ours["one line"], pyg, 18.0 if kind == "GraphSAGE" else None))
        comparisons.append(versus(ours["one line"], ours["import"]))
        if "counts" in ours:
            comparisons.append(versus(ours["one line"], ours["counts"]))
        if dgl := _LAYERS.get(kind):
            theirs = add(kind, "DGL", "dgl_epoch", "dgl", workers=0, kind=dgl, step_only=True)
            comparisons.append(Comparison(entry=ours["one line"], versus=theirs, bar={"sage": 2.0}.get(dgl), other_batches=True))
    return Benchmark(
        title="A training step in one line",
        graph="products",
        measure="batches",
        unit=1,
        entries=entries,
        comparisons=comparisons,
        tests=("tests/nn", "tests/ops"),
        remarks=[
            f"1024 seeds, fanout {FANOUT}, 100 features, 128 columns between the layers, GAT with 4 heads; {t} intra-op threads. "
            "`GraphSAGE`, `GCN`, `GIN` and `GAT` are PyG's models; the names of layers are modules with three of them in a list. "
            "DGL's batches expand all nodes so far, PyG's and halohop's new ones. DGL brings its own, older torch.",
            *_REMARKS,
        ],
    )


def step_typed(threads: list[int]) -> Benchmark:
    """Models of two layers over eight relations."""
    t = max(threads)
    entries: list[Entry] = []
    comparisons: list[Comparison] = []
    for kind in _TYPED:
        options = {"fanout": [10, 5], "threads": t, "kind": kind}
        for name, environment, how in (
            ("halohop, import", "ours", {"way": "plain"}),
            ("halohop, one line", "ours", {"way": "seeds"}),
            ("PyG", "pyg", {"way": "plain", "loader": "pyg"}),
        ):
            entries.append(_entry(f"{kind}: {name}", kind, "pyg_step", environment, options | how))
        comparisons += [versus(f"{kind}: halohop, one line", f"{kind}: {peer}") for peer in ("PyG", "halohop, import")]
    return Benchmark(
        title="A training step of typed models in one line",
        graph="mag",
        measure="batches",
        unit=1,
        entries=entries,
        comparisons=comparisons,
        tests=("tests/nn", "tests/ops"),
        remarks=[
            f"1024 papers, fanout [10, 5] of each of 8 relations, 128 columns between the layers; {t} intra-op threads.",
            *_REMARKS,
        ],
    )


def _entry(name: str, group: str, module: str, environment: str, options: dict[str, Any]) -> Entry:
    return Entry(name=name, group=group, module=module, environment=environment, options=options, threads=options["threads"])


def _has(kind: str, way: str) -> bool:
    """Whether a script can be written so: only PyG's models take the counts."""
    return way != "counts" or kind in _MODELS
