"""Hashes of the files of partitions, for each kind of source, way to assign nodes, and option.

Left out, because their results depend on versions of libraries: METIS and KaMinPar; networkx, which is no source of its own; data
sets of PyG but one. Left out, because computed floats decide: `halohop.placement.Frequency`, and replicas. Features of synthetic
graphs are computed, so only the files without them are kept. ``.npz`` files are refused, and URLs are copies of folders.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import halohop
from halohop.datasets import read_tables
from tests.golden import sources
from tests.golden.graphs import owners, plain, slices, sparse, typed
from tests.golden.hashes import hash_bytes

Write = Callable[[Path], Any]


def of(make: Callable[[], Any], num_parts: int = 2, **options: Any) -> Write:
    """Partitions of an object."""
    return lambda folder: halohop.partition(make(), folder / "parts", num_parts=num_parts, **{"method": "range", **options})


def read(write: Callable[[Path], Any], *, method: Any = "range", edge_dir: Any = "in", **options: Any) -> Write:
    """Partitions of a source that is written first."""

    def make(folder: Path) -> None:
        tables = halohop.load_source(str(write(folder / "source")), **options)
        halohop.partition(tables, folder / "parts", num_parts=2, method=method, edge_dir=edge_dir)

    return make


def links(write: Callable[[Path], Any], **options: Any) -> Write:
    def make(folder: Path) -> None:
        tables = halohop.load_link_graph(str(write(folder / "source")), **options)
        halohop.partition(tables, folder / "parts", num_parts=2, method="range")

    return make


def by_file(folder: Path) -> None:
    """Owners in a file of text, and in an array."""
    given = owners(typed(), 2)
    (folder / "by").mkdir()
    (folder / "by/paper.txt").write_text("owner\n" + "\n".join(map(str, given["paper"].tolist())))
    for name in ("author", "venue"):
        np.save(folder / f"by/{name}.npy", given[name].numpy())
    halohop.partition(typed(), folder / "parts", num_parts=2, method=folder / "by")


def written_as_slices(folder: Path) -> None:
    """Written from tensors by two writers, and joined: the files of `halohop.partition`."""
    whole, owner = slices("typed", 1)[0], owners(typed(), 2)
    settings = {"num_parts": 2, "owner": owner}
    for writer in range(2):
        with halohop.slices.SliceWriter(folder / "slices", writer=writer, relations=list(whole.edges), **settings) as out:
            for name, nodes in whole.nodes.items():
                columns = {key: rows[writer::2] for key, rows in nodes.columns.items()}
                out.add_nodes(name, nodes.id[writer::2], columns)
            for relation, edges in whole.edges.items():
                columns = {key: rows[writer::2] for key, rows in edges.columns.items()}
                out.add_edges(relation, edges.edge_index[:, writer::2], edges.edge_id[writer::2], columns)
    halohop.slices.join_slices(folder / "slices", folder / "parts", num_writers=2, owner=owner)


def described_in_json(folder: Path) -> None:
    halohop.partition(read_tables(sources.write_json(folder / "source")), folder / "parts", num_parts=2, method="range")


def tables(suffix: str) -> Callable[[Path], Path]:
    return lambda folder: sources.write_tables(folder, suffix)


def ogb(name: str) -> Callable[[Path], Path]:
    return lambda folder: sources.write_ogb(folder, name)


def dgl(version: str, name: str) -> Callable[[Path], str]:
    return lambda folder: sources.unpack_dgl(folder, version, name)


def pt(make: Callable[[], Any]) -> Callable[[Path], Path]:
    return lambda folder: sources.write_pt(folder / "graph.pt", make())


METHODS: dict[str, Write] = {
    "method=range": of(typed, 4),
    "method=range, one partition": of(typed, 1),
    "method=random": of(typed, 4, method="random", seed=3),
    "method=ldg": of(plain, 4, method="ldg"),
    "method=ldg, several types": of(typed, 2, method="ldg", balance_types=True),
    "method=fennel": of(plain, 4, method="fennel", seed=3),
    "method=a tensor": of(typed, 2, method=owners(typed(), 2)),
}
OPTIONS: dict[str, Write] = {
    "edge_dir=out, halo": of(typed, 2, edge_dir="out", halo=["when", "raw_id"]),
    "halo": of(typed, 2, halo=["when", "raw_id"]),
    "weight_sums": of(typed, 2, weight_sums=["weight"]),
    "feature_dtype=float16": of(plain, 2, feature_dtype="float16"),
    "feature_dtype=bfloat16": of(plain, 2, feature_dtype={"x": "bfloat16"}),
    "feature_dtype=int8": of(plain, 2, feature_dtype="int8"),
    "sparse features": of(sparse, 2),
}
SOURCES: dict[str, Write] = {
    "a .pt file of Data": read(pt(plain)),
    "a .pt file of HeteroData": read(pt(typed)),
    "graph.toml, CSV": read(tables("csv")),
    "arrays": read(sources.write_arrays),
    "arrays, several types": read(sources.write_typed_arrays),
    "arrays, undirected": read(sources.write_arrays, undirected=True),
    "arrays, normalize": read(sources.write_typed_arrays, normalize=True),
    "OGB, text": read(ogb("ogbn_products")),
    "OGB, arrays": read(ogb("ogbn_papers100M")),
    "OGB, several types": read(sources.write_mag),
    "DGL 1.1.3, typed": read(dgl("1.1.3", "typed")),
    "DGL 2.1.0, typed": read(dgl("2.1.0", "typed")),
    "DGL 2.1.0, with ids": read(dgl("2.1.0", "compressed")),
    "GLT": read(sources.write_glt, edge_dir="out"),
    "pyg:KarateClub": read(lambda folder: "pyg:KarateClub"),
    "links, split at random": links(pt(plain)),
    "links, split by time": links(pt(typed), time_attr="time"),
}
SYNTHETIC: dict[str, Write] = {
    "synthetic:tiny": read(lambda folder: "synthetic:tiny"),
    "synthetic-hetero:tiny": read(lambda folder: "synthetic-hetero:tiny"),
    "synthetic:powerlaw": read(lambda folder: "synthetic:powerlaw?nodes=500&edges=2000&features=2"),
}
CASES = METHODS | OPTIONS | SOURCES | SYNTHETIC

SAME: dict[str, tuple[str, Write]] = {
    "given by files": ("method=a tensor", by_file),
    "written as slices": ("method=a tensor", written_as_slices),
    "built by a worker, through files": ("halo", of(typed, 2, halo=["when", "raw_id"], worker=True)),
    "graph.toml, Parquet": ("graph.toml, CSV", read(tables("parquet"))),
    "graph.toml, TSV": ("graph.toml, CSV", read(tables("tsv"))),
    "graph.json": ("graph.toml, CSV", described_in_json),
    "read through files": (
        "arrays",
        lambda folder: halohop.partition(
            halohop.load_source(sources.write_arrays(folder / "source"), scratch=folder / "scratch", memory="1GB"),
            folder / "parts",
            num_parts=2,
            method="range",
        ),
    ),
}
"""Ways to make the partitions of another case, byte for byte."""


def make() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, write in CASES.items():
        try:
            found |= hashed(name, write)
        except Exception as error:
            found[name] = lambda error=error: failed(error)
    return found


def failed(error: Exception) -> None:
    raise error


def hashed(name: str, write: Write) -> dict[str, str]:
    """By case and file, the hash of its bytes."""
    with tempfile.TemporaryDirectory(prefix="golden") as folder:
        write(Path(folder))
        root = Path(folder, "parts")
        files = sorted(path for path in root.rglob("*") if path.is_file())
        return {f"{name} > {path.relative_to(root)}": hash_bytes(path.read_bytes()) for path in files if not computed(name, path)}


def computed(name: str, path: Path) -> bool:
    """Features of synthetic graphs, and what has their checksums."""
    return name in SYNTHETIC and path.name in ("x.npy", "manifest.json", "stamp")
