"""`load_source`: a graph from one word, as the command line takes it; `load_link_graph`: the same with splits of its edges.

PyG takes seconds to import, so it is imported where a source needs it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from halohop.datasets.arrays import EDGE_INDEX, read_arrays
from halohop.datasets.direction import add_reverses
from halohop.datasets.edge_splits import random_edge_masks, timed_edge_masks
from halohop.datasets.imports.named import is_import, read_import
from halohop.datasets.made import MADE, read_made
from halohop.datasets.ogb import ogb_node
from halohop.datasets.scale import normalize_rows
from halohop.datasets.splits import EDGE_FRACTIONS, FRACTIONS, random_masks
from halohop.datasets.staging import Staging, kept, staging_in
from halohop.datasets.tables import read_tables
from halohop.errors import InputError
from halohop.files.urls import refuse_url
from halohop.flags import checks_flags
from halohop.partitioning.planning.budget import Budget
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import NodeType

KNOWN = (
    "synthetic:tiny|small|medium|products, synthetic-hetero:tiny|small|medium, synthetic:powerlaw?nodes=N&edges=N&features=N, "
    "pyg:CLASS/NAME?root=FOLDER (a data set of PyG's), "
    "a .pt file with a PyG Data or HeteroData, a graph.toml or its folder, a folder of .npy files (edge_index.npy, x.npy, ...), "
    "the folder of an OGB data set, or partitions of other libraries: glt:FOLDER, dgl:FOLDER/part_config.json"
)


@checks_flags
def load_source(
    spec: str | Path,
    *,
    seed: int = 0,
    undirected: bool = False,
    normalize: bool = False,
    fractions: Sequence[float] = FRACTIONS,
    scratch: str | Path | None = None,
    memory: int | str | Budget | None = None,
) -> GraphTables:
    """The graph that `spec` names.

    Args:
        spec: ``synthetic:tiny|small|medium|products``, ``synthetic-hetero:tiny|small|medium``,
            ``synthetic:powerlaw?nodes=N&edges=N&features=N`` (`halohop.datasets.PowerLaw`), ``pyg:CLASS/NAME?root=FOLDER``
            (`halohop.datasets.pyg_sets.read_pyg`), a ``.pt`` file with a PyG `Data` or `HeteroData`, a ``graph.toml`` or its
            folder, a folder of ``.npy`` files (`halohop.datasets.read_arrays`), the folder of an OGB data set
            (``<root>/ogbn_products``), or partitions of GLT or DGL (``glt:FOLDER``, ``dgl:FOLDER/part_config.json``:
            `halohop.datasets.read_glt`, `halohop.datasets.read_dgl`).
        seed: of synthetic graphs and random splits.
        undirected: add the reverses of all edges, as `halohop.datasets.add_reverses` does; else edges are taken as they are
            stored, from every kind of source.
        normalize: divide each node's features ``x`` by their sum, as `halohop.datasets.normalize_rows` does; else features are
            taken as they are stored, from every kind of source. Advised for counts of words.
        fractions: shares of train, val and test among the labelled nodes, where the source comes without a split.
        scratch: a folder for a graph larger than memory: what is not in ``.npy`` files already is written there, chunk by
            chunk, and the tensors of the result are mapped. What is finished there is not made again. None reads into memory.
        memory: how much the reading may take where there is a `scratch`, such as ``"4GB"``; by default half of what is
            available. (Sources of PyG, partitions of other libraries, and synthetic graphs but for ``powerlaw`` are made in
            memory first.)

    Raises:
        InputError: no such kind of source, or content that cannot be read.
        DatasetError: a file is missing or damaged.
        WriteError: `scratch` cannot be written.

    Example:
        >>> load_source("synthetic:tiny").nodes["node"].num_nodes
        1000
    """
    staging = Staging() if scratch is None else staging_in(Path(scratch), Budget.parse(memory))
    return read_source(str(spec), staging, seed=seed, undirected=undirected, normalize=normalize, fractions=fractions)


def read_source(
    text: str, staging: Staging, *, seed: int, undirected: bool, normalize: bool, fractions: Sequence[float]
) -> GraphTables:
    """`load_source`, whose columns are collected by a `Staging`."""
    if text.partition(":")[0] in MADE:
        tables = read_made(text, staging, fractions=fractions, seed=seed)
    elif text.startswith("pyg:"):
        from halohop.datasets.pyg_sets import read_pyg

        tables = kept(staging, read_pyg(text))
    elif is_import(text):
        tables = read_import(text, staging)
    else:
        tables = _load_path(Path(text), staging)
    nodes = {name: _divided(staging, name, table, fractions, seed) for name, table in tables.nodes.items()}
    tables = replace(tables, nodes=nodes)
    tables = normalize_rows(tables, staging=staging) if normalize else tables
    return add_reverses(tables, staging=staging) if undirected else tables


@checks_flags
def load_link_graph(
    spec: str | Path,
    *,
    seed: int = 0,
    undirected: bool = False,
    normalize: bool = False,
    fractions: Sequence[float] = EDGE_FRACTIONS,
    time_attr: str | None = None,
) -> GraphTables:
    """The graph that `spec` names, whose edges have the bool columns ``train_mask``, ``val_mask`` and ``test_mask``.

    It is what ``halohop train --task link`` takes. Edges that have masks keep them; others are split by time where there are
    times, else at random. Reverses of edges that are split by time are in no split: they only carry messages.

    Args:
        spec: as of `load_source`.
        seed: of random splits.
        undirected, normalize: as of `load_source`.
        fractions: shares of train, val and test among edges that are split at random; those by time are 70/15/15.
        time_attr: column of the edges' times.

    Raises:
        InputError, DatasetError: as `load_source`.
        SchemaError: no relation has such a column.

    Example:
        >>> tables = load_link_graph("synthetic:tiny")
        >>> sorted(name for name in tables.edges["node", "to", "node"].columns if name.endswith("_mask"))
        ['test_mask', 'train_mask', 'val_mask']
    """
    stored = load_source(spec, seed=seed, normalize=normalize)
    if any("train_mask" in table.columns for table in stored.edges.values()):
        return add_reverses(stored) if undirected else stored
    if time_attr is None:
        return random_edge_masks(add_reverses(stored) if undirected else stored, fractions=fractions, seed=seed)
    masked = timed_edge_masks(stored, time_attr)
    if not undirected:
        return masked
    whole = add_reverses(stored)
    edges = {name: _masked_as(table, masked.edges.get(name)) for name, table in whole.edges.items()}
    return replace(whole, edges=edges)


def _masked_as(table: EdgeTable, masked: EdgeTable | None) -> EdgeTable:
    """A table with the masks of its first edges; those behind them, their reverses, are in no split."""
    if masked is None:
        return table
    added = table.num_edges - masked.num_edges
    masks = {name: column for name, column in masked.columns.items() if name not in table.columns}
    padded = {name: torch.cat([mask, mask.new_zeros(added)]) for name, mask in masks.items()}
    return replace(table, columns=table.columns | padded)


def _load_path(path: Path, staging: Staging) -> GraphTables:
    refuse_url(path, "source", "fetch it first: halohop.fetch(url, folder)")
    if not path.exists():
        raise InputError(f"{str(path)!r} is neither a file nor a known source; known: {KNOWN}")
    if path.suffix == ".pt":
        from halohop.datasets.pyg_file import read_pt

        return kept(staging, read_pt(path))
    if path.suffix == ".npz":
        raise InputError(
            f"{path} is an archive of arrays; unpack it into a folder with edge_index.npy: unzip {path} -d FOLDER; or, if it "
            "holds adj_data and attr_data as GNN benchmark sets do, save what PyG reads: "
            f"torch.save(torch_geometric.io.read_npz({str(path)!r}), 'graph.pt')"
        )
    if path.name == "graph.toml" or (path / "graph.toml").is_file():
        return read_tables(path, staging=staging)
    if path.suffix == ".npy" or (path / f"{EDGE_INDEX}.npy").is_file() or (path / "edges").is_dir():
        return read_arrays(path.parent if path.is_file() else path, staging)
    if path.name.startswith("ogbn_") and path.is_dir():
        return ogb_node(path.parent, path.name.replace("_", "-", 1), staging=staging)
    raise InputError(f"{str(path)!r} is no source that is known; known: {KNOWN}")


def _divided(staging: Staging, name: NodeType, table: NodeTable, fractions: Sequence[float], seed: int) -> NodeTable:
    """With a random split of the labelled nodes, where there is none."""
    y = table.columns.get("y")
    if y is None or y.dim() != 1 or y.is_floating_point() or any(name.endswith("_mask") for name in table.columns):
        return table
    shares = "/".join(f"{share:.0%}" for share in fractions)
    staging.say(f"split of {name}: none is stored, so labeled nodes are split at random, {shares} train/val/test")
    masks = staging.columns(f"nodes.{name}.masks", lambda: [random_masks(y, fractions=fractions, seed=seed)])
    return replace(table, columns=table.columns | masks)
