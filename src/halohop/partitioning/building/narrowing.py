"""Features that are stored in fewer bytes than they have: which columns, and in which steps."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import Narrow
from halohop.partitioning.building.columns import Given
from halohop.store.tables import GraphTables
from halohop.typing import TableKey

DTYPES = ("float16", "bfloat16", "int8")
FEATURES = ("x", "edge_attr")
"""The columns that are meant where none is named: PyG's features of nodes and of edges."""

FeatureDtype = str | Mapping[str, str]

_WIDE = (torch.float32, torch.float64)
_CHUNK = 8 << 20  # bytes of a column that are looked at together


def with_narrow_features(tables: GraphTables, feature_dtype: FeatureDtype | None) -> GraphTables:
    """The same graph, of which features are to be stored narrow; reads them once.

    Args:
        tables: the graph.
        feature_dtype: one of `DTYPES`, for `FEATURES`; or one for each column that is named. None: everything is stored as it is.

    Raises:
        InputError: another dtype; a column that no table has, or that holds no rows of floats; a number that cannot be stored so.
    """
    if feature_dtype is None:
        return tables
    wanted = _wanted(tables, feature_dtype)
    nodes = {name: replace(table, stored=_stored(name, table.columns, wanted)) for name, table in tables.nodes.items()}
    edges = {
        relation: replace(table, stored=_stored(relation, table.columns, wanted)) for relation, table in tables.edges.items()
    }
    return replace(tables, nodes=nodes, edges=edges)


def parse_feature_dtype(text: str) -> FeatureDtype:
    """What a command line says: a dtype, or some of ``COLUMN=DTYPE`` between commas.

    Raises:
        InputError: it says neither.

    Example:
        >>> parse_feature_dtype("int8"), parse_feature_dtype("x=int8,feat=float16")
        ('int8', {'x': 'int8', 'feat': 'float16'})
    """
    if "=" not in text:
        return text
    pairs = [entry.partition("=") for entry in text.split(",")]
    if not all(name and equals and dtype for name, equals, dtype in pairs):
        raise InputError(f"feature dtype {text!r} is neither one of {', '.join(DTYPES)} nor some like x=int8,feat=float16")
    return {name.strip(): dtype.strip() for name, _, dtype in pairs}


def stored_shares(feature_dtype: FeatureDtype | None) -> dict[str, float]:
    """By column, which share of its bytes is stored, if it is float32."""
    given = dict.fromkeys(FEATURES, feature_dtype) if isinstance(feature_dtype, str) else dict(feature_dtype or {})
    return {name: getattr(torch, dtype).itemsize / torch.float32.itemsize for name, dtype in given.items() if dtype in DTYPES}


def _wanted(tables: GraphTables, feature_dtype: FeatureDtype) -> dict[str, str]:
    """Dtypes by column; those that are there."""
    columns = [table.columns for table in tables.nodes.values()] + [table.columns for table in tables.edges.values()]
    known = {name for of_table in columns for name in of_table}
    given = dict.fromkeys(FEATURES, feature_dtype) if isinstance(feature_dtype, str) else dict(feature_dtype)
    for name, dtype in given.items():
        if dtype not in DTYPES:
            raise InputError(f"feature_dtype={dtype!r} for column {name!r} is none of {', '.join(DTYPES)}")
        if name not in known and not isinstance(feature_dtype, str):
            raise InputError(f"feature_dtype names {name!r}, which is no column; columns: {sorted(known)}")
    if not known & given.keys():
        raise InputError(
            f"feature_dtype={feature_dtype!r} is for the columns {' and '.join(FEATURES)}, and there is neither; name those that "
            f"are meant: {sorted(known)}"
        )
    return given


def _stored(table: TableKey, columns: Mapping[str, Tensor], wanted: Mapping[str, str]) -> dict[str, Narrow]:
    return {
        name: _measured(f"column {name!r} of {table!r}", column, wanted[name])
        for name, column in columns.items()
        if name in wanted and _is_wide(f"column {name!r} of {table!r}", column)
    }


def _is_wide(label: str, column: Tensor) -> bool:
    """Whether a column takes more than two bytes per number.

    Raises:
        InputError: it holds no rows of floats.
    """
    if not column.dtype.is_floating_point:
        raise InputError(
            f"{label} is {column.dtype}, and feature_dtype is for floats; convert it, or name other columns: {{'x': 'int8'}}"
        )
    if column.layout != torch.strided or column.dim() < 2:
        kind = "stored sparse" if column.layout != torch.strided else "one number per row"
        raise InputError(f"{label} is {kind}, and feature_dtype is for dense rows of several numbers; name other columns")
    return column.dtype in _WIDE


def _measured(label: str, column: Tensor, dtype: str) -> Narrow:
    """How to store a column; looks at every number.

    Raises:
        InputError: one that cannot be stored so.
    """
    if dtype != "int8":
        most = torch.finfo(getattr(torch, dtype)).max
        for first, rows in _chunks(column):
            _refuse(label, first, rows, rows.isfinite() & (rows.abs() > most), f"{dtype} ends at {most:g}; take another dtype")
        return Narrow(dtype=dtype)
    width = math.prod(column.shape[1:])
    low = torch.full((width,), torch.inf if len(column) else 0.0, dtype=torch.float64)
    high = -low
    for first, rows in _chunks(column):
        _refuse(label, first, rows, ~rows.isfinite(), "int8 has no such number; replace it, or take float16")
        flat = rows.reshape(len(rows), width).double()
        low, high = torch.minimum(low, flat.amin(0)), torch.maximum(high, flat.amax(0))
    if bool((high - low > torch.finfo(column.dtype).max).any()):
        raise InputError(f"{label} goes from {float(low.min()):g} to {float(high.max()):g}, too far for int8; take bfloat16")
    return Narrow.between(low, high)


def _refuse(label: str, first: int, rows: Tensor, bad: Tensor, why: str) -> None:
    if bool(bad.any()):
        at = bad.nonzero()[0]
        raise InputError(f"{label} holds {float(rows[tuple(at)]):g} in row {first + int(at[0])}, and {why}")


def _chunks(column: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Consecutive rows, and the number of the first; a column may be mapped over a file, and larger than memory."""
    step, given = max(_CHUNK // max(column[:1].nbytes, 1), 1), Given(tensor=column)
    for first in range(0, len(column), step):
        last = min(first + step, len(column))
        yield first, given.rows(first, last)(0, last - first, None)
        given.release(first, last)
