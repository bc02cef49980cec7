"""What backward brings to rows that were looked up, until an optimiser takes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.ops.device import DevicePool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one backward brings to the rows of one lookup.

    Args:
        gid: of the rows, int64 ``[n]``, on the CPU; negative: no row.
        grads: theirs, where the model is.
        version: of the gradients, as they came.
        pool: of the device that they are on; None: the CPU's, or one that is no GPU.
        event: when they will be there.
    """

    gid: Tensor
    grads: Tensor
    version: int
    pool: DevicePool | None
    event: Any


class Gradients:
    """Gradients of one table's rows since the last step.

    A lookup is part of the autograd graph only: where backward never comes, it is dropped with that graph.

    Args:
        shape: of a row.
        dtype: of the table.
    """

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._shape, self._dtype = shape, ops.gradient_dtype(dtype)
        self._found: list[_Found] = []
        self.looked_up = False

    def recorded(self, rows: Tensor, gid: Tensor, pool: DevicePool | None = None) -> Tensor:
        """Rows with a gradient, which is found here when backward has reached them.

        Args:
            rows: ``[..., *shape]``, on the device of the model.
            gid: int64 ``[n]``, of these rows in order; what belongs to a negative one is dropped.
            pool: of the GPU that the rows are on.
        """
        self.looked_up = True
        anchor = rows.new_empty(0).requires_grad_()
        recorded: Tensor = _Lookup.apply(anchor, [rows], gid, self, pool)  # type: ignore[no-untyped-call]
        return recorded

    def add(self, gid: Tensor, grads: Tensor, pool: DevicePool | None = None) -> None:
        """What one backward brings to the rows of one lookup."""
        event = None if pool is None else pool.now()
        self._found.append(_Found(gid=gid, grads=grads.detach(), version=grads._version, pool=pool, event=event))

    @property
    def there(self) -> bool:
        """Whether backward has come to rows of this table."""
        return bool(self._found)

    def brought(self, *, add_up: bool, pool: ops.Pool) -> tuple[Tensor, Tensor]:
        """Gids (int64 ``[n]``) and gradients ``[n, *shape]`` of all lookups, in the order in which backward came, on the CPU.

        Those on a GPU are put together there, as soon as backward has come, whatever else the model has launched since; the host
        waits for one copy of them.

        Args:
            add_up: gradients of equal gids are; the gids ascend then.
            pool: where the memory comes from.

        Raises:
            InputError: a gradient was changed in place since backward.
        """
        if any(one.grads._version != one.version for one in self._found):
            raise InputError(
                "a gradient of looked up rows was changed in place after backward; drop it (optimizer.zero_grad()), and give "
                "backward a copy"
            )
        there = self._found[0].pool if self._found else None
        if there is None or any(one.pool is not there for one in self._found):
            pieces = [self._piece(one.gid, one.grads.to("cpu", self._dtype)) for one in self._found]
            return self._together(pieces, add_up, pool)
        with there.lane():
            for one in self._found:
                there.join(one.event, [one.grads])
            pieces = [self._piece(one.gid, one.grads.to(self._dtype), there) for one in self._found]
            gid, grads = self._together(pieces, add_up, there)
            return gid, there.bring(grads)

    def _piece(self, gid: Tensor, grads: Tensor, pool: DevicePool | None = None) -> tuple[Tensor, Tensor]:
        """Gids that are rows, and their gradients."""
        grads, known = grads.reshape(len(gid), *self._shape), gid >= 0
        if known.all():
            return gid, grads
        places = known.nonzero().view(-1)
        return gid[places], ops.gather_rows(grads, places if pool is None else pool.put(places), pool=pool)

    def _together(self, pieces: Sequence[tuple[Tensor, Tensor]], add_up: bool, pool: ops.Pool) -> tuple[Tensor, Tensor]:
        if not pieces:
            return torch.empty(0, dtype=torch.int64), torch.empty(0, *self._shape, dtype=self._dtype)
        gid, grads = [gid for gid, _ in pieces], [grads for _, grads in pieces]
        if add_up:
            return ops.sum_by_id(gid, grads, pool=pool)
        return ops.join_rows(gid), ops.join_rows(grads, pool=pool)

    def drop(self) -> None:
        """Forgets what was found."""
        self._found.clear()

    def stepped(self) -> None:
        """An optimiser has used them."""
        self.drop()
        self.looked_up = False


class _Lookup(torch.autograd.Function):
    """Rows that no other operation has made, and whose gradient goes to `Gradients`. The anchor makes autograd come here."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, rows: list[Tensor], gid: Tensor, into: Gradients, pool: DevicePool | None) -> Tensor:
        ctx.gid, ctx.into, ctx.pool = gid, into, pool
        return rows.pop().data  # no view: users may change it in place

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None, None, None]:
        ctx.into.add(ctx.gid, grads[0], ctx.pool)
        return None, None, None, None, None
