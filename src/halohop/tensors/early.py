"""Rows that were read before they are looked up, and how old they may be."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyRows:
    """Rows of one lookup to come.

    Args:
        asked: what they will be looked up by.
        by_gid: whether these are gids.
        gid: int64 ``[n]``, on the CPU; negative: no row.
        rows: those of gids that are not negative.
        steps: how many the table had had when they were read.
        staleness: how many it may have had since.
    """

    asked: Tensor
    by_gid: bool
    gid: Tensor
    rows: Tensor
    steps: int
    staleness: int

    def serves(self, given: Tensor, *, by_gid: bool) -> bool:
        """Whether a lookup asks for them."""
        if self.by_gid != by_gid or self.asked.shape != given.shape:
            return False
        return self.asked is given or torch.equal(self.asked.cpu(), given.cpu().to(self.asked.dtype))
