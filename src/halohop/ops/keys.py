"""Which row of a table has which key, by the key's bytes: ids of nodes that are any integers, or strings."""

import numpy as np
import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.ops import cpu_keys
from halohop.ops.arguments import integers, require_cpu

_MOST_ROWS = 2**31 - 1  # there are twice as many slots, at most 2**32


class KeyIndex:
    """Finds rows by their keys. Keys are compared byte by byte; beside them it holds `bytes_for` of their number.

    Args:
        keys: uint8 ``[n, width]``; kept, and may be mapped.

    Raises:
        InputError: they are no bytes, or too many.

    Example:
        >>> index = KeyIndex(torch.tensor([[7, 0], [9, 1]], dtype=torch.uint8))
        >>> index.repeated, index.find(torch.tensor([[9, 1], [7, 7]], dtype=torch.uint8)).tolist()
        (None, [1, -1])
    """

    def __init__(self, keys: Tensor) -> None:
        self._keys = _bytes(keys, "keys")
        num_rows = len(self._keys)
        if num_rows > _MOST_ROWS:
            raise InputError(f"{num_rows} keys are more than {_MOST_ROWS}, the most that are looked up")
        self._slots = np.full(2 * num_rows + 1, -1, np.int32)
        row = int(cpu_keys.fill(self._keys, self._slots))
        self.repeated = None if row < 0 else row
        """The first row whose key an earlier one has; rows from there on are not found."""

    @staticmethod
    def bytes_for(num_rows: int) -> int:
        """What an index of so many rows takes beside its keys."""
        return 4 * (2 * num_rows + 1)

    def find(self, queries: Tensor) -> Tensor:
        """The row of each key, int64 ``[m]``; -1 where there is none.

        Args:
            queries: uint8 ``[m, width]``.

        Raises:
            InputError: they are no bytes, or not as wide as the keys.
        """
        asked = _bytes(queries, "queries")
        if asked.shape[1] != self._keys.shape[1]:
            raise InputError(f"queries are {asked.shape[1]} bytes wide, but keys are {self._keys.shape[1]}")
        rows = np.empty(len(asked), np.int64)
        cpu_keys.find(self._keys, self._slots, asked, rows)
        return torch.from_numpy(rows)


def pad_texts(offsets: Tensor, data: Tensor, width: int) -> Tensor:
    """Texts as rows of bytes, with zeros behind; what is longer than `width` is cut.

    Args:
        offsets: int64 ``[n + 1]``: text i is ``data[offsets[i]:offsets[i + 1]]``.
        data: uint8.
        width: of the rows.

    Returns:
        uint8 ``[n, width]``.

    Raises:
        InputError: wrong dtypes, or offsets that fall or leave the data.

    Example:
        >>> pad_texts(torch.tensor([0, 1, 4]), torch.tensor([7, 8, 9, 9], dtype=torch.uint8), 2).tolist()
        [[7, 0], [8, 9]]
    """
    places = integers(offsets, "offsets", only_int64=True)
    text = _bytes(data.view(-1, 1), "data")[:, 0]
    if not len(places) or places[0] < 0 or places[-1] > len(text) or (np.diff(places) < 0).any():
        raise InputError(f"offsets must rise from 0 to at most {len(text)}, the bytes of data")
    rows = np.empty((len(places) - 1, width), np.uint8)
    cpu_keys.pad(places, text, rows)
    return torch.from_numpy(rows)


def _bytes(rows: Tensor, name: str) -> np.ndarray:
    require_cpu(rows, name)
    if rows.dim() != 2 or rows.dtype != torch.uint8:
        raise InputError(f"{name} must be uint8 of [n, width], got {rows.dtype} of shape {tuple(rows.shape)}")
    return rows.contiguous().numpy()
