"""The key of a stream of random numbers: a pure hash of what the numbers may depend on."""

import hashlib

from halohop.typing import Relation

MASK_64 = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
"""2**64 / golden ratio, odd: the step between the counters of a stream."""


def mix(x: int) -> int:
    """A bijection of 64-bit integers that looks random: the finalizer of SplitMix64 (Steele, Lea & Flood 2014).

    Example:
        >>> hex(mix(1))
        '0x5692161d100b05e5'
    """
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK_64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK_64
    return x ^ (x >> 31)


def stream_key(*, seed: int, epoch: int, batch: int, hop: int, relation: Relation) -> int:
    """The 64-bit key under which the neighbours of one hop along one relation are drawn.

    Equal arguments give equal keys on every machine; no random number generator has a state anywhere. Any integers do: they are
    reduced modulo 2**64.

    Example:
        >>> key = stream_key(seed=0, epoch=0, batch=7, hop=1, relation=("node", "to", "node"))
        >>> key == stream_key(seed=0, epoch=0, batch=7, hop=1, relation=("node", "to", "node")), 0 <= key < 2**64
        (True, True)
    """
    relation_digest = hashlib.blake2b("\0".join(relation).encode(), digest_size=8).digest()
    key = 0
    for word in (seed, epoch, batch, hop, int.from_bytes(relation_digest, "little")):
        key = mix(((key ^ (word & MASK_64)) + GOLDEN) & MASK_64)
    return key
