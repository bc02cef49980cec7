"""Ids that are strings, as a column of bytes: stored and fetched like any other, left out of batches."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError

_LONGEST = 1024


def text_column(texts: Sequence[str]) -> Tensor:
    """Strings as UTF-8 with zeros behind, uint8 ``[n, length of the longest]``.

    Raises:
        InputError: one of more than 1024 bytes, or with the character zero in it.

    Example:
        >>> text_column(["ab", "c"]).tolist()
        [[97, 98], [99, 0]]
    """
    encoded = [text.encode() for text in texts]
    longest = max(encoded, key=len, default=b"")
    if len(longest) > _LONGEST:
        raise InputError(f"the id {longest[:60].decode(errors='replace')!r}... has {len(longest)} bytes, more than {_LONGEST}")
    for text in texts:
        if "\0" in text:
            raise InputError(f"the id {text!r} holds the character zero; leave it out")
    width = max(len(longest), 1)
    return torch.from_numpy(np.array(encoded, dtype=f"S{width}").view(np.uint8).reshape(len(encoded), width))


def texts_of(rows: Tensor) -> np.ndarray:
    """The inverse of `text_column`: an array of strings, ``[n]``.

    Example:
        >>> texts_of(text_column(["ab", "c"])).tolist()
        ['ab', 'c']
    """
    packed = np.ascontiguousarray(rows.numpy()).view(f"S{rows.shape[1]}").reshape(len(rows))
    return np.char.decode(packed, "utf-8") if len(packed) else np.empty(0, "U1")
