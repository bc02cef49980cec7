"""How many rows and which columns CSV, TSV and Parquet tables have, from footers and the first rows."""

import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from halohop.datasets.arrow import is_text, pyarrow, reading, stream_columns
from halohop.datasets.kinds import STRINGS, kind_name
from halohop.datasets.spec import EdgeFiles, GraphFiles, NodeFiles
from halohop.datasets.table_parts import Part, characters
from halohop.datasets.tables import paths_of, relation_of
from halohop.partitioning.planning.sizes import GraphSizes, TableSizes
from halohop.typing import RAW_TEXT, NodeType, Relation

_SAMPLE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files of a table: how many rows they have in all, and whether these were counted."""

    paths: Sequence[Path]
    rows: int
    counted: bool

    @classmethod
    def of(cls, root: Path, pattern: str) -> "_Files":
        paths = paths_of(root, pattern)
        return cls(paths=paths, rows=sum(map(_rows, paths)), counted=not any(map(is_text, paths)))

    @property
    def num_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def decode_seconds(self, names: Sequence[str]) -> float:
        """How long one reading of all files takes, by that of the first rows."""
        begun = time.perf_counter()
        sample = next(iter(stream_columns(self.paths[0], names, {}, _SAMPLE)))
        return (time.perf_counter() - begun) * self.rows / max(len(sample[names[0]]), 1)

    def widths(self, names: Sequence[str]) -> dict[str, float]:
        """Bytes of a number, or of a list of them, by column, as the first rows have them; of texts, of the longest."""
        sample = next(iter(stream_columns(self.paths[0], names, {}, _SAMPLE)))
        return {name: _width(sample[name]) for name in names}


def tables_sizes(spec: GraphFiles, root: Path) -> GraphSizes:
    """Of a graph that is described by `spec`.

    Raises:
        IncompleteDatasetError, SchemaError, InputError: as `halohop.datasets.read_tables`, as far as the first rows show it.
    """
    guessed: list[str] = []
    nodes: dict[NodeType, TableSizes] = {}
    edges: dict[Relation, TableSizes] = {}
    read, decode = 0, 0.0
    for name, files in spec.nodes.items():
        table = _Files.of(root, files.file)
        nodes[name], read = _nodes(table, files), read + table.num_bytes
        named = (files.features, files.label, files.split, files.masks, files.columns)
        decode += table.decode_seconds([files.id]) * (1 + sum(map(bool, named)))
        if not table.counted:
            guessed.append(f"{files.file} is taken to have {table.rows:,} rows, by its size and its first lines")
    for text, edge_files in spec.edges.items():
        relation, table = relation_of(text), _Files.of(root, edge_files.file)
        found, read = _edges(table, edge_files), read + table.num_bytes
        decode += table.decode_seconds([edge_files.src, edge_files.dst]) * (1 + bool(edge_files.features) + bool(found.columns))
        if not table.counted:
            guessed.append(f"{edge_files.file} is taken to have {table.rows:,} rows, by its size and its first lines")
        edges[relation] = found
        if edge_files.undirected:
            source, kind, destination = relation
            back = relation if source == destination else (destination, f"rev_{kind}", source)
            edges[back] = TableSizes(rows=found.rows + (found.rows if back == relation else 0), columns=found.columns)
            guessed.append(f"every edge of {text} is taken to get a reverse")
    for name in dict.fromkeys(end for relation in edges for end in relation[::2]):
        if name not in nodes:
            count = max(table.rows for relation, table in edges.items() if name in relation[::2])
            nodes[name] = TableSizes(rows=count, own_ids=True)
            guessed.append(f"nodes of {name!r}, which have no table, are taken to be {count:,}, one for each of its edges")
    return GraphSizes(nodes=nodes, edges=edges, read_bytes=read, decode_seconds=decode, guessed=tuple(guessed))


def _nodes(table: _Files, files: NodeFiles) -> TableSizes:
    columns: dict[str, float] = {}
    if files.features:
        columns["x"] = _matrix(table, files.features, files.dtype)
    if files.label:
        columns["y"] = 8.0 if isinstance(files.label, str) else float(len(files.label))
    splits = [*files.masks, *files.splits, *(("train", "val", "test") if files.split or files.fractions else ())]
    columns |= {f"{split}_mask": 1.0 for split in splits}
    columns |= table.widths(files.columns) if files.columns else {}
    sample = next(iter(stream_columns(table.paths[0], [files.id], characters(files.id), _SAMPLE)))
    part = Part(path=table.paths[0], first=0, columns=sample)
    if kind_name(lambda: [(part, files.id)], files.kinds.get(files.id)) == STRINGS:
        columns[RAW_TEXT] = _width(sample[files.id].cast(pyarrow().large_string()))
        return TableSizes(rows=table.rows, columns=columns)
    return TableSizes(rows=table.rows, columns=columns, own_ids=True)


def _edges(table: _Files, files: EdgeFiles) -> TableSizes:
    columns: dict[str, float] = {}
    if files.features:
        columns["edge_attr"] = _matrix(table, files.features, files.dtype)
    named = {"weight": files.weight, "time": files.time} | {name: name for name in files.columns}
    given = {target: name for target, name in named.items() if name is not None}
    widths = table.widths(list(given.values())) if given else {}
    columns |= {target: widths[name] for target, name in given.items()}
    return TableSizes(rows=table.rows, columns=columns)


def _matrix(table: _Files, names: Sequence[str], dtype: str) -> float:
    """Bytes of a row of columns side by side; lists in them have several numbers."""
    sample = next(iter(stream_columns(table.paths[0], names, {}, _SAMPLE)))
    return sum(_entries(sample[name]) for name in names) * float(getattr(torch, dtype).itemsize)


def _entries(column: Any) -> int:
    types = pyarrow().types
    if types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type):
        lengths = pyarrow("compute").list_value_length(column).unique().to_pylist()
        return max((length for length in lengths if length is not None), default=0)
    return 1


def _width(column: Any) -> float:
    """Times and larger unsigned integers become int64, columns without values float64."""
    types = pyarrow().types
    if types.is_string(column.type) or types.is_large_string(column.type):
        longest = pyarrow("compute").max(pyarrow("compute").binary_length(column)).as_py()
        return float(longest or 1)
    entries = _entries(column)
    kind = column.type.value_type if hasattr(column.type, "value_type") and not types.is_dictionary(column.type) else column.type
    if types.is_boolean(kind):
        return float(entries)
    wide = not types.is_primitive(kind) or types.is_temporal(kind) or (types.is_unsigned_integer(kind) and kind.bit_width > 8)
    return entries * (8.0 if wide else kind.bit_width / 8)


def _unpacked(stream: IO[bytes], at_least: int) -> bytes:
    """Unpacks the beginning of a gzip file, exactly up to the position of the stream. (The `gzip` module reads ahead of it.)"""
    text, unpack = b"", zlib.decompressobj(wbits=31)
    while len(text) < at_least and (packed := stream.read(1 << 14)):
        while packed:
            text += unpack.decompress(packed)
            packed = unpack.unused_data
            if unpack.eof:
                unpack = zlib.decompressobj(wbits=31)
    return text


def _rows(path: Path) -> int:
    """Of Parquet as its footer says; of text by its size and its first lines."""
    with reading(path, []):
        if not is_text(path):
            return int(pyarrow("parquet").read_metadata(path).num_rows)
        size = path.stat().st_size
        with path.open("rb") as stream:
            if path.suffix != ".gz":
                sample, taken = stream.read(_SAMPLE), min(size, _SAMPLE)
            else:
                sample, taken = _unpacked(stream, 8 * _SAMPLE), stream.tell()
        lines = sample.count(b"\n") + (0 if sample.endswith(b"\n") or not sample else 1)
        return max(math.ceil(lines * size / max(taken, 1)) - 1, 0)
