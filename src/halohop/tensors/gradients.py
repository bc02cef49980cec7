"""What backward brings to rows that were looked up, until an optimiser takes it."""

from typing import Any

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError


class Gradients:
    """Gradients of one table's rows since the last step.

    A lookup is part of the autograd graph only: where backward never comes, it is dropped with that graph.

    Args:
        shape: of a row.
        dtype: of the table.
    """

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._shape, self._dtype = shape, ops.gradient_dtype(dtype)
        self._found: list[tuple[Tensor, Tensor, int]] = []  # and the version of the gradient
        self.looked_up = False

    def recorded(self, rows: Tensor, gid: Tensor) -> Tensor:
        """Rows with a gradient, which is found here when backward has reached them.

        Args:
            rows: ``[..., *shape]``, on the device of the model.
            gid: int64 ``[n]``, of these rows in order; what belongs to a negative one is dropped.
        """
        self.looked_up = True
        anchor = torch.empty(0, device=rows.device, requires_grad=True)
        recorded: Tensor = _Lookup.apply(anchor, [rows], gid, self)  # type: ignore[no-untyped-call]
        return recorded

    def add(self, gid: Tensor, grads: Tensor) -> None:
        """What one backward brings to the rows of one lookup."""
        self._found.append((gid, grads.detach(), grads._version))

    @property
    def there(self) -> bool:
        """Whether backward has come to rows of this table."""
        return bool(self._found)

    def found(self) -> tuple[list[Tensor], list[Tensor]]:
        """Gids (int64 ``[n]``) and gradients ``[n, *shape]`` of each lookup, at least one, in the order in which backward came.
        All are on the CPU.

        Raises:
            InputError: a gradient was changed in place since backward.
        """
        gid, grads = [], []
        for rows, grad, version in self._found:
            if grad._version != version:
                raise InputError(
                    "a gradient of looked up rows was changed in place after backward; drop it (optimizer.zero_grad()), and give "
                    "backward a copy"
                )
            near = grad.to("cpu", self._dtype).reshape(len(rows), *self._shape)
            known = rows >= 0
            whole = bool(known.all())
            gid.append(rows if whole else rows[known])
            grads.append(near if whole else near[known])
        if not gid:
            return [torch.empty(0, dtype=torch.int64)], [torch.empty(0, *self._shape, dtype=self._dtype)]
        return gid, grads

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
    def forward(ctx: Any, anchor: Tensor, rows: list[Tensor], gid: Tensor, into: Gradients) -> Tensor:
        ctx.gid, ctx.into = gid, into
        return rows.pop().data  # no view: users may change it in place

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None, None]:
        ctx.into.add(ctx.gid, grads[0])
        return None, None, None, None
