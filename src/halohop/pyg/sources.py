"""`load_source`: a graph from one word, as the command line takes it; `load_links`: the same with the edges to predict."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import BaseStorage, EdgeStorage, GlobalStorage, NodeStorage

from halohop.datasets import (
    LinkTables,
    add_reverses,
    aifb,
    normalize_rows,
    ogb_node,
    random_edge_masks,
    random_masks,
    read_arrays,
    read_npz,
    read_tables,
    read_temporal,
    read_triples,
    synthetic,
    synthetic_hetero,
    time_masks,
)
from halohop.datasets.arrays import EDGE_INDEX
from halohop.datasets.splits import EDGE_FRACTIONS, FRACTIONS
from halohop.datasets.triples import SPLIT_FILES
from halohop.errors import InputError
from halohop.pyg.convert import tables_from_pyg
from halohop.store.tables import GraphTables, NodeTable

_PYG_CONTAINERS: list[Any] = [
    *(Data, DataEdgeAttr, DataTensorAttr, HeteroData),
    *(BaseStorage, GlobalStorage, NodeStorage, EdgeStorage),
]
"""What a file may hold besides tensors and plain values: dictionaries by another name, nothing that acts when it is built."""

HETERO_SIZES = {"tiny": 500, "small": 2_000, "medium": 50_000}
"""Number of papers of ``synthetic-hetero:SIZE``."""

KNOWN = (
    "synthetic:tiny|small|medium|products, synthetic-hetero:tiny|small|medium, a .npz file, a .pt file with a PyG Data or "
    "HeteroData, a graph.toml or its folder, a folder of .npy files (edge_index.npy, x.npy, ...), a folder with "
    "aifb_stripped.nt.gz, the folder of an OGB data set, a folder with train.txt, valid.txt and test.txt (triples), or a .txt or "
    ".txt.gz file or folder with CollegeMsg.txt (edges with times)"
)


def load_source(
    spec: str | Path,
    *,
    seed: int = 0,
    undirected: bool = False,
    normalize: bool = False,
    fractions: Sequence[float] = FRACTIONS,
) -> GraphTables:
    """The graph that `spec` names.

    Args:
        spec: ``synthetic:tiny|small|medium|products``, ``synthetic-hetero:tiny|small|medium``, a ``.npz`` file, a ``.pt`` file
            with a PyG `Data` or `HeteroData`, a ``graph.toml`` or its folder, a folder of ``.npy`` files
            (`halohop.datasets.read_arrays`), a folder with ``aifb_stripped.nt.gz``, the folder of an OGB data set
            (``<root>/ogbn_products``), or what `load_links` takes, whose held-out edges stay out.
        seed: of synthetic graphs and random splits.
        undirected: add the reverses of all edges, as `halohop.datasets.add_reverses` does; else edges are taken as they are
            stored, from every kind of source.
        normalize: divide each node's features ``x`` by their sum, as `halohop.datasets.normalize_rows` does; else features are
            taken as they are stored, from every kind of source. Advised for counts of words.
        fractions: shares of train, val and test among the labelled nodes, where the source comes without a split.

    Raises:
        InputError: no such kind of source, or content that cannot be read.
        DatasetError: a file is missing or damaged.

    Example:
        >>> load_source("synthetic:tiny").nodes["node"].num_nodes
        1000
    """
    text = str(spec)
    kind, _, size = text.partition(":")
    if kind == "synthetic":
        tables = synthetic(size or "small", fractions=_three(fractions), seed=seed)
    elif kind == "synthetic-hetero":
        tables = _synthetic_hetero(size or "small", fractions, seed)
    else:
        tables = _load_path(Path(text), fractions, seed)
    tables = replace(tables, nodes={name: _divided(table, fractions, seed) for name, table in tables.nodes.items()})
    tables = normalize_rows(tables) if normalize else tables
    return add_reverses(tables) if undirected else tables


def load_links(spec: str | Path) -> LinkTables:
    """The graph that `spec` names, as `load_source` gives it, with the edges of each split.

    Edges with times are split 70/15/15; `halohop.datasets.read_temporal` splits them otherwise.

    Args:
        spec: a folder with ``train.txt``, ``valid.txt`` and ``test.txt`` (triples, such as WN18RR), a ``.txt`` or ``.txt.gz``
            file of edges with times, or a folder with ``CollegeMsg.txt``.

    Raises:
        InputError: no such kind of source, or content that cannot be read.
        DatasetError: a file is missing.
    """
    path = Path(spec)
    if not _holds_links(path):
        raise InputError(
            f"{str(path)!r} has no edges to predict; known: a folder with {', '.join(SPLIT_FILES.values())}, "
            "a .txt or .txt.gz file of edges with times, or a folder with CollegeMsg.txt"
        )
    if path.is_dir() and not (path / "CollegeMsg.txt").is_file():
        return read_triples(path)
    return read_temporal(path / "CollegeMsg.txt" if path.is_dir() else path)


def load_link_graph(
    spec: str | Path,
    *,
    seed: int = 0,
    undirected: bool = False,
    normalize: bool = False,
    fractions: Sequence[float] = EDGE_FRACTIONS,
) -> GraphTables:
    """The graph that `spec` names with all its edges, those of val and test, too; bool columns ``<split>_mask`` tell them apart.

    It is what ``halohop train --task link`` takes. Triples are split by their files, edges with times by these, others at
    random, unless they have masks already. Reverses of edges with times are in no split: they only carry messages.

    Args:
        spec: as of `load_source`.
        seed: of random splits.
        undirected, normalize: as of `load_source`.
        fractions: shares of train, val and test among edges that are split at random.

    Raises:
        InputError, DatasetError: as `load_source`.
    """
    path = Path(spec)
    if not _holds_links(path):
        tables = load_source(spec, seed=seed, undirected=undirected, normalize=normalize)
        split = any("train_mask" in table.columns for table in tables.edges.values())
        return tables if split else random_edge_masks(tables, fractions=fractions, seed=seed)
    if path.is_dir() and not (path / "CollegeMsg.txt").is_file():
        tables = read_triples(path).with_held_out()
        return add_reverses(tables) if undirected else tables
    file = path / "CollegeMsg.txt" if path.is_dir() else path
    return _split_by_time(read_temporal(file, undirected=undirected, held_out=True))


def _split_by_time(links: LinkTables) -> GraphTables:
    """Masks for the edges of the file; behind them are reverses."""
    ((relation, table),) = links.tables.edges.items()
    stored = sum(map(len, links.splits.values()))
    masks = time_masks(table.columns["time"][:stored])
    masks = {name: torch.cat([mask, mask.new_zeros(table.num_edges - stored)]) for name, mask in masks.items()}
    return replace(links.tables, edges={relation: replace(table, columns=table.columns | masks)})


def _holds_links(path: Path) -> bool:
    if path.is_dir():
        return (path / "CollegeMsg.txt").is_file() or (path / SPLIT_FILES["train"]).is_file()
    return path.is_file() and path.name.endswith((".txt", ".txt.gz"))


def _load_path(path: Path, fractions: Sequence[float], seed: int) -> GraphTables:
    if not path.exists():
        raise InputError(f"{str(path)!r} is neither a file nor a known source; known: {KNOWN}")
    if path.suffix == ".npz":
        return read_npz(path, fractions=fractions, seed=seed)
    if path.suffix == ".pt":
        return _load_pt(path)
    if path.name == "graph.toml" or (path / "graph.toml").is_file():
        return read_tables(path)
    if path.suffix == ".npy" or (path / f"{EDGE_INDEX}.npy").is_file() or (path / "edges").is_dir():
        return read_arrays(path.parent if path.is_file() else path)
    if (path / "aifb_stripped.nt.gz").is_file():
        return aifb(path, seed=seed)
    if path.name.startswith("ogbn_") and path.is_dir():
        return ogb_node(path.parent, path.name.replace("_", "-", 1))
    if _holds_links(path):
        return load_links(path).tables
    raise InputError(f"{str(path)!r} is no source that is known; known: {KNOWN}")


def _synthetic_hetero(size: str, fractions: Sequence[float], seed: int) -> GraphTables:
    if size not in HETERO_SIZES:
        raise InputError(f"unknown size {size!r} of synthetic-hetero; known: {list(HETERO_SIZES)}")
    return synthetic_hetero(HETERO_SIZES[size], fractions=_three(fractions), seed=seed)


def _load_pt(path: Path) -> GraphTables:
    try:
        with torch.serialization.safe_globals(_PYG_CONTAINERS):
            data: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever the reader makes of a damaged file, or of classes that it refuses to build
        reason = next((line.strip() for line in str(error).splitlines() if "Unsupported" in line), str(error).splitlines()[0])
        remedy = "save a Data or HeteroData of tensors"
        if "AttrType" in str(error) or "defaultdict" in str(error):  # what PyG notes in a graph that its loaders have had
            reason, remedy = "PyG has left notes of its own in it", "save Data.from_dict(data.to_dict()), or that of HeteroData"
        raise InputError(f"{path} cannot be read without running code from it ({reason}); {remedy}") from error
    if not isinstance(data, Data | HeteroData):
        raise InputError(f"{path} holds a {type(data).__name__}, expected a PyG Data or HeteroData")
    return tables_from_pyg(data)


def _divided(table: NodeTable, fractions: Sequence[float], seed: int) -> NodeTable:
    """With a random split of the labelled nodes, where there is none."""
    y = table.columns.get("y")
    if y is None or y.dim() != 1 or y.is_floating_point() or any(name.endswith("_mask") for name in table.columns):
        return table
    return replace(table, columns=table.columns | random_masks(y, fractions=fractions, seed=seed))


def _three(fractions: Sequence[float]) -> tuple[float, float, float]:
    if len(fractions) != 3:
        raise InputError(f"fractions={tuple(fractions)} must be three shares: train, val and test")
    return fractions[0], fractions[1], fractions[2]
