"""Messages of every kind that a graph exchanges, filled at random, and how to compare them."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from halohop.ops import SparseRows
from halohop.store.draw import Draw, Rules
from halohop.store.requests import (
    EdgesReply,
    EdgesRequest,
    FetchReply,
    FetchRequest,
    HopAnswer,
    HopQuery,
    LocateReply,
    LocateRequest,
    RowQuery,
    SampleReply,
    SampleRequest,
    SelectReply,
    SelectRequest,
)

MESSAGE_TYPES = (
    *(SampleRequest, SampleReply, FetchRequest, FetchReply),
    *(LocateRequest, LocateReply, SelectRequest, SelectReply),
    *(EdgesRequest, EdgesReply),
)
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


def random_tensor(generator: torch.Generator, dtype: torch.dtype | None = None, dimensions: int | None = None) -> Tensor:
    """A tensor of any dtype and shape: scalars, empty ones, strided ones."""

    def draw(bound: int) -> int:
        return int(torch.randint(bound, (), generator=generator))

    dtype = dtype or _DTYPES[draw(len(_DTYPES))]
    shape = [(0, 1, 3, 17)[draw(4)] for _ in range(draw(4) if dimensions is None else dimensions)]
    values = torch.randint(2 if dtype is torch.bool else 100, shape, generator=generator).to(dtype)
    return values.mT if values.dim() >= 2 and draw(2) else values


def random_messages(seed: int) -> Iterator[Any]:
    """One message of every type that a graph exchanges, filled at random."""
    generator = torch.Generator().manual_seed(seed)

    def number(bound: int = 2**62) -> int:
        return int(torch.randint(bound, (), generator=generator))

    def word() -> str:
        return _WORDS[number(len(_WORDS))]

    def ids() -> Tensor:
        return random_tensor(generator, torch.int64, 1)

    def some(make: Callable[[], Any]) -> tuple[Any, ...]:
        return tuple(make() for _ in range(number(4)))

    def relation() -> tuple[str, str, str]:
        return word(), word(), word()

    def row_query() -> RowQuery:
        return RowQuery(table=relation() if number(2) else word(), columns=some(word), gid=ids())

    rules = Rules(replace=bool(number(2))) if number(2) else Rules(labor=True, weight=word())
    draw = Draw(seed=number(), epoch=number(), batch=-number(), hop=number(9), rules=rules)
    queries = some(lambda: HopQuery(relation=relation(), fanout=number(20) - 1, dst_gid=ids()))
    yield SampleRequest(draw=draw, queries=queries)
    yield SampleReply(answers=some(lambda: HopAnswer(counts=ids(), src_gid=ids(), edge_gid=ids())))
    yield FetchRequest(queries=some(row_query))
    rows = some(lambda: some(lambda: random_tensor(generator)))
    sparse_rows = SparseRows(indptr=ids(), indices=ids(), values=ids(), width=number(9))
    sparse = tuple({word(): sparse_rows} if number(2) else {} for _ in rows)
    yield FetchReply(rows=rows, sparse=sparse)
    yield LocateRequest(node_type=word(), raw=ids())
    yield LocateReply(gid=ids())
    yield SelectRequest(node_type=word(), mask=word() if number(2) else None, parts=some(lambda: number(9)))
    yield SelectReply(gid=ids(), raw=ids())
    yield EdgesRequest(relation=relation(), parts=some(lambda: number(9)))
    yield EdgesRequest(relation=relation(), parts=(), edge_id=ids())
    yield EdgesReply(src_gid=ids(), dst_gid=ids(), edge_id=ids())


def same(one: Any, other: Any) -> bool:
    """Whether two messages are equal, tensors to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)
