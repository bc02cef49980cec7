"""Who owns a node or an edge, by the user's ids: a number for each, or ranges of ids."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.partitioning.building.numbering import NodeNumbers

Owner = Tensor | Sequence[int]
"""The partition of every id, integers ``[n]``; or where each partition's range of ids begins, ``num_parts + 1`` numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """The owners of the nodes of a type, or of the edges of a relation; ids are 0, 1, 2, ...

    Args:
        bounds: how many each partition owns, summed up: ``(0, ..., count)``.
        dense: the partition of every id, int32 ``[count]``; None where partition p owns the ids from ``bounds[p]`` to
            ``bounds[p + 1] - 1``.
    """

    bounds: tuple[int, ...]
    dense: Tensor | None

    @classmethod
    def of(cls, owner: Owner, num_parts: int, what: str) -> "Owners":
        """From what a user gave; `what` names it in errors, such as "node".

        Raises:
            InputError: it is no owner book of so many partitions; names the first id whose owner is no partition.

        Example:
            >>> Owners.of(torch.tensor([1, 0, 1]), 2, "node").bounds, Owners.of([0, 1, 3], 2, "node").dense
            ((0, 1, 3), None)
        """
        if not isinstance(owner, Tensor):
            return cls(bounds=_checked_bounds(owner, num_parts, what), dense=None)
        if owner.dim() != 1 or owner.is_floating_point() or owner.is_complex() or owner.dtype == torch.bool:
            raise InputError(
                f"owners of {what}s are {owner.dtype} of shape {tuple(owner.shape)}; give a partition for each, integers [n], or "
                f"a list of the {num_parts + 1} ids where ranges begin and end"
            )
        dense = owner.detach().cpu().long()
        wrong = ((dense < 0) | (dense >= num_parts)).nonzero().view(-1)
        if len(wrong):
            raise InputError(
                f"the owner of {what} {int(wrong[0])} is {int(dense[wrong[0]])}, which is no partition; name one of 0 to "
                f"{num_parts - 1} for every {what}"
            )
        bounds = (0, *accumulate(torch.bincount(dense, minlength=num_parts).tolist()))
        return cls(bounds=bounds, dense=None if bool((dense[1:] >= dense[:-1]).all()) else dense.int())

    @property
    def count(self) -> int:
        return self.bounds[-1]

    @property
    def digest(self) -> str:
        """The same for equal books, however they were given."""
        summed = hashlib.blake2b(repr(self.bounds).encode(), digest_size=16)
        if self.dense is not None:
            summed.update(self.dense.numpy().data)
        return summed.hexdigest()

    def of_ids(self, ids: Tensor) -> Tensor:
        """The partitions of some ids, int64 ``[n]``."""
        if self.dense is not None:
            return self.dense[ids].long()
        return torch.searchsorted(torch.tensor(self.bounds[1:]), ids.contiguous(), right=True)

    def numbers(self) -> NodeNumbers:
        """The gids that the nodes get."""
        if self.dense is None:
            return NodeNumbers(bounds=self.bounds, row=None, gid=None, raw=None)
        _, row = ops.build_csc(self.dense, len(self.bounds) - 1)
        gid = torch.empty_like(row)
        gid[row] = torch.arange(len(row))
        return NodeNumbers(bounds=self.bounds, row=row, gid=gid, raw=row)


def _checked_bounds(owner: Sequence[int], num_parts: int, what: str) -> tuple[int, ...]:
    bounds = tuple(owner)
    whole = all(isinstance(bound, int) for bound in bounds)
    if len(bounds) != num_parts + 1 or not whole or bounds[0] != 0 or any(low > high for low, high in pairwise(bounds)):
        raise InputError(
            f"the ranges of {what}s are {list(bounds)}; {num_parts} partitions need {num_parts + 1} numbers, 0 the first, that "
            "never fall: partition p owns the ids from number p to number p + 1, without the latter"
        )
    return bounds
