"""Ids that are strings, as a column of bytes: stored and fetched like any other, left out of batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.datasets.staging import Staging
from halohop.errors import InputError
from halohop.ops import pad_texts

_LONGEST = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Strings as UTF-8, one behind the other.

    Args:
        offsets: int64 ``[n + 1]``: string i is ``data[offsets[i]:offsets[i + 1]]``.
        data: uint8.
    """

    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Texts":
        encoded = [text.encode() for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(offsets=offsets, data=np.frombuffer(bytearray(b"".join(encoded)), np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> str:
        return self.data[self.offsets[number] : self.offsets[number + 1]].tobytes().decode(errors="replace")

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def padded(self, width: int, num_bytes: int) -> Iterator[Tensor]:
        """With zeros behind, uint8 ``[n, width]``, in pieces of about so many bytes; what is longer than `width` is cut."""
        step, data = max(num_bytes // width, 1), torch.from_numpy(np.require(self.data, requirements="W"))
        for first in range(0, max(len(self), 1), step):
            yield pad_texts(torch.from_numpy(self.offsets[first : first + step + 1]), data, width)


def text_column(texts: Sequence[str]) -> Tensor:
    """Strings as UTF-8 with zeros behind, uint8 ``[n, length of the longest]``.

    Raises:
        InputError: one of more than 1024 bytes, or with the character zero in it.

    Example:
        >>> text_column(["ab", "c"]).tolist()
        [[97, 98], [99, 0]]
    """
    return collect_texts(Staging(), "", lambda: [Texts.of(texts)])


def collect_texts(staging: Staging, name: str, make: Callable[[], Iterable[Texts]]) -> Tensor:
    """`text_column` of strings that come in chunks; `name` is that of the column for `Staging.column`.

    Raises:
        InputError: as of `text_column`.
    """
    make = staging.again(make)
    width = staging.fact(f"{name}.width", lambda: _width(make()), int)

    def pieces() -> Iterator[Tensor]:
        return (rows for texts in make() for rows in texts.padded(width, staging.chunk_bytes))

    return staging.column(name, pieces)


def texts_of(rows: Tensor) -> np.ndarray:
    """The inverse of `text_column`: an array of strings, ``[n]``.

    Example:
        >>> texts_of(text_column(["ab", "c"])).tolist()
        ['ab', 'c']
    """
    packed = np.ascontiguousarray(rows.numpy()).view(f"S{rows.shape[1]}").reshape(len(rows))
    return np.char.decode(packed, "utf-8") if len(packed) else np.empty(0, "U1")


def _width(chunks: Iterable[Texts]) -> int:
    """The bytes of the longest, at least 1."""
    width, longest, with_zero = 1, "", None
    for texts in chunks:
        number = int(texts.lengths.argmax()) if len(texts) else 0
        if len(texts) and texts.lengths[number] > width:
            width, longest = int(texts.lengths[number]), texts[number]
        if with_zero is None and (texts.data[texts.offsets[0] : texts.offsets[-1]] == 0).any():
            with_zero = next(text for text in map(texts.__getitem__, range(len(texts))) if "\0" in text)
    if width > _LONGEST:
        raise InputError(f"the id {longest.encode()[:60].decode(errors='replace')!r}... has {width} bytes, more than {_LONGEST}")
    if with_zero is not None:
        raise InputError(f"the id {with_zero!r} holds the character zero; leave it out")
    return width
