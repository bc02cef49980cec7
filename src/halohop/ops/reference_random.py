"""The random numbers of draws, in plain Python: the specification."""

from halohop.ops.random import GOLDEN, MASK_64, RAW_STEP, mix


def word(key: int, raw: int, number: int) -> int:
    """Word `number` of the stream of 64-bit words that the node `raw` has."""
    stream = mix((key + RAW_STEP * (raw & MASK_64)) & MASK_64)
    return mix((stream + GOLDEN * (number + 1)) & MASK_64)


def draw(key: int, raw: int, number: int, choices: int) -> int:
    """Draw `number` of the node `raw`: one of 0..choices-1, all equally likely (up to choices / 2**32).

    A word makes two draws of 32 bits, low half first; draw x picks x * choices / 2**32.
    """
    both = word(key, raw, number // 2)
    half = both & 0xFFFFFFFF if number % 2 == 0 else both >> 32
    return (half * choices) >> 32


def fraction(key: int, raw: int, number: int) -> float:
    """A number between 0 and 1, never 0 or 1: the top 53 bits of a word, the last of them set."""
    return (word(key, raw, number) >> 11 | 1) * 2.0**-53
