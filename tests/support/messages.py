"""Messages of every kind that servers and clients exchange, filled at random, and how to compare them."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from halohop.errors import InputError
from halohop.net.messages import server_codec
from halohop.sampling.batch import EdgeBlock, NodeBlock
from halohop.store.forms import Form
from halohop.tables.rule_spec import RuleSpec
from halohop.transport.messages import Failure

MESSAGE_TYPES = tuple(kind for kind in server_codec()._types.values() if kind is not Failure)
_WORDS = ("node", "paper", "Autor", "日本", "x" * 300)
_DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
)


def random_tensor(generator: torch.Generator, dtype: torch.dtype | None = None, *, length: int | None = None) -> Tensor:
    """A tensor of any dtype and shape, or of this length: scalars, empty ones, strided ones."""

    def draw(bound: int) -> int:
        return int(torch.randint(bound, (), generator=generator))

    dtype = dtype or _DTYPES[draw(len(_DTYPES))]
    shape = [] if length is None else [length]
    shape += [(0, 1, 3, 17)[draw(4)] for _ in range(draw(4) if length is None else draw(2))]
    if length is None and dtype in (torch.bool, torch.int32, torch.int64) and not draw(4):  # so many that they are sent packed
        many = torch.randint(1 << (1, 6, 12, 20, 30)[draw(5)], (600,), generator=generator) + draw(2**30)
        return (many.sort().values if draw(2) else many % 2 if dtype is torch.bool else many).to(dtype)
    values = torch.randint(2 if dtype is torch.bool else 100, shape, generator=generator).to(dtype)
    return values.mT if values.dim() >= 2 and draw(2) else values


def random_messages(seed: int) -> Iterator[Any]:
    """One message of every type, filled at random: what its annotations permit, and its checks accept."""
    generator = torch.Generator().manual_seed(seed)
    for kind in MESSAGE_TYPES:
        yield random_value(kind, generator)


def random_value(annotation: Any, generator: torch.Generator, length: int | None = None) -> Any:
    """A value that an annotation of a message's field permits; tensors of this length, or of any shape."""

    def number(bound: int = 2**62) -> int:
        return int(torch.randint(bound, (), generator=generator))

    def some(kind: Any) -> list[Any]:
        return [random_value(kind, generator, length) for _ in range(number(4))]

    plain = {
        NoneType: lambda: None,
        bool: lambda: bool(number(2)),
        int: lambda: number() - 2**61,
        float: lambda: number() / 2**31,
        str: lambda: _WORDS[number(len(_WORDS))],
        bytes: lambda: bytes(number(256) for _ in range(number(9))),
        Tensor: lambda: random_tensor(generator, length=length),
    }
    if annotation in plain:
        return plain[annotation]()
    if is_dataclass(annotation):
        return _random_record(annotation, generator)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:  # with bounds, a length that all words keep, or the form of a tensor
        bare, meta = parts
        if isinstance(meta, Form):
            dtype = meta.dtypes[number(len(meta.dtypes))]
            return torch.randint(100, (3 if length is None else length,), generator=generator).to(dtype)
        return random_value(bare, generator) if meta.le is None else bare(number(meta.le + 1))
    if origin is Literal:
        return parts[number(len(parts))]
    if origin in (Union, UnionType):
        return random_value(parts[number(len(parts))], generator, length)
    if origin is dict:
        return {random_value(parts[0], generator): random_value(parts[1], generator, length) for _ in range(number(4))}
    if origin is tuple and parts[-1] is not Ellipsis:
        return tuple(random_value(part, generator, length) for part in parts)
    assert origin in (tuple, list, frozenset), annotation
    return origin(some(parts[0]))


def _random_record(kind: Any, generator: torch.Generator) -> Any:
    """A dataclass whose own checks accept what it was given."""
    hints = get_type_hints(kind, include_extras=True)
    for _ in range(1000):
        length = (None, 0, 1, 3, 17)[int(torch.randint(5, (), generator=generator))]  # columns are often as long as each other
        values = {field.name: random_value(hints[field.name], generator, length) for field in fields(kind)}
        if kind in (NodeBlock, EdgeBlock):  # too many numbers that must agree to be found by chance
            if not values["gid"].dim():
                continue
            num = len(values["gid"])
            values |= {"num_sampled": (num,) if num % 2 else None}
            values |= {"sparse": {}} if kind is NodeBlock else {"ends_bid": torch.arange(2 * num).view(2, num), "flips": None}
        if kind is RuleSpec:
            values |= {name: value % 1 for name, value in values.items() if isinstance(value, float)}
        try:
            return kind(**values)
        except (InputError, AssertionError, TypeError, ValueError):  # values that exclude each other
            continue
    raise AssertionError(f"no {kind.__name__} among 1000 was accepted")


def same(one: Any, other: Any) -> bool:
    """Whether two messages are equal, tensors to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)
