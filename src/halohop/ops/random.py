"""The key of a stream of random numbers: a pure hash of what the numbers may depend on."""

import hashlib
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.typing import Relation

MASK_64 = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
"""2**64 / golden ratio, odd: the step between the counters of a stream."""

RAW_STEP = 0xD1342543DE82EF95
"""Between the streams of two ids, odd."""


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
    return stream_prefix(0, seed, epoch, batch, hop, relation_word(relation))


def stream_prefix(key: int, *words: int) -> int:
    """A key that words are added to: that of a stream is 0 with the words of `stream_key`, in this order."""
    for word in words:
        key = mix(((key ^ (word & MASK_64)) + GOLDEN) & MASK_64)
    return key


@lru_cache(maxsize=1024)
def relation_word(relation: Relation) -> int:
    """A word for a relation."""
    return int.from_bytes(hashlib.blake2b("\0".join(relation).encode(), digest_size=8).digest(), "little")


def name_key(*, seed: int, name: str) -> int:
    """The 64-bit key of what is drawn for a name, such as the first rows of a table. Any integer is a seed, modulo 2**64.

    Example:
        >>> name_key(seed=0, name="a") == name_key(seed=0, name="a"), name_key(seed=0, name="a") == name_key(seed=1, name="a")
        (True, False)
    """
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return mix((mix(((seed & MASK_64) + GOLDEN) & MASK_64) ^ int.from_bytes(digest, "little")) + GOLDEN & MASK_64)


def fractions(key: int, ids: Tensor) -> Tensor:
    """A random number between 0 and 1, never 0 or 1, for each id: float64 ``[n]``.

    Args:
        key: of the stream, see `stream_key`.
        ids: int64 ``[n]``, at least 0; equal ids get equal numbers.

    Example:
        >>> one, other, again = fractions(7, torch.tensor([3, 4, 3])).tolist()
        >>> 0 < one < 1, one == again, one == other
        (True, True, False)
    """
    stream = _mix_all(np.uint64(key) + np.uint64(RAW_STEP) * ids.numpy().astype(np.uint64))
    words = _mix_all(stream + np.uint64(GOLDEN))
    return torch.from_numpy((words >> np.uint64(11) | np.uint64(1)).astype(np.float64) * 2.0**-53)


def _mix_all(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """`mix` of every word."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
