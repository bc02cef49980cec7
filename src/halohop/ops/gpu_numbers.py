"""Arithmetic of a GPU that has the bits of the CPU's: roots and quotients are IEEE 754's, rounded, and sums have one order."""

import triton.language as tl

from halohop.ops.gpu_launch import kernel


@kernel
def root(values: tl.tensor) -> tl.tensor:
    """The square root, rounded to the nearest."""
    return tl.sqrt_rn(values) if values.dtype == tl.float32 else tl.sqrt(values)


@kernel
def divided(values: tl.tensor, by: tl.tensor) -> tl.tensor:
    """The quotient, rounded to the nearest."""
    return tl.div_rn(values, by) if values.dtype == tl.float32 else values / by


@kernel
def power(base: tl.tensor, exponents: tl.tensor) -> tl.tensor:
    """As `halohop.ops.cpu_rules._power`, which multiplies as often as there are bits; the others here change nothing."""
    result = tl.full(exponents.shape, 1.0, tl.float64)
    square = tl.full(exponents.shape, base, tl.float64)
    left = exponents
    for _ in tl.static_range(31):
        result = tl.where((left & 1) == 1, result * square, result)
        square = square * square
        left = left >> 1
    return result


@kernel
def logarithm(x: tl.tensor) -> tl.tensor:
    """As `halohop.ops.cpu_numbers.logarithm`, operation by operation."""
    bits = x.to(tl.int64, bitcast=True)
    fraction = bits & 0xFFFFFFFFFFFFF
    upper = fraction >> 51
    exponent = ((bits >> 52) - 1023 + upper).to(tl.float64)
    m = (fraction | (0x3FF0000000000000 - (upper << 52))).to(tl.float64, bitcast=True)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = tl.full(x.shape, 1.0 / 23.0, tl.float64)
    for odd in tl.static_range(10):
        series = series * z + 1.0 / (21 - 2 * odd)
    series = series * z + 1.0
    return exponent * 0.6931471805599453 + 2.0 * s * series


@kernel
def squares_of_rows(grads: tl.tensor, i: tl.tensor, live: tl.tensor, width: tl.tensor, block: tl.constexpr) -> tl.tensor:
    """The sum of the squares of each row in float64: eight sums side by side, folded in halves, and then the rest one by one."""
    lane = tl.arange(0, 8)
    ok = live[:, None] & (lane < 8)[None, :]
    lanes = tl.zeros((block, 8), tl.float64)
    eights = width // 8 * 8
    for begin in range(0, eights, 8):
        eight = tl.load(grads + i[:, None] * width + (begin + lane)[None, :], mask=ok, other=0.0).to(tl.float64)
        lanes += eight * eight
    fours = tl.sum(tl.reshape(lanes, (block, 2, 4)), axis=1)
    total = tl.sum(tl.sum(tl.reshape(fours, (block, 2, 2)), axis=1), axis=1)
    for rest in range(eights, width):
        one = tl.load(grads + i * width + rest, mask=live, other=0.0).to(tl.float64)
        total += one * one
    return total
