"""What a batch weighs that a user has put together."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from halohop.sampling.batch import tensor_bytes


def bytes_of(value: Any) -> int:
    """The bytes of the tensors in dictionaries, lists, tuples and dataclasses. An object that has `num_bytes` says its own; other
    objects weigh nothing. A tensor that is there twice counts once.

    Example:
        >>> import torch
        >>> x = torch.zeros(4)
        >>> bytes_of({"x": x, "rest": [x, (torch.zeros(2, dtype=torch.int64), "text")]})
        32
    """
    return sum(_weights(value, set()))


def _weights(value: Any, seen: set[int]) -> Iterator[int]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield tensor_bytes(value)
    elif isinstance(said := getattr(value, "num_bytes", None), int):
        yield said
    else:
        for part in _parts(value):
            yield from _weights(part, seen)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list | tuple):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in fields(value)]
    return []
