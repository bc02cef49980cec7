"""How much memory a source would take, before it is read."""

import math
from pathlib import Path

from halohop.datasets.imports.named import import_files, is_import
from halohop.datasets.made import made_bytes
from halohop.datasets.spec import load_spec, spec_path
from halohop.errors import HalohopError

_TIMES = {".gz": 12.0, ".csv": 1.5, ".tsv": 1.5, ".parquet": 4.0, ".pq": 4.0, ".npz": 2.0}
"""Bytes in memory for a byte in a file, at most, as files usually are: text holds short numbers, and packs to a sixth."""


def source_bytes(source: str) -> int:
    """About how many bytes the tensors of a source take; 0 where that is not known, as of a data set of PyG's by its name.

    Example:
        >>> source_bytes("synthetic:powerlaw?nodes=1000&edges=8000&features=4")
        91000
    """
    made = made_bytes(source)
    if made is not None:
        return made
    return math.ceil(sum(file.stat().st_size * _TIMES.get(file.suffix, 1.0) for file in source_files(source)))


def source_files(source: str) -> list[Path]:
    """The files that a source names, as far as they are known before one is read."""
    if is_import(source):
        return import_files(source)
    path = Path(source)
    if path.suffix == ".npy":
        path = path.parent
    if path.name == "graph.toml" or (path.is_dir() and any(path.glob("graph.*"))):
        try:
            spec, root = load_spec(path), spec_path(path).parent
        except HalohopError:  # which reading it will say
            return []
        patterns = {files.file for files in spec.nodes.values()} | {files.file for files in spec.edges.values()}
        return [file for pattern in patterns for file in _matching(root, pattern)]
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file()]
    return [path] if path.is_file() else []


def _matching(root: Path, pattern: str) -> list[Path]:
    file = Path(root, pattern)
    if file.is_file():
        return [file]
    return [] if Path(pattern).is_absolute() else [found for found in root.glob(pattern) if found.is_file()]
