"""Partitions that GraphLearn-for-PyTorch (GLT) wrote, without GLT and without running code from its pickles.

A folder has ``META``, who owns which node and edge (``node_pb.pt``, ``edge_pb.pt``), and for each partition its edges
(``part0/graph/{rows,cols,eids,weights}.pt``) and features (``part0/node_feat/{feats,ids}.pkl``, older versions: ``.pt``); with
several types there is a folder or file for each. Rows that a partition caches of others are left out: they are copies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from halohop.datasets.imports.beside import with_columns
from halohop.datasets.imports.imported import Imported, Owners
from halohop.datasets.imports.order import Order
from halohop.datasets.imports.restricted import load_tensor, unpickled
from halohop.datasets.staging import Staging
from halohop.errors import IncompleteDatasetError, InputError
from halohop.store.tables import EdgeTable, GraphTables, NodeTable, check_ids
from halohop.typing import EDGE, NODE, NodeType, Relation, relation_text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meta:
    """What ``META`` holds; no types in a graph of one."""

    num_parts: int
    data_cls: str
    node_types: tuple[NodeType, ...] | None = None
    edge_types: tuple[Relation, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Where the files of a graph are."""

    root: Path
    meta: _Meta

    @property
    def nodes(self) -> tuple[NodeType, ...]:
        return self.meta.node_types or (NODE,)

    @property
    def edges(self) -> tuple[Relation, ...]:
        return self.meta.edge_types or (EDGE,)

    def book(self, what: str, name: str) -> Path:
        return self.root / what / f"{name}.pt" if self._typed else self.root / f"{what}.pt"

    def parts(self, what: str, name: str) -> list[Path]:
        """The folder of a type in each partition; of edges that GLT kept whole, the one of all."""
        folders = [self.root / f"part{part}" / what for part in range(self.meta.num_parts)]
        if what == "graph" and not any(folder.is_dir() for folder in folders) and (self.root / what).is_dir():
            folders = [self.root / what]
        return [folder / name for folder in folders] if self._typed else folders

    @property
    def _typed(self) -> bool:
        return self.meta.data_cls == "hetero"


def read_glt(folder: str | Path, columns: Mapping[str, str | Path] | None = None, *, staging: Staging | None = None) -> Imported:
    """The graph in a folder of GLT's partitions: node features become ``x``, features of edges ``edge_attr``, weights ``weight``.

    Nodes and edges have the ids that they had in GLT. Edges go from GLT's rows to its cols; ``edge_dir="out"`` of
    `halohop.partition` makes lists of out-edges, as GLT's partitions "by_src" are.

    Args:
        folder: the ``output_dir`` of GLT's partitioner.
        columns: labels and splits, which GLT keeps elsewhere: see `halohop.datasets.imports.beside.with_columns`.
        staging: where rows are collected; by default in memory.

    Raises:
        IncompleteDatasetError: a file or partition is missing.
        InputError: a file holds something else than GLT writes, or what only code could restore; or counts differ.
        IdError: a node or edge is in no partition, or in several.

    Example:
        ``imported = read_glt("products", {"y": "label.pt", "train_mask": "train_idx.pt"})``
    """
    layout, owners, staging = layout_of(folder), glt_owners(folder), staging or Staging()
    tables = GraphTables(
        nodes={name: _nodes(layout, name, len(part), staging) for name, part in owners.part.items()},
        edges={relation: _edges(layout, relation, staging) for relation in layout.edges},
    )
    return Imported(tables=with_columns(tables, columns or {}), owners=owners)


def glt_owners(folder: str | Path) -> Owners:
    """Who owns the nodes by GLT's partitions; the arguments and errors are those of `read_glt`."""
    layout = layout_of(folder)
    return Owners(part={name: _owner(layout, name) for name in layout.nodes}, num_parts=layout.meta.num_parts)


def layout_of(folder: str | Path) -> Folder:
    """Where the files of a graph are; raises as `read_glt`."""
    return Folder(root=Path(folder), meta=_meta(Path(folder)))


