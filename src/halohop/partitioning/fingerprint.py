"""What tells one graph from another without reading all of it: so that a build goes on with the graph with which it began."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from halohop.store.npy import bytes_of
from halohop.store.tables import GraphTables, is_dense
from halohop.typing import relation_text

_SAMPLES = 64
_ROWS = 16


def fingerprint(tables: GraphTables) -> dict[str, Any]:
    """Of each table its size and columns, and of each column a digest of rows from all of its length. The same on every host.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> tables = [NodeTable(num_nodes=2, columns={"x": torch.tensor([1, last])}) for last in (2, 3)]
        >>> one, other = (fingerprint(GraphTables(nodes={"a": table}, edges={})) for table in tables)
        >>> one == other
        False
    """
    found: dict[str, Any] = {}
    for name, nodes in tables.nodes.items():
        raw = {} if nodes.raw_id is None else {"raw_id": nodes.raw_id}
        columns = {key: _digest(column) for key, column in {**nodes.columns, **raw}.items()}
        found[name] = {"rows": nodes.num_nodes, "columns": columns, "names": _text_digest(sorted(nodes.names.items()))}
        found[name] |= {"stored": _text_digest(sorted(nodes.stored.items()))} if nodes.stored else {}
    for relation, edges in tables.edges.items():
        columns = {key: _digest(column) for key, column in {**edges.columns, "/src": edges.src, "/dst": edges.dst}.items()}
        found[relation_text(relation)] = {"rows": edges.num_edges, "columns": columns}
        found[relation_text(relation)] |= {"stored": _text_digest(sorted(edges.stored.items()))} if edges.stored else {}
    return found


def _digest(column: Tensor) -> str:
    dense = [column] if is_dense(column) else _parts(column)
    summed = hashlib.blake2b(repr([(part.dtype, tuple(part.shape)) for part in dense]).encode(), digest_size=8)
    for part in dense:
        step = max(len(part) // _SAMPLES, 1)
        for first in (*range(0, len(part), step), max(len(part) - _ROWS, 0)):
            rows = part.detach()[first : first + _ROWS]
            summed.update(bytes_of(rows.resolve_conj().resolve_neg().contiguous()))
    return summed.hexdigest()


def _parts(column: Tensor) -> list[Tensor]:
    if column.layout == torch.sparse_csr:
        return [column.crow_indices(), column.col_indices(), column.values()]
    indices = column._indices()
    return [*indices, column._values()]


def _text_digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()
