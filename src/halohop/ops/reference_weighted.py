"""What drawing by weight computes, in plain Python: slow, obvious, the specification."""

from itertools import count, islice
from math import frexp, inf, ldexp

from halohop.ops.reference_random import fraction

BLOCK = 8
LEAST = 2.0**-900


def running_sums(weights: list[float]) -> list[float]:
    """The sum of the weights up to each entry: what the blocks of 8 before it add up to, and what its own does so far."""
    sums: list[float] = []
    for begin in range(0, len(weights), BLOCK):
        before, part = sums[-1] if sums else 0.0, 0.0
        for weight in weights[begin : begin + BLOCK]:
            part += weight
            sums.append(before + part)
    return sums


def scaled_sums(weights: list[float]) -> list[float]:
    """The running sums; where they leave the range in which float64 is exact, those of the weights times a power of two."""
    sums = running_sums(weights)
    if sums and sums[-1] > 0 and not LEAST <= sums[-1] < inf:
        _, exponent = frexp(max(weights))
        sums = running_sums([ldexp(weight, -exponent) for weight in weights])
    return sums


def pick(sums: list[float], share: float) -> int:
    """The first entry whose running sum exceeds a share, less than 1, of the total."""
    return next(j for j, total in enumerate(sums) if total > share * sums[-1])


def draw_weighted(weights: list[float], raw: int, fanout: int, key: int, *, replace: bool) -> list[int]:
    """The drawn positions in a list of neighbours with these weights, all finite and at least 0.

    Without replacement the next is drawn in proportion to the weights of those that remain: one that is drawn already is drawn
    again, and when that has happened often, those are left out of the sums.
    """
    if fanout == -1 or (len(weights) <= fanout and not replace):
        return [j for j, weight in enumerate(weights) if weight > 0]
    if replace:
        sums = scaled_sums(weights)
        return [pick(sums, fraction(key, raw, number)) for number in range(fanout if any(weights) else 0)]
    drawn: list[int] = []
    numbers, tries = count(), 2 * fanout + len(weights) // 16
    while len(drawn) < fanout and any(weight > 0 for j, weight in enumerate(weights) if j not in drawn):
        sums = scaled_sums([0.0 if j in drawn else weight for j, weight in enumerate(weights)])
        for number in islice(numbers, tries):
            position = pick(sums, fraction(key, raw, number))
            if position not in drawn:
                drawn.append(position)
            if len(drawn) == fanout:
                break
    return drawn
