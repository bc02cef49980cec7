"""Another library's partitions as a source by name: ``glt:FOLDER?y=labels.pt``, ``dgl:FOLDER/part_config.json``."""

from pathlib import Path
from urllib.parse import parse_qsl

from halohop.datasets.imports.dgl import dgl_owners, read_dgl
from halohop.datasets.imports.glt import glt_owners, read_glt
from halohop.datasets.imports.imported import Owners
from halohop.datasets.staging import Staging
from halohop.store.tables import GraphTables

_KINDS = {"glt": (read_glt, glt_owners), "dgl": (read_dgl, dgl_owners)}


def is_import(source: str) -> bool:
    """Whether a source names partitions of another library."""
    return source.partition(":")[0] in _KINDS


def read_import(source: str, staging: Staging | None = None) -> GraphTables:
    """The graph that `source` names.

    Args:
        source: ``glt:FOLDER`` or ``dgl:FOLDER/part_config.json``, and behind a ``?`` columns that lie beside the partitions:
            ``[TYPE:]NAME=FILE``, joined by ``&``; see `halohop.datasets.imports.beside.with_columns`.
        staging: where rows are collected; by default in memory.

    Raises:
        InputError, DatasetError: as `read_glt` and `read_dgl`.
    """
    kind, _, rest = source.partition(":")
    path, _, query = rest.partition("?")
    return _KINDS[kind][0](path, dict(parse_qsl(query, keep_blank_values=True)), staging=staging).tables


def import_files(source: str) -> list[Path]:
    """The files that it is read from, with what lies beside them."""
    kind, _, rest = source.partition(":")
    path = Path(rest.partition("?")[0])
    folder = path.parent if kind == "dgl" else path
    return sorted(file for file in folder.rglob("*") if file.is_file())


def import_owners(source: str) -> Owners:
    """Who owns its nodes; reads nothing else."""
    kind, _, rest = source.partition(":")
    return _KINDS[kind][1](rest.partition("?")[0])
