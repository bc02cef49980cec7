"""Whether a change fits a table: asked before anything is written."""

from dataclasses import replace

import torch
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.tables.change_messages import Share, Way
from halohop.tables.table import Table

_SHOWN = 5  # rows that an error names


def checked(table: Table, share: Share, way: Way) -> Share:
    """The share, if these rows can be written, added to, or trained by these gradients; marked where its gradients are huge.

    Raises:
        InputError: another dtype or shape, one that torch cannot add, or gradients that are not finite.
        IdError: a row that is not here.
        ClusterError: the table was dropped, or a change of it failed half-way.
    """
    table.require_whole()
    spec, gid, rows = table.spec, share.gid, share.rows
    what, dtype = ("gradients", ops.gradient_dtype(spec.torch_dtype)) if way == "step" else ("rows", spec.torch_dtype)
    if gid.dtype != torch.int64 or gid.dim() != 1:
        raise InputError(f"row numbers of table {spec.name!r} are int64 of one dimension, not {gid.dtype} {tuple(gid.shape)}")
    if rows.dtype != dtype or tuple(rows.shape) != (len(gid), *spec.shape):
        raise InputError(
            f"{len(gid)} {what} of {rows.dtype} and shape {tuple(rows.shape)} do not fit table {spec.name!r}, whose {what} are "
            f"{dtype} of shape {spec.shape}"
        )
    table.require_here(gid)
    if way == "add":
        _require_sums(rows.dtype)
    if way != "step" or not ops.any_huge(rows):
        return share
    if not ops.all_finite(rows):
        require_finite(spec.name, gid, rows)
    return replace(share, huge=True)


def require_finite(name: str, gid: Tensor, grads: Tensor, what: str = "gradients") -> None:
    """
    Raises:
        InputError: gradients of some rows, which it names, are not finite.
    """
    fine = torch.isfinite(grads).reshape(len(grads), -1).all(1)
    if not bool(fine.all()):
        bad = gid[~fine].unique()
        shown = ", ".join(map(str, bad[:_SHOWN].tolist())) + (", ..." if len(bad) > _SHOWN else "")
        raise InputError(
            f"{what} of {len(bad)} rows of table {name!r} are not finite (rows {shown}); nothing was changed; lower the "
            "learning rate, or clip the gradients"
        )


def _require_sums(dtype: torch.dtype) -> None:
    try:
        torch.zeros(1, dtype=dtype).index_add_(0, torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=dtype))
    except (NotImplementedError, RuntimeError) as error:
        raise InputError(f"rows of {dtype} cannot be added ({error}); write them") from error
