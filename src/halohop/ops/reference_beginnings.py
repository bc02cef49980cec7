"""What rows begin with, in plain NumPy: the specification of `halohop.ops.beginnings`. Results are float64."""

import math

import numpy as np
from numpy.typing import NDArray

from halohop.ops.random import GOLDEN, MASK_64, RAW_STEP, mix

Floats = NDArray[np.float64]


def uniform(key: int, raw: int, width: int, low: float, high: float) -> Floats:
    return low + (high - low) * fractions(words(key, raw, width))


def normal(key: int, raw: int, width: int, mean: float, deviation: float) -> Floats:
    """By the method of Box and Muller: each two words give a radius and an angle, and these two numbers."""
    pairs = words(key, raw, width + width % 2).reshape(-1, 2)
    radius = np.sqrt(-2.0 * logarithms(fractions(pairs[:, 0])))
    cosine, sine = half_turns(fractions(pairs[:, 1]) - 0.5)
    sign = 1.0 - 2.0 * (pairs[:, 1] & np.uint64(1))
    return (mean + deviation * np.stack([sign * radius * cosine, radius * sine], axis=1)).reshape(-1)[:width]


def words(key: int, raw: int, count: int) -> NDArray[np.uint64]:
    stream = mix((key + RAW_STEP * (raw & MASK_64)) & MASK_64)
    return np.array([mix((stream + GOLDEN * (number + 1)) & MASK_64) for number in range(count)], np.uint64)


def fractions(word: NDArray[np.uint64]) -> Floats:
    """Between 0 and 1, never 0 or 1: the top 53 bits, the last of them set."""
    tops: NDArray[np.uint64] = word >> np.uint64(11) | np.uint64(1)
    halves: Floats = tops.astype(np.float64) * 2.0**-53
    return halves


def logarithms(x: Floats) -> Floats:
    """By the series of the inverse hyperbolic tangent, which all machines round in the same way."""
    m, exponent = np.frexp(x)
    low = m < 0.75
    m, exponent = np.where(low, m * 2, m), np.where(low, exponent - 1, exponent)
    s = (m - 1) / (m + 1)
    logs: Floats = exponent * math.log(2) + 2 * s * horner([1.0 / k for k in range(23, 0, -2)], s * s)
    return logs


def half_turns(t: Floats) -> tuple[Floats, Floats]:
    """Cosine and sine of pi * t, for t between -1/2 and 1/2, by Taylor's series."""
    x = math.pi * t
    cosine = horner([(-1.0) ** (k // 2) / math.factorial(k) for k in range(20, -1, -2)], x * x)
    sine = horner([(-1.0) ** (k // 2) / math.factorial(k) for k in range(19, 0, -2)], x * x)
    return cosine, x * sine


def horner(coefficients: list[float], z: Floats) -> Floats:
    """The polynomial whose coefficients these are, that of the greatest power first."""
    total = np.full_like(z, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * z + coefficient
    return total
