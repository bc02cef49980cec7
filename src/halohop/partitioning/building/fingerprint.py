"""What tells one graph from another without reading all of it: so that a build goes on with the graph with which it began."""

import hashlib

import torch
from torch import Tensor

from halohop.store.npy import bytes_of
from halohop.store.tables import GraphTables, is_dense
from halohop.typing import RAW_ID, relation_text

_SAMPLES = 64
_ROWS = 16


def fingerprint(tables: GraphTables) -> dict[str, str]:
    """Of each table its size, and a digest of rows from all of its length. The same on every host.

    Example:
        >>> from halohop.store.tables import NodeTable
        >>> tables = [NodeTable(num_nodes=2, columns={"x": torch.tensor([1, last])}) for last in (2, 3)]
        >>> one, other = (fingerprint(GraphTables(nodes={"a": table}, edges={})) for table in tables)
        >>> one == other, one.keys()
        (False, dict_keys(['table a']))
    """
    found = {}
    for name, nodes in tables.nodes.items():
        raw = {} if nodes.raw_id is None else {RAW_ID: nodes.raw_id}
        columns = [(key, _digest(column)) for key, column in {**nodes.columns, **raw}.items()]
        found[f"table {name}"] = f"{nodes.num_nodes} rows, {_text_digest((columns, sorted(nodes.names.items()), nodes.stored))}"
    for relation, edges in tables.edges.items():
        columns = [("", _digest(end)) for end in edges.ends] + [(key, _digest(column)) for key, column in edges.columns.items()]
        found[f"table {relation_text(relation)}"] = f"{edges.num_edges} rows, {_text_digest((columns, edges.stored))}"
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
