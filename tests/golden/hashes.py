"""Hashes of batches: for each field a short one, of its dtype, its shape and its bytes."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

import halohop.dgl as dgl

DIGITS = 8
COMPUTED = ("ppr", "node_norm", "edge_norm")
"""Fields of computed floats: hashed as multiples of 1/1024, because the last bits may depend on the machine."""


def hash_bytes(content: bytes, digits: int = DIGITS) -> str:
    return sha256(content).hexdigest()[:digits]


def hash_tensor(tensor: Tensor) -> str:
    if tensor.layout == torch.sparse_csr:
        return "+".join(hash_tensor(part) for part in (tensor.crow_indices(), tensor.col_indices(), tensor.values()))
    if tensor.is_sparse:
        tensor = tensor.coalesce()
        return "+".join(hash_tensor(part) for part in (tensor.indices(), tensor.values()))
    content = tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return hash_bytes(f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + content)


def fields(batch: Any) -> dict[str, Any]:
    """By the name of each field a hash, or the value if it is a number, a text or a short list."""
    return dict(sorted(_fields(batch, "")))


def _fields(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dgl.DGLGraph):
        yield from _of_dgl(value, name)
    elif isinstance(value, Tensor):
        rounded = (value.double() * 1024).round().long() if name.rpartition(".")[2] in COMPUTED else value
        yield name or "value", hash_tensor(rounded)
    elif hasattr(value, "to_dict"):
        yield from _fields(value.to_dict(), name)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _fields(part, _joined(name, key))
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        yield from _fields(value._asdict(), name)
    elif isinstance(value, list | tuple) and not all(isinstance(part, int | float | str | None) for part in value):
        for at, part in enumerate(value):
            yield from _fields(part, _joined(name, at))
    elif value is None or isinstance(value, int | float | str | list | tuple):
        yield (
            name or "value",
            value if not isinstance(value, list | tuple) or len(value) < 10 else hash_bytes(repr(value).encode()),
        )
    elif isinstance(value, torch.device):
        yield name, str(value)
    else:
        yield from _fields({key: getattr(value, key) for key in value.__dataclass_fields__}, name)


def _of_dgl(graph: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Edges in their order, ids, and all columns of blocks. Relations without edges are left out: a `DistGraph` drops them."""
    block = isinstance(graph, dgl.DGLBlock)
    for relation in graph.canonical_etypes:
        if graph.num_edges(relation):
            yield from _fields(graph.edges(form="uv", etype=relation), _joined(name, relation))
            yield from _fields(_columns(graph.edges[relation], block), _joined(name, relation))
    for side, views, kinds in (("src", graph.srcnodes, graph.srctypes), ("dst", graph.dstnodes, graph.dsttypes)):
        for kind in kinds if block or side == "src" else ():
            yield from _fields(_columns(views[kind], block), _joined(name, f"{side}_{kind}" if block else kind))


def _columns(view: Any, block: bool) -> dict[str, Any]:
    """Nodes and edges of a graph that is no block are those of the graph that was sampled, so that only ids say something."""
    return {key: rows for key, rows in view.data.items() if len(rows) and (block or key in (dgl.NID, dgl.EID))}


def _joined(name: str, key: Any) -> str:
    """`paper.x`; a relation by its name alone."""
    key = key[1] if isinstance(key, tuple) else str(key)
    return f"{name}.{key}" if name and name != "_global_store" else key
