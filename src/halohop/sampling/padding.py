"""Batches of one shape: each hop gets a fixed number of places, and those that sampling leaves over stay empty.

Compilers (torch.compile, CUDA graphs) make a program for each shape that they see. Empty places hold nodes that are none (gid -1)
and edges that lead from such nodes to such nodes, so no real node ever hears of them. A batch with more of something than its
places gets the next of a geometric series of sizes: nothing is lost, and few shapes occur.
"""

from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.sampling.batch import Batch, EdgeBlock, NodeBlock
from halohop.sampling.caps import Padding, Sizes


def pad(batch: Batch, caps: Sizes, pool: ops.Pool) -> Batch:
    """The batch with as many places as `caps` has, or more where it has more.

    Seeds come first, and real nodes keep their order. Every type has an empty place among its first nodes, one more than
    `caps` has. Empty edges of a hop lead between empty nodes of the hops before, so that layers can be trimmed.
    """
    sizes = Sizes.of(batch)
    room = caps.room_for(sizes)
    places = {name: _NodeSlots.of(sizes.nodes[name], room.nodes[name], pool) for name in batch.nodes}
    edges = {
        relation: _padded_edges(
            block, sizes.edges[relation], room.edges[relation], places[relation[0]], places[relation[2]], pool
        )
        for relation, block in batch.edges.items()
    }
    nodes = {}
    for name, block in batch.nodes.items():
        gid = _spread(block.gid, sizes.nodes[name], room.nodes[name], -1, pool)
        tree = None if block.tree is None else _spread(block.tree, sizes.nodes[name], room.nodes[name], room.inputs.seeds, pool)
        num_sampled = None if block.num_sampled is None else room.nodes[name]
        columns = {key: _spread_rows(column, gid, places[name], pool) for key, column in block.columns.items()}
        nodes[name] = replace(block, gid=gid, tree=tree, num_sampled=num_sampled, padded=True, columns=columns)
    ends = zip(batch.seeds.ends, batch.ends_bid, strict=True)
    ends_bid = tuple(ops.gather_rows(places[end.node_type].of_bid, bids, pool=pool) for end, bids in ends)
    return replace(batch, nodes=nodes, edges=edges, ends_bid=ends_bid, room=room.inputs)


def fill_empty(batch: Batch, padding: Padding) -> None:
    """Writes what columns hold in empty places, into rows that have not been given to the user yet."""
    blocks: list[NodeBlock | EdgeBlock] = [*batch.nodes.values(), *batch.edges.values()]
    for block in blocks:
        for name, column in block.columns.items():
            fill_places(name, column, block.gid, padding.value(name, column.dtype))


def fill_places(name: str, column: Tensor, gid: Tensor, value: float) -> None:
    """Writes a value into the rows of a column where `gid` is -1, which are zero so far.

    Raises:
        InputError: the column is sparse, and the value is not zero.
    """
    if value and column.layout != torch.strided:
        raise InputError(f"pad fills {name!r} with {value}; rows in a sparse layout have zeros only: use layout=torch.strided")
    if value:
        ops.fill_missing(column, gid, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeSlots:
    """Where the nodes of a type go: int64 ``[n]``; and the empty places, by hop."""

    of_bid: Tensor
    empty: list[Tensor]

    @classmethod
    def of(cls, counts: tuple[int, ...], room: tuple[int, ...], pool: ops.Pool) -> "_NodeSlots":
        begins = list(accumulate(room, initial=0))
        every = ops.places_in(pool.empty((begins[-1],), torch.int64))
        taken = [every[begin : begin + count] for begin, count in zip(begins, counts, strict=False)]
        spare = [every[begin + count : end] for begin, count, end in zip(begins, counts, begins[1:], strict=False)]
        return cls(of_bid=ops.join_ids(taken, pool.empty((sum(counts),), torch.int64)), empty=spare)

    def empty_until(self, hop: int, pool: ops.Pool) -> Tensor:
        spare = self.empty[: hop + 1]
        return ops.join_ids(spare, pool.empty((sum(map(len, spare)),), torch.int64))


def _padded_edges(
    block: EdgeBlock, counts: tuple[int, ...], room: tuple[int, ...], src: _NodeSlots, dst: _NodeSlots, pool: ops.Pool
) -> EdgeBlock:
    ends_bid = pool.empty((2, sum(room)), torch.int64)
    for old, new, places in zip(block.ends_bid, ends_bid, (src, dst), strict=True):
        begin, at = 0, 0
        for hop, (count, size) in enumerate(zip(counts, room, strict=True)):
            ops.gather_rows(places.of_bid, old[begin : begin + count], out=new[at : at + count], pool=pool)
            spare = places.empty_until(hop if block.num_sampled is not None else len(places.empty), pool)
            ops.in_turn(spare, out=new[at + count : at + size])  # one alone would be a hub
            begin, at = begin + count, at + size
    flips = block.flips
    if flips is not None:
        flips = replace(flips, mask=ops.filled_up(flips.mask, sum(room), 0))
    return replace(
        block,
        ends_bid=ends_bid,
        gid=_spread(block.gid, counts, room, -1, pool),
        num_sampled=None if block.num_sampled is None else room,
        flips=flips,
        padded=True,
        num_empty=sum(room) - sum(counts),
    )


def _spread_rows(column: Tensor, gid: Tensor, places: _NodeSlots, pool: ops.Pool) -> Tensor:
    """Rows that the sampler has made, in their places."""
    spread = pool.empty((len(gid), *column.shape[1:]), column.dtype)
    ops.scatter_rows(column, places.of_bid, spread, pool=pool)
    ops.fill_missing(spread, gid)
    return spread


def _spread(ids: Tensor, counts: tuple[int, ...], room: tuple[int, ...], empty: int, pool: ops.Pool) -> Tensor:
    """Ids in their places, and `empty` in the others."""
    begins = accumulate(counts, initial=0)
    hops = [
        ops.filled_up(ids[begin : begin + count], size, empty) for begin, count, size in zip(begins, counts, room, strict=False)
    ]
    return ops.join_ids(hops, pool.empty((sum(room),), torch.int64))
