"""What lies in which file: descriptions of node and edge tables, as dataclasses or as a ``graph.toml`` beside the tables.

A description in TOML (JSON and YAML say the same)::

    [nodes.user]
    file = "users.csv"
    id = "user_id"
    features = ["age", "height"]      # become x
    label = "group"                   # becomes y
    split = "fold"                    # holds train, val or test; becomes train_mask, val_mask, test_mask

    [edges.user__buys__item]          # "item" has no table: its nodes are the ids that edges mention
    file = "purchases/*.parquet"
    src = "user_id"
    dst = "item_id"
    time = "bought_at"
    undirected = true                 # adds the relation item__rev_buys__user

A homogeneous graph has ``nodes.node`` and ``edges.node__to__node``. Only the columns that are named are read.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from halohop.errors import IncompleteDatasetError, InputError, SchemaError
from halohop.files.validation import validate
from halohop.flags import checks_flags

_NAMES = ("graph.toml", "graph.json", "graph.yaml", "graph.yml")
_DECODERS: dict[str, Callable[[bytes], Any]] = {
    ".toml": msgspec.toml.decode,
    ".json": msgspec.json.decode,
    ".yaml": msgspec.yaml.decode,
    ".yml": msgspec.yaml.decode,
}
_DEEPEST = 2_000  # far above the brackets in names and comments, which count, too

Entry = TypeVar("Entry", "NodeFiles", "EdgeFiles")


@checks_flags
@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFiles:
    """Where the nodes of one type are.

    Args:
        file: path from the folder of the description; a pattern such as ``users/*.parquet`` means all that match, by name.
        id: column of ids: integers of any value, which become raw ids, or strings, whose raw id is their row in the table;
            the strings are stored, too, and `halohop infer` gives them back.
        features: columns that are stacked to ``x``: numbers, or lists of numbers of one length.
        dtype: torch dtype of ``x``.
        label: column that becomes ``y``: integers, or strings, which are numbered in sorted order; their names are
            stored, too, and `halohop infer` gives them back. Empty means -1, unlabelled. Several columns of 0 and 1 make a node
            belong to several classes, which are named after the columns. -1, NaN and empty fields mean not known.
        split: column that holds train, val (valid, validation) or test. Empty means none of them.
        masks: bool columns by split: ``{"train": "is_train"}`` becomes ``train_mask``.
        splits: files by split, which list ids of nodes in a column of the same name as `id`: ``{"train": "train.csv"}``.
        fractions: shares of train, val and test of a random split of the labelled nodes, which is always the same.
        columns: further columns, kept under their names.
        normalize: divide each row of ``x`` by its sum: see `halohop.datasets.normalize_rows`.
        allow_missing: keep empty fields and NaN of features as NaN, for a model or transform that fills them. Else they are
            refused. Infinity always is.
        kinds: whether the column of ids or labels holds ``"text"`` or ``"number"``. By default it holds numbers if all its
            fields in all files are numbers without leading zeros.
    """

    file: str
    id: str
    features: tuple[str, ...] = ()
    dtype: str = "float32"
    label: str | tuple[str, ...] | None = None
    split: str | None = None
    masks: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    splits: dict[str, str] = field(default_factory=dict)
    fractions: tuple[float, ...] | None = None
    normalize: bool = False
    allow_missing: bool = False
    kinds: dict[str, Literal["text", "number"]] = field(default_factory=dict)


@checks_flags
@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeFiles:
    """Where the edges of one relation are.

    Args:
        file: as for nodes.
        src, dst: columns of node ids.
        features: columns that are stacked to ``edge_attr``.
        dtype: torch dtype of ``edge_attr``.
        weight: column that becomes ``weight``.
        time: column that becomes ``time``: whole numbers, or dates and times, which become seconds since 1970.
        columns: further columns, kept under their names.
        undirected: add the reverses of the edges, with the same columns: see `halohop.datasets.add_reverses`.
        allow_missing: as for nodes.
        kinds: as for nodes, but for the columns `src` and `dst`, and only for node types that have no table.
    """

    file: str
    src: str
    dst: str
    features: tuple[str, ...] = ()
    dtype: str = "float32"
    weight: str | None = None
    time: str | None = None
    columns: tuple[str, ...] = ()
    undirected: bool = False
    allow_missing: bool = False
    kinds: dict[str, Literal["text", "number"]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFiles:
    """All tables of a graph. Edges are keyed ``"src__name__dst"``; a node type without a table has the ids that edges mention."""

    nodes: dict[str, NodeFiles] = field(default_factory=dict)
    edges: dict[str, EdgeFiles] = field(default_factory=dict)


def load_spec(path: str | Path) -> GraphFiles:
    """The description in a TOML, JSON or YAML file, or in the ``graph.*`` of a folder.

    Raises:
        IncompleteDatasetError: there is no such file.
        InputError: the file cannot be parsed, lacks a value or has one of the wrong type.
        SchemaError: it holds a name that has no meaning.
    """
    path = spec_path(path)
    if path.suffix not in _DECODERS:
        raise InputError(f"{path}: a description is one of {', '.join(_DECODERS)}")
    data = path.read_bytes()
    depth = max(accumulate((byte in b"[{") - (byte in b"]}") for byte in data), default=0)
    if depth > _DEEPEST or re.search(rb"(?:[-?][ \t]+){%d}" % _DEEPEST, data):  # a few times as deep crashes the reader of YAML
        raise InputError(f"{path} is nested too deep; a description needs three levels")
    try:
        raw: Any = _DECODERS[path.suffix](data)
    except ImportError as error:
        raise InputError(f'{path}: YAML needs PyYAML: pip install "halohop[yaml]"') from error
    except RecursionError as error:
        raise InputError(f"{path} is nested too deep; a description needs three levels") from error
    except (ValueError, msgspec.MsgspecError) as error:  # tomllib's are ValueErrors
        raise InputError(f"{path}: {error}") from error
    sections: dict[str, Any] = validate(raw, dict[str, Any], f"{path}")
    _check_names(sections, GraphFiles, f"{path}")
    return GraphFiles(
        nodes=_entries(sections.get("nodes", {}), NodeFiles, f"{path}: nodes"),
        edges=_entries(sections.get("edges", {}), EdgeFiles, f"{path}: edges"),
    )


def _entries(section: Any, kind: type[Entry], where: str) -> dict[str, Entry]:
    entries: dict[str, Any] = validate(section, dict[str, Any], where)
    for name, raw in entries.items():
        _check_names(validate(raw, dict[str, Any], f"{where}.{name}"), kind, f"{where}.{name}")
    return {name: validate(raw, kind, f"{where}.{name}") for name, raw in entries.items()}


def spec_path(path: str | Path) -> Path:
    """The file that describes the graph: `path` itself, or the ``graph.*`` in the folder `path`.

    Raises:
        IncompleteDatasetError: there is none.
    """
    path = Path(path)
    candidates = [path / name for name in _NAMES] if path.is_dir() else [path]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise IncompleteDatasetError(f"there is no file {' or '.join(map(str, candidates))}")


def _check_names(raw: Iterable[str], kind: Any, where: str) -> None:
    known = [field.name for field in fields(kind)]
    for name in raw:
        if name not in known:
            raise SchemaError(f"{where}: unknown name {name!r}; known: {known}")
