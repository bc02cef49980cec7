"""Small graphs with everything that a build must carry over, the same ones with every version of every library."""

import hashlib
import warnings

import numpy as np
import torch
from torch import Tensor

from halohop.partitioning.assigners.division import Assignment
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.typing import RAW_TEXT

_DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int16, torch.bool, torch.complex64, torch.uint8)
_SHAPES = ((), (3,), (2, 2), (0,))


def numbers(name: str, count: int, end: int) -> Tensor:
    """Numbers from 0 to `end` - 1 that look random, int64 ``[count]``; a function of the name."""
    digest = hashlib.shake_128(name.encode()).digest(8 * count)
    return torch.from_numpy((np.frombuffer(digest, np.uint64) % np.uint64(max(end, 1))).astype(np.int64))


def featured_tables(seed: int, scale: int = 1) -> GraphTables:
    """Several node types (some empty, some with raw ids in any order), relations (some empty, some in order already), parallel
    edges, loops and isolated nodes; columns of many dtypes and shapes, sparse ones, times, masks, texts.

    Args:
        seed: another graph.
        scale: how many times more nodes and edges.
    """

    def pick(name: str, *choices: int) -> int:
        return choices[int(numbers(f"{seed}/{name}", 1, len(choices))[0])]

    nodes = {}
    for kind in "abc"[: pick("types", 1, 2, 3)]:
        count = pick(f"{kind}/count", 0, 1, 7, 30, 60) * scale
        nodes[kind] = NodeTable(num_nodes=count, raw_id=_raw(f"{seed}/{kind}", count), columns=_node_columns(seed, kind, count))
    edges = {}
    for number in range(pick("relations", 0, 1, 2, 3, 4)):
        near, listed = (list(nodes)[pick(f"{number}/{end}", *range(len(nodes)))] for end in ("src", "dst"))
        few = min(nodes[near].num_nodes, nodes[listed].num_nodes) == 0
        count = 0 if few else pick(f"{number}/count", 0, 1, 50, 200) * scale
        src = numbers(f"{seed}/{number}/src", count, nodes[near].num_nodes)
        dst = numbers(f"{seed}/{number}/dst", count, max(nodes[listed].num_nodes * pick(f"{number}/isolated", 1, 3) // 3, 1))
        if pick(f"{number}/sorted", 0, 0, 1):
            dst = dst.sort().values
        if pick(f"{number}/int32", 0, 1):
            src, dst = src.int(), dst.int()
        columns = _columns(f"{seed}/{number}", count)
        if pick(f"{number}/time", 0, 1):
            columns["time"] = numbers(f"{seed}/{number}/time", count, 5).sort().values.double()
        edges[near, f"r{number}", listed] = EdgeTable(src=src, dst=dst, columns=columns)
    return GraphTables(nodes=nodes, edges=edges)


def random_parts(tables: GraphTables, num_parts: int, seed: int) -> Assignment:
    """Some partition for every node; some partitions are empty."""
    used = max(num_parts - seed % 2, 1)
    return {name: numbers(f"{seed}/{name}/part", table.num_nodes, used).int() for name, table in tables.nodes.items()}


def _raw(name: str, count: int) -> Tensor | None:
    kind = int(numbers(f"{name}/raw", 1, 5)[0])
    shuffled = torch.argsort(numbers(f"{name}/order", count, 2**62), stable=True)
    return [None, torch.arange(count), shuffled, 2**31 + 5 * shuffled, (7 * torch.arange(count) - count).int()][kind]


def _node_columns(seed: int, kind: str, count: int) -> dict[str, Tensor]:
    name = f"{seed}/{kind}"
    columns = _columns(name, count)
    columns["seen"] = numbers(f"{name}/seen", count, 100).int()
    columns["train_mask"] = numbers(f"{name}/train", count, 2).bool()
    dense = numbers(f"{name}/sparse", count * 5, 4).view(count, 5).float()
    dense[dense > 1] = 0
    if int(numbers(f"{name}/constant", 1, 2)[0]):
        dense *= torch.arange(1, 6)
    which = int(numbers(f"{name}/layout", 1, 3)[0])
    if which:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls CSR a beta, at its first use
            columns["bag"] = dense.to_sparse() if which == 1 else dense.to_sparse_csr()
    columns[RAW_TEXT] = numbers(f"{name}/text", count * 4, 26).view(count, 4).to(torch.uint8) + 97
    return columns


def _columns(name: str, count: int) -> dict[str, Tensor]:
    columns = {}
    for number in range(int(numbers(f"{name}/columns", 1, 4)[0])):
        dtype = _DTYPES[int(numbers(f"{name}/{number}/dtype", 1, len(_DTYPES))[0])]
        shape = (count, *_SHAPES[int(numbers(f"{name}/{number}/shape", 1, len(_SHAPES))[0])])
        columns[f"c{number}"] = numbers(f"{name}/{number}", int(np.prod(shape)), 100).view(shape).to(dtype)
    return columns
