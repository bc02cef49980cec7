"""CPU kernels that number the nodes of a batch. `halohop.ops.reference` says in plain Python what they compute.

Both tables map an id to base + bid. Entries below the base were left by earlier batches and count as empty, so a table is never
cleared between batches: the next batch just has a higher base.

A kernel returns how many ids it has done: fewer than given means that the next one is out of range.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch

u32, u64, i64 = np.uint32, np.uint64, np.int64

_AHEAD = u64(64)  # steps between asking for an entry and reading it

_ZERO, _ONE = u64(0), u64(1)
_GOLDEN = u64(0x9E3779B97F4A7C15)


@kernel
def dense_start(table: NDArray[Any], base: Any, seeds: NDArray[Any], nodes: NDArray[Any]) -> Any:
    """Seed i gets bid i; a repeated id stays with its first bid."""
    n, num_nodes = u64(seeds.size), u64(table.size)
    for i in range(n):
        prefetch(table, u64(seeds[min(i + _AHEAD, n - _ONE)]))
        v = u64(seeds[i])
        if v >= num_nodes:
            return i
        nodes[i] = i64(v)
        if u64(table[v]) < base:
            table[v] = u32(base + i)
    return n


@kernel
def dense_add(table: NDArray[Any], base: Any, ids: NDArray[Any], bids: NDArray[Any], nodes: NDArray[Any], known: Any) -> Any:
    """Looks up or adds every id; returns (ids done, nodes known). No branch on whether an id is new: that is a coin toss."""
    n, num_nodes = u64(ids.size), u64(table.size)
    for i in range(n):
        prefetch(table, u64(ids[min(i + _AHEAD, n - _ONE)]))
        v = u64(ids[i])
        if v >= num_nodes:
            return i, known
        entry = u64(table[v])
        new = entry < base
        bid = known if new else entry - base
        table[v] = u32(base + bid)
        nodes[known] = i64(v)
        bids[i] = i64(bid)
        known += u64(new)
    return n, known


@kernel
def dense_find(table: NDArray[Any], base: Any, ids: NDArray[Any], bids: NDArray[Any]) -> Any:
    """Looks up every id, and adds none: -1 where it is not known."""
    n, num_nodes = u64(ids.size), u64(table.size)
    for i in range(n):
        prefetch(table, u64(ids[min(i + _AHEAD, n - _ONE)]))
        v = u64(ids[i])
        if v >= num_nodes:
            return i
        entry = u64(table[v])
        bids[i] = i64(entry - base) if entry >= base else i64(-1)
    return n


@kernel
def _home(v: Any, shift: Any) -> Any:
    """The slot where the search for an id begins: the top bits of a product (Fibonacci hashing)."""
    return (v * _GOLDEN) >> shift


@kernel
def _find(table: NDArray[Any], shift: Any, base: Any, v: Any) -> Any:
    """Where the slot of an id begins, or else the empty one where it belongs. Linear probing."""
    last = u64(table.size - 1)
    at = _home(v, shift) << _ONE
    while table[at + _ONE] >= base and table[at] != v:
        at = (at + u64(2)) & last
    return at


@kernel
def hash_start(table: NDArray[Any], shift: Any, base: Any, num_nodes: Any, seeds: NDArray[Any], nodes: NDArray[Any]) -> Any:
    """As dense_start. The table is flat: 2**(64 - shift) slots of two words, the id and base + bid; at least one stays empty.

    Also refills a table that has grown, from the nodes known.
    """
    n = u64(seeds.size)
    for i in range(n):
        v = u64(seeds[i])
        if v >= num_nodes:
            return i
        nodes[i] = i64(v)
        at = _find(table, shift, base, v)
        if table[at + _ONE] < base:
            table[at], table[at + _ONE] = v, base + i
    return n


@kernel
def hash_add(
    table: NDArray[Any],
    shift: Any,
    base: Any,
    num_nodes: Any,
    ids: NDArray[Any],
    begin: Any,
    bids: NDArray[Any],
    nodes: NDArray[Any],
    known: Any,
) -> Any:
    """As dense_add, from ids[begin] on. Also stops when half of the slots are taken."""
    n, limit = u64(ids.size), u64(table.size >> 2)
    for i in range(begin, n):
        prefetch(table, _home(u64(ids[min(i + _AHEAD, n - _ONE)]), shift) << _ONE)
        v = u64(ids[i])
        if v >= num_nodes or known >= limit:
            return i, known
        at = _find(table, shift, base, v)
        entry = table[at + _ONE]
        new = entry < base
        bid = known if new else entry - base
        table[at], table[at + _ONE] = v, base + bid
        nodes[known] = i64(v)
        bids[i] = i64(bid)
        known += u64(new)
    return n, known


@kernel
def hash_find(table: NDArray[Any], shift: Any, base: Any, num_nodes: Any, ids: NDArray[Any], bids: NDArray[Any]) -> Any:
    """As dense_find."""
    n = u64(ids.size)
    for i in range(n):
        prefetch(table, _home(u64(ids[min(i + _AHEAD, n - _ONE)]), shift) << _ONE)
        v = u64(ids[i])
        if v >= num_nodes:
            return i
        entry = table[_find(table, shift, base, v) + _ONE]
        bids[i] = i64(entry - base) if entry >= base else i64(-1)
    return n
