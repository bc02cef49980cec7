"""What `halohop.ops.packing` computes, in plain Python: the specification that its kernels are tested against."""

BLOCK = 128


def codes(values: list[int], way: int, base: int) -> list[int]:
    """What is written for each number, modulo 2**64: how much it is above the base (way 0), above the one before (way 1), or
    how far it is from that, with the sign in the lowest bit (way 2)."""
    steps = [(value - before) % 2**64 for before, value in zip([base, *values], values, strict=False)]
    signed = [2 * step if step < 2**63 else 2 * (2**64 - step) - 1 for step in steps]
    return ([value - base for value in values], steps, signed)[way]


def pack(values: list[int], way: int, base: int) -> bytes:
    """A byte for each block that says how many bits a code of it takes, zeros up to a whole word of eight bytes, and the codes of
    each block, the first in the lowest bits, in whole words."""
    written = codes(values, way, base)
    blocks = [written[begin : begin + BLOCK] for begin in range(0, len(written), BLOCK)]
    widths = [max(code.bit_length() for code in block) for block in blocks]
    bits = [sum(code << (i * width) for i, code in enumerate(block)) for block, width in zip(blocks, widths, strict=True)]
    words = [-(-len(block) * width // 64) for block, width in zip(blocks, widths, strict=True)]
    head = bytes(widths) + bytes(-len(widths) % 8)
    return head + b"".join(number.to_bytes(8 * size, "little") for number, size in zip(bits, words, strict=True))
