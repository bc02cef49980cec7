"""Numbering the nodes of a batch on a GPU, in order of discovery, as the CPU does it.

A table has an entry for each id: its bid, or `_NONE`. To add ids, each lowers its entry to ``known + position``: entries of known
ids are lower already, and of a new one the first occurrence stays. Those are counted, and get the next bids. So the result does
not depend on which program comes first, though all run at once.

How many bids are given is known to the device; the host waits for it when it asks.
"""

from collections.abc import Sequence

import torch
import triton.language as tl
from torch import Tensor

from halohop.errors import InputError
from halohop.ops.device import DevicePool, Fault
from halohop.ops.gpu_launch import kernel, launch
from halohop.ops.relabel import DENSE_LIMIT, Relabeler

_NONE = 2**31 - 1
_NO_KEY = -1
_MIN_SLOT_BITS = 10
_GOLDEN = tl.constexpr(0x9E3779B97F4A7C15 - 2**64)


@kernel
def home_slot(ids: tl.tensor, shift: tl.tensor, last: tl.int64) -> tl.tensor:
    """Where the search for an id begins: the top bits of a product (Fibonacci hashing)."""
    return ((ids * _GOLDEN) >> shift) & last


@kernel
def enter_ids(
    keys: tl.tensor,
    shift: tl.tensor,
    last: tl.int64,
    values: tl.tensor,
    ids: tl.tensor,
    num_nodes: tl.int64,
    known: tl.tensor,
    fresh: tl.tensor,
    slots: tl.tensor,
    faults: tl.tensor,
    count: tl.int64,
    dense: tl.constexpr,
    padded: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """Finds or makes the slot of each id, -1 where it is no node, and lowers its entry to its position, which counts from
    ``fresh * known`` on. That -1 is no node is no fault if ids are `padded`."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    v = tl.load(ids + at, mask=inside, other=0).to(tl.int64)
    live = inside & (v >= 0) & (v < num_nodes)
    wrong = inside & ~live
    if padded:
        wrong = wrong & (v != -1)
    tl.atomic_max(faults + tl.zeros_like(at), v, mask=wrong, sem="relaxed")
    if dense:
        slot = v
    else:
        slot = home_slot(v, shift, last)
        pending = live
        while tl.max(pending.to(tl.int32), axis=0) > 0:
            expected = tl.where(pending, -1, -2).to(tl.int64)  # -2 is in no slot: who is done changes nothing
            found = tl.atomic_cas(keys + slot, expected, v, sem="relaxed")
            done = (found == -1) | (found == v)
            pending = pending & ~done
            slot = tl.where(pending, (slot + 1) & last, slot)
    entry = tl.load(known) * fresh + at
    tl.atomic_min(values + slot, entry.to(tl.int32), mask=live, sem="relaxed")
    tl.store(slots + at, tl.where(live, slot, -1), mask=inside)


@kernel
def mark_first(
    values: tl.tensor, slots: tl.tensor, known: tl.tensor, first: tl.tensor, count: tl.int64, block: tl.constexpr
) -> None:
    """1 where an id is new, and occurs for the first time."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    slot = tl.load(slots + at, mask=inside, other=-1)
    value = tl.load(values + slot, mask=slot >= 0, other=-1).to(tl.int64)
    tl.store(first + at, (value == tl.load(known) + at).to(tl.int64), mask=inside)


@kernel
def place_new(
    values: tl.tensor,
    slots: tl.tensor,
    ids: tl.tensor,
    first: tl.tensor,
    ranks: tl.tensor,
    known: tl.tensor,
    nodes: tl.tensor,
    count: tl.int64,
    block: tl.constexpr,
) -> None:
    """Gives new ids their bids: `ranks` is the running sum of `first`."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    new = tl.load(first + at, mask=inside, other=0) > 0
    bid = tl.load(known) + tl.load(ranks + at, mask=new, other=1) - 1
    slot = tl.load(slots + at, mask=new, other=0)
    tl.store(nodes + bid, tl.load(ids + at, mask=new, other=0).to(tl.int64), mask=new)
    tl.store(values + slot, bid.to(tl.int32), mask=new)


@kernel
def read_bids(
    values: tl.tensor,
    slots: tl.tensor,
    ranks: tl.tensor,
    known: tl.tensor,
    bids: tl.tensor,
    count: tl.int64,
    block: tl.constexpr,
) -> None:
    """The bids of ids by their slots, 0 where an id is no node; and then there are as many known ones more as are new."""
    alone = tl.program_id(0) == 0
    tl.store(known, tl.load(known, mask=alone) + tl.load(ranks + count - 1, mask=alone), mask=alone)
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    slot = tl.load(slots + at, mask=inside, other=-1)
    tl.store(bids + at, tl.load(values + slot, mask=slot >= 0, other=0).to(tl.int64), mask=inside)


@kernel
def find_bids(
    keys: tl.tensor,
    shift: tl.tensor,
    last: tl.int64,
    values: tl.tensor,
    ids: tl.tensor,
    num_nodes: tl.int64,
    bids: tl.tensor,
    faults: tl.tensor,
    count: tl.int64,
    dense: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """The bids of ids, -1 where they have none."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < count
    v = tl.load(ids + at, mask=inside, other=0).to(tl.int64)
    live = inside & (v >= 0) & (v < num_nodes)
    tl.atomic_max(faults + tl.zeros_like(at), v, mask=inside & ~live, sem="relaxed")
    if dense:
        slot = v
    else:
        slot = home_slot(v, shift, last)
        pending = live
        while tl.max(pending.to(tl.int32), axis=0) > 0:
            found = tl.load(keys + slot, mask=pending, other=-1)
            live = live & ~(pending & (found == -1))
            pending = pending & (found != -1) & (found != v)
            slot = tl.where(pending, (slot + 1) & last, slot)
    value = tl.load(values + slot, mask=live, other=2147483647).to(tl.int64)
    tl.store(bids + at, tl.where(value == 2147483647, -1, value), mask=inside)


class DeviceRelabeler(Relabeler):
    """`Relabeler` for tensors of a GPU. One object serves one thread, which launches on one stream.

    Ids that are no nodes are said by ``pool.check()``, and have the bid 0 until then.

    Args:
        num_nodes, dense_limit: as of `Relabeler`.
        pool: of the device.
    """

    _padded = False  # whether an id -1 is none

    def __init__(self, num_nodes: int, *, pool: DevicePool, dense_limit: int = DENSE_LIMIT) -> None:
        if num_nodes < 0:
            raise InputError(f"num_nodes={num_nodes} is negative")
        self._num_nodes, self._device_pool = num_nodes, pool
        self._dense = num_nodes <= dense_limit
        self._known = pool.zeros((1,), torch.int64)
        self._most, self._is_exact = 0, True  # at most so many bids are given
        self._ids = pool.empty((0,), torch.int64)
        self._shift = self._last = 0
        self._keys = self._known
        if self._dense:
            self._values = pool.empty((max(num_nodes, 1),), torch.int32).fill_(_NONE)
        else:
            self._resize(_MIN_SLOT_BITS)

    @property
    def count(self) -> int:
        """How many bids are given; waits for the device if it does not know yet."""
        if not self._is_exact:
            self.settle([self])
        return self._most

    @property
    def is_dense(self) -> bool:
        """Whether there is an entry per node."""
        return self._dense

    def start(self, seeds: Tensor) -> None:
        """As of `Relabeler`."""
        count = len(seeds)
        self._most, self._is_exact = count, True
        self._ids = self._device_pool.empty((max(count, len(self._ids)),), torch.int64) if count > len(self._ids) else self._ids
        if not self._dense and 2 * count > self._last:
            self._resize(slot_bits(count))
        else:
            self._clear()
        self._known.fill_(count)
        self._ids[:count].copy_(seeds)
        self._enter(self._ids[:count], fresh=0)

    def add(self, ids: Tensor, out: Tensor | None = None) -> Tensor:
        """As of `Relabeler`; nothing waits for the device.

        Raises:
            InputError: more ids than have numbers of 32 bits.
        """
        pool, count = self._device_pool, len(ids)
        bids = pool.empty((count,), torch.int64) if out is None else out
        assert bids.shape == ids.shape
        assert bids.is_contiguous()
        if not count:
            return bids
        self._reserve(self._most + count, keep=self._most)
        self._number(ids.contiguous(), bids)
        self._most, self._is_exact = self._most + count, False
        return bids

    def _number(self, ids: Tensor, bids: Tensor) -> None:
        """Writes the bids of ids, for which there is room."""
        pool, count = self._device_pool, len(ids)
        slots = self._enter(ids, fresh=1)
        first = pool.empty((count,), torch.int64)
        launch(mark_first, count, self._values, slots, self._known, first, count)
        ranks = torch.cumsum(first, 0)
        launch(place_new, count, self._values, slots, ids, first, ranks, self._known, self._ids, count)
        launch(read_bids, count, self._values, slots, ranks, self._known, bids, count)

    def find(self, ids: Tensor) -> Tensor:
        """As of `Relabeler`."""
        pool, count = self._device_pool, len(ids)
        bids = pool.empty((count,), torch.int64)
        table = self._keys, self._shift, self._last, self._values
        faults = pool.faults[Fault.ROW :]
        launch(find_bids, count, *table, ids.contiguous(), self._num_nodes, bids, faults, count, dense=self._dense)
        return bids

    def nodes(self, begin: int = 0) -> Tensor:
        """As of `Relabeler`."""
        return self._ids[begin : max(self.count, begin)].clone()

    @staticmethod
    def settle(relabelers: Sequence[Relabeler]) -> None:
        """Waits, once, for how many bids several have given."""
        vague = [one for one in relabelers if isinstance(one, DeviceRelabeler) and not one._is_exact]
        if vague:
            known = [one._known for one in vague]
            counts = vague[0]._device_pool.numbers(torch.cat(known) if len(known) > 1 else known[0])
            for one, count in zip(vague, counts, strict=True):
                one._most, one._is_exact = count, True

    def _enter(self, ids: Tensor, *, fresh: int) -> Tensor:
        slots = self._device_pool.empty((len(ids),), torch.int64)
        table = self._keys, self._shift, self._last, self._values
        known, faults = self._known, self._device_pool.faults[Fault.ROW :]
        kinds = {"dense": self._dense, "padded": self._padded}
        launch(enter_ids, len(ids), *table, ids, self._num_nodes, known, fresh, slots, faults, len(ids), **kinds)
        return slots

    def _reserve(self, length: int, keep: int) -> None:
        """Room for so many ids, and more slots than twice as many."""
        if length >= _NONE:
            raise InputError(
                f"a batch comes upon {length} nodes, of which {self._device_pool.device} can number {_NONE - 1}; take fewer "
                "seeds a batch, or smaller fanouts"
            )
        if length > len(self._ids):
            larger = self._device_pool.empty((max(length, 2 * len(self._ids)),), torch.int64)
            larger[:keep].copy_(self._ids[:keep])
            self._ids = larger
        if not self._dense and 2 * length > self._last:
            known = self._ids[: self.count]
            self._resize(slot_bits(length))
            self._enter(known, fresh=0)

    def _resize(self, bits: int) -> None:
        self._shift, self._last = 64 - bits, (1 << bits) - 1
        self._keys = self._device_pool.empty((1 << bits,), torch.int64)
        self._values = self._device_pool.empty((1 << bits,), torch.int32)
        self._clear()

    def _clear(self) -> None:
        self._values.fill_(_NONE)
        if not self._dense:
            self._keys.fill_(_NO_KEY)


def slot_bits(count: int) -> int:
    """For a table of four slots an id."""
    return max((4 * count - 1).bit_length(), _MIN_SLOT_BITS)
