"""CPU kernels that draw by weight. `halohop.ops.reference_weighted` says in plain Python what they compute.

A list of weights is divided into blocks of 8. The running sum at the end of each block is known beforehand or formed here; a draw
finds its block by these sums, and its entry by the weights of the block. So a draw reads a few cache lines of a long list.
"""

from math import frexp, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halohop.ops.cpu_jit import kernel, prefetch
from halohop.ops.cpu_random import _add_pick, _fraction, _stream_of, _word_of

u64, i64, f64 = np.uint64, np.int64, np.float64

_ZERO, _ONE, _HALF = u64(0), u64(1), u64(32)
_SHIFT, _BLOCK = u64(3), u64(8)  # weights of a block
_LEAST = 2.0**-900  # of a total: below it the sums of a list may have lost digits

_TRIES = u64(4)  # in vain: so many as a sixteenth of the list cost about as much as to sum it anew

_ROWS, _AHEAD = u64(8), u64(16)  # lists whose first draws are prepared together, and draws of each: memory answers meanwhile
_NEAR = u64(16)  # so many lists before one is read, its memory is asked for
_FEW = u64(64)  # blocks whose sums are asked for ahead, and entries of a list


@kernel
def _num_blocks(length: Any) -> Any:
    return (length + _BLOCK - _ONE) >> _SHIFT


@kernel
def _sum_blocks(weights: NDArray[Any], place: Any, length: Any, sums: NDArray[Any], begin: Any) -> Any:
    """Writes the running sum at the end of each block; returns the total, and the least weight, 0 at most."""
    total, least = 0.0, 0.0
    full = length >> _SHIFT
    for b in range(full):
        p = place + (b << _SHIFT)
        w0, w1, w2, w3 = f64(weights[p]), f64(weights[p + u64(1)]), f64(weights[p + u64(2)]), f64(weights[p + u64(3)])
        w4, w5, w6, w7 = f64(weights[p + u64(4)]), f64(weights[p + u64(5)]), f64(weights[p + u64(6)]), f64(weights[p + u64(7)])
        least = min(least, min(min(min(w0, w1), min(w2, w3)), min(min(w4, w5), min(w6, w7))))
        total += ((((((w0 + w1) + w2) + w3) + w4) + w5) + w6) + w7
        sums[begin + b] = total
    if full << _SHIFT < length:
        part = 0.0
        for p in range(place + (full << _SHIFT), place + length):
            least, part = min(least, f64(weights[p])), part + f64(weights[p])
        total += part
        sums[begin + full] = total
    return total, least


@kernel
def _is_possible(weights: NDArray[Any], place: Any, length: Any) -> Any:
    """Whether all weights are finite and not negative: asked where a total says that one may not be."""
    possible = True
    for p in range(place, place + length):
        possible &= weights[p] >= 0.0 and weights[p] < np.inf
    return possible


@kernel
def sum_lists(
    weights: NDArray[Any], places: NDArray[Any], lengths: NDArray[Any], begins: NDArray[Any], sums: NDArray[Any]
) -> Any:
    """Writes the running sums of lists, those of each from its begin on.

    Returns how many lists were done before one with a weight that is negative, infinite or no number.
    """
    for i in range(u64(lengths.size)):
        place, length = u64(places[i]), u64(lengths[i])
        total, least = _sum_blocks(weights, place, length, sums, u64(begins[i]))
        if not (least >= 0.0 and total < np.inf) and not _is_possible(weights, place, length):
            return i
    return u64(lengths.size)


@kernel
def _total(weights: NDArray[Any], place: Any, length: Any, whole: Any, sums: NDArray[Any], begin: Any) -> Any:
    """The sum of the first `length` weights of a list of `whole` ones."""
    last = _num_blocks(length) - _ONE
    if length == whole:
        return sums[begin + last]
    part = 0.0
    for p in range(place + (last << _SHIFT), place + length):
        part += f64(weights[p])
    return (sums[begin + last - _ONE] if last > _ZERO else 0.0) + part


@kernel
def _find_block(sums: NDArray[Any], begin: Any, num_blocks: Any, target: Any) -> Any:
    """The first block whose sum exceeds the target; the last one's does. No branch on a comparison that is a coin toss."""
    at, size = begin, num_blocks
    while size > _ONE:
        half = size >> _ONE
        at = at + half if sums[at + half - _ONE] <= target else at
        size -= half
    return at - begin


