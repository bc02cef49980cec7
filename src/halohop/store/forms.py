"""What the tensors of a message must be: annotations of its fields say it, and it is checked once, when the message is read."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from halohop.errors import ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A tensor of one dimension.

    Args:
        length: names its length: fields of a record with the same name are equally long. Empty: any length.
        dtypes: one of these.
    """

    length: str = ""
    dtypes: tuple[torch.dtype, ...] = (torch.int64,)


AnyIds = Annotated[Tensor, Form()]
"""Whole numbers, int64, of any length."""
Ids = Annotated[Tensor, Form(length="n")]
"""Whole numbers, int64 ``[n]``, with the n of all `Ids` and `Times` of the record."""
Times = Annotated[Tensor, Form(length="n", dtypes=(torch.int64, torch.float64))]
"""Times, int64 or float64, with the same n."""
Edges = Annotated[Tensor, Form(length="edges")]
"""A number for each edge of the record, int64."""
NarrowEdges = Annotated[Tensor, Form(length="edges", dtypes=(torch.int64, torch.int32))]
"""The same, int32 or int64."""

Check = Callable[[Any, str, dict[str, int]], None]
"""Checks a value; gets its name, and the lengths in its record so far."""


def check_of(kind: Any) -> Check | None:
    """Checks the tensors in values of an annotation; None if it declares no form of a tensor.

    Raises (from what is returned):
        ProtocolError: a tensor has another form than its field declares.

    Example:
        >>> check_of(str | None) is None
        True
        >>> check_of(Ids)(torch.ones(2), "gid", {})
        Traceback (most recent call last):
        halohop.errors.ProtocolError: gid has shape [2] and dtype torch.float32; expected [n] and torch.int64
    """
    if is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        fields = {name: check for name, hint in hints.items() if (check := check_of(hint))}
        return partial(_check_record, fields) if fields else None
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return next((partial(check_form, form) for form in parts if isinstance(form, Form)), None)
    check = next(filter(None, map(check_of, parts)), None)
    values: Any = {tuple: iter, dict: dict.values}.get(origin)
    return partial(_check_each, check, values) if check and values else check


def _check_record(fields: dict[str, Check], record: Any, name: str, lengths: dict[str, int]) -> None:
    inner: dict[str, int] = {}
    for field, check in fields.items():
        if (value := getattr(record, field)) is not None:
            check(value, field, inner)


def _check_each(check: Check, values: Callable[[Any], Iterable[Any]], group: Any, name: str, lengths: dict[str, int]) -> None:
    for value in values(group):
        check(value, name, lengths)


def check_form(form: Form, tensor: Tensor, name: str, lengths: dict[str, int]) -> None:
    """Checks a tensor; raises as `check_of`."""
    size = lengths.setdefault(form.length, tensor.numel()) if form.length else tensor.numel()
    if tensor.dim() != 1 or tensor.dtype not in form.dtypes or tensor.numel() != size:
        raise ProtocolError(
            f"{name} has shape {[*tensor.shape]} and dtype {tensor.dtype}; expected [{size if size != tensor.numel() else 'n'}] "
            f"and {' or '.join(map(str, form.dtypes))}"
        )
