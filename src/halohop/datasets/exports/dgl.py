"""A partitioned data set as the partitions that DGL reads: ``NAME.json``, and for each partition its graph and its columns."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from halohop.datasets.exports.dgl_columns import check_columns, columns_of, old_ids
from halohop.datasets.exports.dgl_files import Streamed, write_tensors
from halohop.datasets.exports.dgl_graph import GraphWriter
from halohop.datasets.exports.dgl_numbers import Numbers
from halohop.datasets.imports.dgl_config import BOOLS
from halohop.datasets.part_config import PartConfig
from halohop.errors import InputError
from halohop.files.urls import refuse_url
from halohop.files.whole import whole_folder, written_stream
from halohop.store.description import describe
from halohop.store.disk import map_part
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import Schema
from halohop.typing import OnProgress, TableKey


def write_dgl(
    parts: str | Path, folder: str | Path, *, name: str | None = None, progress: OnProgress = lambda stage, done, total: None
) -> Path:
    """Writes what DGL's `load_partition`, `DistGraph` and servers read. DGL need not be installed.

    DGL numbers nodes and edges by partition; the ids that they have here lie beside, in ``orig_nids.dgl`` and ``orig_eids.dgl``
    of each partition, as DGL's pipeline writes them. `read_dgl` reads the data set back, ids included. Columns keep names and
    dtypes; bool ones are uint8 in DGL. A partition's graph has its nodes, the edges to them, and copies of the edges from them;
    copies of edges' other ends, too. Rows are copied a piece at a time: memory is needed for the cut edges of one partition.

    Args:
        parts: the folder of a data set, with all its partitions.
        folder: a new one.
        name: of the graph, and of the JSON file; by default that of the folder of the data set.
        progress: called with "export", how many partitions are written, and of how many.

    Returns:
        The JSON file.

    Raises:
        InputError: `folder` is there already, the data set holds what DGL has not (complex numbers, 16 bit and wider numbers
            without a sign, lists of out-edges, a "/", ":" or "~" in a name), or a partition is not here.
        DatasetError: the folder is no complete, healthy data set.
        WriteError: a file cannot be written.

    Example:
        >>> import tempfile, halohop
        >>> from halohop.datasets import read_dgl, synthetic
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = halohop.partition(synthetic("tiny"), f"{folder}/parts", num_parts=2, method="random")
        ...     file = write_dgl(f"{folder}/parts", f"{folder}/dgl")
        ...     file.name, len(read_dgl(file).tables.edges[("node", "to", "node")].src)
        ('parts.json', 12000)
    """
    for path, what in ((parts, "parts"), (folder, "folder")):
        refuse_url(path, what, "fetch or upload it with halohop.fetch, halohop.upload")
    out, description = Path(folder), describe(parts)
    config = PartConfig(name=description.path.name if name is None else name, description=description)
    _check(config, f"{config.name}.json")
    with whole_folder(out, lambda: _check_target(out), overwrite=False) as partial:
        numbers = Numbers.of(config)
        graphs = GraphWriter(description, numbers, partial)
        for part in range(description.num_parts):
            progress("export", part, description.num_parts)
            mapped = map_part(description.path, description.manifest, part)
            place = partial / f"part{part}"
            place.mkdir()
            graphs.write(place / "graph.dgl", part, mapped)
            _write_columns(place, part, mapped, description.schema, numbers)
        progress("export", description.num_parts, description.num_parts)
        graphs.finish()
        with written_stream(partial / f"{config.name}.json") as stream:
            stream.write(json.dumps(_document(config, numbers), indent=2).encode() + b"\n")
    return out / f"{config.name}.json"


def _check(config: PartConfig, file: str) -> None:
    description = config.description
    if Path(file).name != file or file == ".json":
        raise InputError(f"name={config.name!r} is no name of a file; give one such as 'products'")
    if description.edge_dir != "in":
        raise InputError(
            f"{description.path} has lists of out-edges, and DGL's partitions own in-edges; partition with edge_dir='in'"
        )
    if not description.schema.edges:
        raise InputError(f"{description.path} has no relation, and DGL's graphs have one at least")
    if missing := sorted({*range(description.num_parts)} - {*description.parts}):
        raise InputError(f"partition {missing[0]} is not in {description.path}, and DGL gets all of them; copy it there")
    for table in description.schema.tables:
        of = description.manifest.node_bounds[table] if isinstance(table, str) else description.manifest.edge_bounds[table]
        check_columns(table, description.schema.table(table).columns, [last - first for first, last in pairwise(of)])


def _check_target(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists; choose another folder")


def _write_columns(folder: Path, part: int, mapped: Part, schema: Schema, numbers: Numbers) -> None:
    """Columns and ids from before, of nodes and of edges."""
    columns: dict[str, dict[str, Streamed]] = {"node": {}, "edge": {}}
    ids: dict[str, dict[str, Streamed]] = {"node": {}, "edge": {}}
    tables: list[tuple[TableKey, NodePart | EdgePart]] = [*mapped.nodes.items(), *mapped.edges.items()]
    for table, rows in tables:
        kind, old = ("node", rows.raw_id) if isinstance(rows, NodePart) else ("edge", rows.edge_id)
        text = numbers.names[table]
        for name, column in columns_of(rows, schema.table(table).columns).items():
            columns[kind][f"{text}/{name}"] = column
        ids[kind][text] = old_ids(old, *numbers.gids(table, part))
    for kind in columns:
        for file, tensors in ((f"{kind}_feat.dgl", columns[kind]), (f"orig_{kind[0]}ids.dgl", ids[kind])):
            with written_stream(folder / file) as stream:
                write_tensors(stream, tensors)


def _document(config: PartConfig, numbers: Numbers) -> dict[str, Any]:
    """The contents of the JSON file."""
    schema, manifest = config.description.schema, config.description.manifest
    files = {"node_feats": "node_feat.dgl", "edge_feats": "edge_feat.dgl", "part_graph": "graph.dgl"}
    parts = range(config.description.num_parts)
    bools = [
        f"{numbers.names[table]}/{name}"
        for table in schema.tables
        for name, spec in schema.table(table).columns.items()
        if spec.dtype == "bool"
    ]
    return {
        **config.document(str(manifest.partitioned.get("method"))),
        **{f"part-{part}": {key: f"part{part}/{file}" for key, file in files.items()} for part in parts},
        BOOLS: bools,
    }