def _meta(root: Path) -> _Meta:
    file = root / "META"
    if not file.is_file():
        raise IncompleteDatasetError(f"there is no file {file}; name the output_dir of GLT's partitioner, and copy all of it")
    values: list[Any] = list(unpickled(file))
    try:
        (value,) = values
        meta = msgspec.convert(value, _Meta)
    except (ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{file} is not what GLT's partitioner writes: {error}") from error
    if meta.data_cls not in ("homo", "hetero") or meta.num_parts < 1 or (meta.data_cls == "hetero") != bool(meta.edge_types):
        raise InputError(f"{file} is not what GLT's partitioner writes: {value}")
    return meta


def _owner(layout: Folder, name: NodeType) -> Tensor:
    file = layout.book("node_pb", name)
    part = load_tensor(file)
    check_ids(part, None, f"{file}")
    wrong = part[(part < 0) | (part >= layout.meta.num_parts)]
    if len(wrong):
        raise InputError(f"{file} holds partition {int(wrong[0])}, but META says there are {layout.meta.num_parts}")
    return part.to(torch.int32)


def _nodes(layout: Folder, name: NodeType, num_nodes: int, staging: Staging) -> NodeTable:
    features = _features(layout, "node_feat", name, num_nodes, f"node of type {name!r}", staging)
    return NodeTable(num_nodes=num_nodes, columns={} if features is None else {"x": features})


def _edges(layout: Folder, relation: Relation, staging: Staging) -> EdgeTable:
    name = relation_text(relation)
    parts = layout.parts("graph", name)
    src, dst = (_each(parts, file) for file in ("rows.pt", "cols.pt"))
    for folder, rows, cols in zip(parts, src, dst, strict=True):
        if len(rows) != len(cols):
            raise InputError(
                f"{folder} has {len(rows)} rows and {len(cols)} cols, as CSR or CSC have; give GLT's partitioner edges as COO"
            )
    num_edges = sum(map(len, src))
    book = layout.book("edge_pb", name)
    if book.is_file() and len(load_tensor(book)) != num_edges:
        raise InputError(
            f"{book} has {len(load_tensor(book))} edges, the partitions of {layout.root} have {num_edges}; copy the whole folder"
        )
    whole = len(parts) == 1 and not (parts[0] / "eids.pt").is_file()  # GLT keeps no ids of edges that are in their order
    ids = [torch.arange(num_edges)] if whole else _each(parts, "eids.pt")
    order = Order(ids, num_edges, f"edge of {name}")
    columns = {}
    if any((folder / "weights.pt").is_file() for folder in parts):
        columns["weight"] = order.restored(_each(parts, "weights.pt"), f"weights of {name}", staging)
    features = _features(layout, "edge_feat", name, num_edges, f"edge of {name}", staging)
    if features is not None:
        columns["edge_attr"] = features
    return EdgeTable(
        src=order.restored(src, f"rows of {name}", staging),
        dst=order.restored(dst, f"cols of {name}", staging),
        columns=columns,
    )


def _features(layout: Folder, what: str, name: str, num_rows: int, of: str, staging: Staging) -> Tensor | None:
    folders = layout.parts(what, name)
    if not any(folder.is_dir() for folder in folders):
        return None
    rows, ids = ([_stored(folder, stem, staging) for folder in folders] for stem in ("feats", "ids"))
    return Order(ids, num_rows, of).restored(rows, f"{what} of {name}", staging)


def _stored(folder: Path, stem: str, staging: Staging) -> Tensor:
    """Features or their ids: one tensor, or as newer versions write them, pickles of some rows each."""
    stream = folder / f"{stem}.pkl"
    if not stream.is_file():
        return load_tensor(folder / f"{stem}.pt")

    def chunks() -> Iterator[Tensor]:
        empty = True
        for chunk in unpickled(stream):
            if not isinstance(chunk, Tensor):
                raise InputError(f"{stream} is not what GLT's partitioner writes: expected tensors, not {type(chunk).__name__}")
            empty = False
            yield chunk
        if empty:
            raise InputError(f"{stream} is not what GLT's partitioner writes: it is empty")

    return staging.column(f"{stream}", chunks)


def _each(folders: Sequence[Path], file: str) -> list[Tensor]:
    return [load_tensor(folder / file) for folder in folders]
