"""How large a source is, from what its files say of themselves: headers, footers, counts, and samples of text."""

from dataclasses import replace
from pathlib import Path

from halohop.datasets.arrays import EDGE_INDEX
from halohop.datasets.imports.named import is_import
from halohop.datasets.made import powerlaw_of
from halohop.datasets.sizing_arrays import arrays_sizes
from halohop.datasets.sizing_imports import import_sizes
from halohop.datasets.sizing_ogb import ogb_sizes
from halohop.datasets.sizing_tables import tables_sizes
from halohop.datasets.sources import load_source
from halohop.datasets.spec import load_spec, spec_path
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.typing import EDGE, NODE

_SPLITS = ("train_mask", "val_mask", "test_mask")


def source_sizes(source: str | Path, *, undirected: bool = False, normalize: bool = False) -> GraphSizes:
    """The sizes of a source, without reading its rows.

    Sources that are made or read in memory in any case (small synthetic ones, PyG's) are made or read.

    Args:
        source, undirected, normalize: as of `halohop.load_source`.

    Raises:
        InputError, DatasetError: as `halohop.load_source`, as far as the files' beginnings show it.

    Example:
        >>> source_sizes("synthetic:powerlaw?nodes=1000&edges=8000&features=4").table_bytes
        155000
    """
    sizes = stored_sizes(str(source)) or GraphSizes.of(load_source(str(source)))
    sizes = replace(sizes, nodes={name: _divided(table) for name, table in sizes.nodes.items()})
    if normalize and any("x" in table.columns for table in sizes.nodes.values()):
        read = sum(round(table.rows * table.columns.get("x", 0)) for table in sizes.nodes.values())
        sizes = replace(sizes, read_bytes=max(sizes.read_bytes, read))
    return _both_ways(sizes) if undirected else sizes


def stored_sizes(text: str) -> GraphSizes | None:
    """The sizes of a source as it is stored, by the beginnings of its files; None of one that is made or read in memory."""
    shape = powerlaw_of(text)
    if shape is not None:
        columns = {"y": 8.0, **dict.fromkeys(_SPLITS, 1.0)} | ({"x": 4.0 * shape.features} if shape.features else {})
        edges = TableSizes(rows=shape.edges)
        nodes = TableSizes(rows=shape.nodes, columns=columns)
        size = round(nodes.rows * nodes.row_bytes) + 16 * edges.rows
        return GraphSizes(nodes={NODE: nodes}, edges={EDGE: edges}, read_bytes=size)
    if is_import(text):
        return import_sizes(text)
    path = Path(text)
    if path.exists() and path.suffix != ".pt":
        if path.name == "graph.toml" or (path / "graph.toml").is_file():
            return tables_sizes(load_spec(path), spec_path(path).parent)
        if path.suffix == ".npy" or (path / f"{EDGE_INDEX}.npy").is_file() or (path / "edges").is_dir():
            return arrays_sizes(path.parent if path.is_file() else path)
        if path.name.startswith("ogbn_") and path.is_dir():
            return ogb_sizes(path)
    return None


def _divided(table: TableSizes) -> TableSizes:
    """With the masks of a random split, which labelled nodes get that have none."""
    if table.columns.get("y") != 8 or any(name.endswith("_mask") for name in table.columns):
        return table
    return replace(table, columns=table.columns | dict.fromkeys(_SPLITS, 1.0))


def _both_ways(sizes: GraphSizes) -> GraphSizes:
    edges = {}
    for (source, name, destination), table in sizes.edges.items():
        alone = source == destination
        edges[source, name, destination] = replace(table, rows=table.rows * 2) if alone else table
        if not alone:
            edges[destination, f"rev_{name}", source] = table
    read = sizes.read_bytes + sum(round(table.rows * (16 + table.row_bytes)) for table in edges.values())
    guessed = (*sizes.guessed, "every edge is taken to get a reverse")
    return replace(sizes, edges=edges, read_bytes=read, guessed=guessed)