@kernel
def _find_blocks(sums: NDArray[Any], begin: Any, num_blocks: Any, targets: NDArray[Any], blocks: NDArray[Any]) -> None:
    """The same for several targets, a step for all before the next one: none waits for the memory of another."""
    for c in range(u64(blocks.size)):
        blocks[c] = begin
    size = num_blocks
    while size > _ONE:
        half = size >> _ONE
        for c in range(u64(blocks.size)):
            blocks[c] += half * u64(sums[blocks[c] + half - _ONE] <= targets[c])
        size -= half
    for c in range(u64(blocks.size)):
        blocks[c] -= begin


@kernel
def _find_entry(weights: NDArray[Any], place: Any, length: Any, sums: NDArray[Any], begin: Any, block: Any, target: Any) -> Any:
    """The first entry of a block whose running sum exceeds the target. It adds to the sum, so its weight is above zero."""
    before = sums[begin + block - _ONE] if block > _ZERO else 0.0
    first, at, part = place + (block << _SHIFT), block << _SHIFT, 0.0
    for p in range(first, first + min(_BLOCK, length - at) - _ONE):  # without a branch on what is drawn
        part += f64(weights[p])
        at += u64(before + part <= target)
    return at


@kernel
def _scale(weights: NDArray[Any]) -> None:
    """Multiplies by the power of two that brings the greatest between 1/2 and 1."""
    greatest = 0.0
    for j in range(weights.size):
        greatest = max(greatest, weights[j])
    _, exponent = frexp(greatest)
    for j in range(weights.size):
        weights[j] = ldexp(weights[j], -exponent)


@kernel
def _draw_rest(
    weights: NDArray[Any],
    place: Any,
    length: Any,
    first: Any,
    stream: Any,
    number: Any,
    fanout: Any,
    tries: Any,
    replace: Any,
    slots: NDArray[Any],
    owner: Any,
    found: Any,
    positions: NDArray[Any],
    out: Any,
) -> Any:
    """Goes on with weights of zero for what is drawn already, round after round; returns how many are found in the end."""
    left, sums = np.empty(length, np.float64), np.empty(_num_blocks(length), np.float64)
    while found < fanout:
        for j in range(length):
            left[j] = weights[place + j]
        for j in range(found):
            left[u64(positions[out + j] - first)] = 0.0
        total, _ = _sum_blocks(left, _ZERO, length, sums, _ZERO)
        if total == 0.0:
            break
        if not (total >= _LEAST and total < np.inf):
            _scale(left)
            total, _ = _sum_blocks(left, _ZERO, length, sums, _ZERO)
        end = number + tries
        while found < fanout and number < end:
            target = _fraction(_word_of(stream, number)) * total
            number += _ONE
            at = _find_entry(left, _ZERO, length, sums, _ZERO, _find_block(sums, _ZERO, u64(sums.size), target), target)
            if replace or _add_pick(slots, owner, at):
                positions[out + found] = first + i64(at)
                found += _ONE
    return found


@kernel
def _room(lengths: NDArray[Any]) -> Any:
    """The most blocks that lists have together which are prepared together."""
    most, blocks = _ZERO, _ZERO
    for i in range(u64(lengths.size)):
        blocks = (_ZERO if i % _ROWS == _ZERO else blocks) + _num_blocks(u64(lengths[i]))
        most = max(most, blocks)
    return most


@kernel
def _ask_for(table: NDArray[Any], begin: Any, length: Any) -> None:
    """Asks for the first words from a place on, and for the last one."""
    for c in range(_ZERO, min(length, _FEW), _BLOCK):
        prefetch(table, begin + c)
    prefetch(table, begin + length - _ONE)


