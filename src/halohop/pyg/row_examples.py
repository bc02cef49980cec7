"""Rows of tensors as a loader's inputs: ids of nodes or edges, or whatever else a user's function makes batches of."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.loading.examples import Examples
from halohop.loading.seeds import Share
from halohop.sampling.batch import AnySeeds
from halohop.typing import NodeType

Rows = Tensor | dict[Any, Tensor]


class RowExamples(Examples):
    """The rows of one tensor, or of several by their keys: those of the first, then those of the next.

    Args:
        rows: ``[n, ...]``; or a dict with such a tensor for each key.
        places: finds the node that each row stands for, where that is asked for.
    """

    listed = True

    def __init__(self, rows: Rows, places: Callable[[], tuple[NodeType, Tensor] | None]) -> None:
        self._rows = rows
        self._places = places
        counts = [len(of_key) for of_key in rows.values()] if isinstance(rows, dict) else [len(rows)]
        self._ends = np.cumsum([0, *counts])
        super().__init__(torch.arange(int(self._ends[-1])))

    @property
    def placed_by(self) -> tuple[NodeType, Tensor] | None:
        return self._places()

    def seeds(self, epoch: int, share: Share) -> AnySeeds:
        raise NotImplementedError("rows are no seeds of a sampler")

    def taken(self, positions: Tensor) -> Rows:
        """The rows at some positions, in their order; of a dict those of every key, which may be none."""
        if not isinstance(self._rows, dict):
            return ops.gather_rows(self._rows, positions)
        places, found = positions.numpy(), {}
        key_of = np.searchsorted(self._ends, places, side="right") - 1
        for number, (key, rows) in enumerate(self._rows.items()):
            own = places[key_of == number] - self._ends[number]
            found[key] = ops.gather_rows(rows, torch.from_numpy(own))
        return found


def rows_of(seeds: Any) -> Rows:
    """A user's seeds: a tensor, a pair of a key and one, or a dict of them.

    Raises:
        InputError: none of these.
    """
    if isinstance(seeds, tuple) and len(seeds) == 2 and isinstance(seeds[1], Tensor) and isinstance(seeds[0], Hashable):
        seeds = {seeds[0]: seeds[1]}
    if isinstance(seeds, Mapping):
        return {key: _row_tensor(rows, f"seeds of {key!r}") for key, rows in seeds.items()}
    return _row_tensor(seeds, "seeds")


def _row_tensor(rows: Any, name: str) -> Tensor:
    if not isinstance(rows, Tensor) or not rows.dim():
        what = "a tensor without dimensions" if isinstance(rows, Tensor) else f"a {type(rows).__name__}"
        raise InputError(f"{name} is {what}; give a tensor with a row for each, or a dict of such tensors")
    return rows.detach().cpu().contiguous()