@kernel
def draw(
    weights: NDArray[Any],
    places: NDArray[Any],
    lengths: NDArray[Any],
    firsts: NDArray[Any],
    raw: NDArray[Any],
    key: Any,
    fanout: Any,
    replace: Any,
    wholes: NDArray[Any],
    begins: NDArray[Any],
    kept: NDArray[Any],
    slots: NDArray[Any],
    counts: NDArray[Any],
    positions: NDArray[Any],
) -> Any:
    """Draws from lists: entry j of list i has the weight weights[places[i] + j] and is written as firsts[i] + j.

    Without replacement a list no longer than the fanout gives all entries that have a weight. From others the next entry is drawn
    in proportion to the weights; one that is drawn already is drawn again. After so many draws that most lists are done, those
    that are not are summed anew without what they gave.

    wholes, begins, kept: the running sums of lists that begin with these, lengths `wholes`; `kept` is empty where there are none.
    slots: zeros, a power of two, at least twice the fanout if any list is longer than it.
    Returns (lists done, entries written); fewer done than given: the next list has a weight that is no weight.
    """
    num_rows, out, has_sums = u64(lengths.size), _ZERO, kept.size > 0
    sums = kept if has_sums else np.empty(_room(lengths), np.float64)
    prepared = min(fanout, _AHEAD)
    begin_of, totals = np.empty(_ROWS, np.uint64), np.empty(_ROWS, np.float64)
    blocks, targets = np.empty((_ROWS, prepared), np.uint64), np.empty((_ROWS, prepared), np.float64)
    entries = np.empty(prepared, np.uint64)
    for low in range(_ZERO, num_rows, _ROWS):
        high, used = min(low + _ROWS, num_rows), _ZERO
        for i in range(low, high):
            place, length = u64(places[i]), u64(lengths[i])
            whole = length <= fanout and not replace
            for ahead in range(i + _NEAR if i else i, min(i + _NEAR + _ONE, num_rows)):  # one by one: bursts cost more
                if has_sums:
                    _ask_for(sums, u64(begins[ahead]), _num_blocks(u64(lengths[ahead])))
                else:
                    _ask_for(weights, u64(places[ahead]), u64(lengths[ahead]))
            if has_sums:
                begin = u64(begins[i])
                total = 0.0 if whole or length == _ZERO else _total(weights, place, length, u64(wholes[i]), sums, begin)
                prefetch(weights, place)
            else:
                begin = used
                total, least = _sum_blocks(weights, place, length, sums, begin)
                if not (least >= 0.0 and total < np.inf) and not _is_possible(weights, place, length):
                    return i, out
                used += _num_blocks(length)
            begin_of[i - low], totals[i - low] = begin, total
            if whole or length == _ZERO:
                continue
            stream = _stream_of(key, raw[i])
            for c in range(prepared):
                targets[i - low, c] = _fraction(_word_of(stream, c)) * total
            _find_blocks(sums, begin, _num_blocks(length), targets[i - low], blocks[i - low])
            for c in range(prepared):
                prefetch(weights, place + (blocks[i - low, c] << _SHIFT))
        for i in range(low, high):
            place, length, found, number = u64(places[i]), u64(lengths[i]), _ZERO, _ZERO
            if length <= fanout and not replace:
                for j in range(length):
                    if weights[place + j] > 0.0:
                        positions[out + found] = firsts[i] + i64(j)
                        found += _ONE
                counts[i] = i64(found)
                out += found
                continue
            begin, total, stream = begin_of[i - low], totals[i - low], _stream_of(key, raw[i])
            tries = fanout if replace else fanout + fanout + (length >> _TRIES)
            end = tries if length > _ZERO and total >= _LEAST and total < np.inf else _ZERO
            for c in range(min(prepared, end)):
                entries[c] = _find_entry(weights, place, length, sums, begin, blocks[i - low, c], targets[i - low, c])
            while found < fanout and number < end:
                if number < prepared:
                    at = entries[number]
                else:
                    target = _fraction(_word_of(stream, number)) * total
                    block = _find_block(sums, begin, _num_blocks(length), target)
                    at = _find_entry(weights, place, length, sums, begin, block, target)
                number += _ONE
                if replace or _add_pick(slots, i + _ONE, at):
                    positions[out + found] = firsts[i] + i64(at)
                    found += _ONE
            if found < fanout and total > 0.0:
                found = _draw_rest(
                    *(weights, place, length, firsts[i], stream, number, fanout, tries, replace),
                    *(slots, i + _ONE, found, positions, out),
                )
            counts[i] = i64(found)
            out += found
    return num_rows, out
