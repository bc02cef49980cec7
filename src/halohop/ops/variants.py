"""Calls that need every kernel once for each types of its arguments, on graphs of two nodes: what is compiled beforehand."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from halohop.ops import cpu_numbers, cpu_paging, cpu_sample, segment_kernels
from halohop.ops.beginnings import fill_normal, fill_uniform
from halohop.ops.cache import CacheIndex
from halohop.ops.eligible import Eligible
from halohop.ops.hops import NearHops, NearLists
from halohop.ops.index import bucket, build_csc, repeat_positions
from halohop.ops.labor import Sources
from halohop.ops.lists import stitch, stitch_lists
from halohop.ops.narrow import Narrow, widened
from halohop.ops.packing import pack_integers, unpack_integers
from halohop.ops.pieces import Pieces
from halohop.ops.pool import Pool
from halohop.ops.ranked import RankedRuns, RankedSet
from halohop.ops.records import Records
from halohop.ops.relabel import Relabeler
from halohop.ops.rows import gather_rows, gather_rows_to, scatter_rows
from halohop.ops.rules import FLOATS, gradient_dtype, step_adagrad, step_adam, step_rowwise_adagrad, step_sgd
from halohop.ops.sample import sample_neighbors
from halohop.ops.sorting import ascending_order, sort_edges, sorted_begins
from halohop.ops.sparse import SparseRows
from halohop.ops.sums import all_finite, sum_by_id, sum_of_squares, unite
from halohop.ops.weighted import sum_weights

Call = Callable[[], object]

_INDPTR, _IDS = torch.tensor([0, 2, 3]), torch.tensor([0, 1, 1])
_ID_DTYPES = (torch.int64, torch.int32)
_WORDS = (torch.int64, torch.int32, torch.uint8)
_WEIGHTS = (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8)


def near() -> Iterator[Call]:
    """What a loader of neighbours needs, drawn alike from lists in one piece each; those that take longest to compile first."""
    yield _hop
    yield _draw_few  # a fifth of the hop, which another process compiles meanwhile
    yield from (partial(_copy_rows, word, torch.int64, back=False) for word in _WORDS)
    yield partial(Relabeler(2).start, _IDS)
    yield partial(sort_edges, _IDS.flip(0), _IDS, 2, 2)
    yield partial(_unpack, (torch.int64, torch.bool), wide=False)


def common() -> Iterator[Call]:
    """The same from lists that lie in several pieces, or with other hosts."""
    yield partial(_draw, 1)
    yield from (partial(_copy_rows, word, torch.int64, back=False) for word in _WORDS)
    yield partial(_copy_rows, torch.int64, torch.int32, back=False)
    yield partial(_relabel, torch.int32, dense_limit=2)
    yield partial(sort_edges, _IDS.flip(0), _IDS, 2, 2)
    yield partial(repeat_positions, _IDS, 0, torch.empty(2, dtype=torch.int64))
    yield partial(_unpack, (torch.int64, torch.bool), wide=False)


def others() -> Iterator[Call]:
    """What other options and other graphs need, but for tables."""
    yield from (partial(_draw, fanout, replace=replace) for fanout, replace in ((100, False), (1, True)))
    yield from (partial(_draw, 1, weights=torch.ones(3, dtype=dtype)) for dtype in _WEIGHTS)
    yield from (partial(sum_weights, _INDPTR, torch.ones(3, dtype=dtype)) for dtype in _WEIGHTS)
    yield from (partial(_draw, 1, sources=Sources(ids=_IDS.to(dtype)), weights=torch.ones(3)) for dtype in _ID_DTYPES)
    yield from (partial(_draw_by_time, dtype) for dtype in (torch.int32, torch.int64, torch.float32, torch.float64))
    yield from (partial(_copy_rows, word, ids, back=True) for word in _WORDS for ids in _ID_DTYPES)
    yield from (partial(gather_rows_to, torch.zeros(2, dtype=word), _IDS, _IDS, torch.zeros(2, dtype=word)) for word in _WORDS)
    yield from (partial(_relabel, ids, dense_limit=limit) for ids in _ID_DTYPES for limit in (2, 0))
    yield from (partial(bucket, _IDS.to(ids), (0, 1, 2), (0, 1)) for ids in _ID_DTYPES)
    yield from (partial(stitch_lists, [(torch.tensor([1, 2]), _IDS[:2], [_IDS.to(ids)])]) for ids in _ID_DTYPES)
    yield from (partial(build_csc, _IDS.to(ids), 2, dtype=dtype) for ids in _ID_DTYPES for dtype in _ID_DTYPES)
    yield from (partial(sort_edges, _IDS.to(ids).flip(0), _IDS.to(ids), 2, 2) for ids in _ID_DTYPES)
    yield from (partial(_pack, _IDS.to(ids)) for ids in _ID_DTYPES)
    yield partial(ascending_order, _IDS)
    yield partial(stitch, torch.tensor([1, 2, 0]), torch.tensor([0, 2, 1]))
    yield partial(cpu_numbers.logarithm, 1.0)
    yield partial(cpu_paging.will_need, np.zeros(0, np.uint64), np.uint64(0))
    values = (torch.int64, torch.int32, torch.int16, torch.uint8)
    yield from (partial(_unpack, values, wide=wide) for wide in (False, True))
    yield from (partial(_fill_sparse, value, index) for value in values for index in (torch.int32, torch.int16))
    yield _cache
    yield from (partial(_find_kept, ids) for ids in _ID_DTYPES)
    yield from (partial(_widen, dtype) for dtype in (torch.float32, torch.float64))


def of_layers() -> Iterator[Call]:
    """What layers over lists need, and their gradients."""
    yield from (partial(sorted_begins, _IDS.to(ids), 2) for ids in _ID_DTYPES)
    for which in range(len(_AGGREGATIONS)):
        yield from (partial(_aggregate, which, dtype) for dtype in (torch.float32, torch.float64))
    for which in range(_OF_HALVES):
        yield from (partial(_aggregate, which, dtype) for dtype in (torch.bfloat16, torch.float16))


def of_tables() -> Iterator[Call]:
    """What tables that train need besides."""
    yield from (partial(_step, dtype) for dtype in FLOATS)
    yield from (partial(_sum_and_fill, dtype) for dtype in (torch.float32, torch.float64))


def _hop() -> None:
    words = _INDPTR.numpy().view(np.uint64), _IDS.numpy().view(np.uint64)
    lists = NearLists(
        drawn_as=("", "", ""),
        indptr=words[0],
        indices=words[1],
        edge_ids=None,
        raw=None,
        own_type=0,
        neighbor_type=0,
        fanouts=[1],
    )
    relabeler = Relabeler(2)
    relabeler.start(_IDS[:2])
    NearHops([lists], expand_all=False, list_end=1, pool=Pool()).sample([relabeler], seed=0, epoch=0, batch=0)


def _draw_few() -> None:
    lists = np.zeros(1, np.int64)
    cpu_sample.draw_few(lists, lists, lists, np.uint64(0), np.uint64(1), lists)


def _draw(fanout: int, **options: object) -> None:
    sample_neighbors(_INDPTR, _IDS, _IDS, fanout, 0, **options)  # type: ignore[arg-type]


def _draw_by_time(dtype: torch.dtype) -> None:
    times = torch.zeros(3, dtype=dtype)
    for is_sorted in (False, True):
        _draw(1, eligible=Eligible(times=times, latest=times, last=True, times_sorted=is_sorted, excluded=_IDS))


def _copy_rows(word: torch.dtype, ids: torch.dtype, *, back: bool) -> None:
    source, rows = torch.zeros(3, dtype=word), _IDS.to(ids)
    taken = gather_rows(source, rows)
    if back:
        scatter_rows(taken, rows, source)


def _pack(ids: torch.Tensor) -> None:
    many = ids.repeat(100)
    packed = pack_integers(many)
    assert packed is not None
    unpack_integers(packed, many)


def _relabel(ids: torch.dtype, *, dense_limit: int) -> None:
    relabeler = Relabeler(2, dense_limit=dense_limit)
    relabeler.start(_IDS)
    relabeler.start(_IDS.to(ids))
    relabeler.add(_IDS.to(ids))
    relabeler.find(_IDS.to(ids))


def _unpack(dtypes: tuple[torch.dtype, ...], *, wide: bool) -> None:
    """A column of each dtype, out of words of 8 bytes or of 4."""
    columns = {str(dtype): torch.tensor([0, 1]).to(dtype) for dtype in dtypes} | {"": torch.tensor([0, 2**40 if wide else 1])}
    records = Records.of({name: Pieces([column], [0, 2]) for name, column in columns.items()})
    assert records is not None
    records.take(list(columns), _IDS)


def _fill_sparse(values: torch.dtype, indices: torch.dtype) -> None:
    SparseRows(indptr=_INDPTR, indices=_IDS.to(indices), values=torch.ones(3, dtype=values), width=2).dense()


def _cache() -> None:
    index = CacheIndex(1)
    index.take_places(_IDS, 1)
    index.find(_IDS, 1)


def _find_kept(ids: torch.dtype) -> None:
    RankedSet(_IDS[:2].to(ids), 2).places(_IDS.to(ids))
    RankedRuns(_IDS[:1], _IDS[:2]).places(_IDS.to(ids))


def _widen(dtype: torch.dtype) -> None:
    widened(torch.zeros(1, 1, dtype=torch.int8), Narrow(dtype="int8", scale=(1.0,), low=(0.0,)), dtype)
    widened(torch.zeros(1, 1, dtype=torch.float16), Narrow(dtype="float16"), dtype)


_OF_HALVES = 2  # the first of these read halves as they are; the others get them as float32
_AGGREGATIONS: tuple[Callable[[torch.Tensor, torch.Tensor], object], ...] = (
    lambda x, weight: segment_kernels.weighted_sum(x, _IDS, _INDPTR, weight, None, None, False),
    lambda x, weight: segment_kernels.dot(x, x[:2], _IDS, _INDPTR, None),
    lambda x, weight: segment_kernels.add(weight, weight[:2], _IDS, _INDPTR),
    lambda x, weight: segment_kernels.greatest_backward(x[:2], x, segment_kernels.greatest(x, _IDS, _INDPTR), _IDS, _INDPTR),
    lambda x, weight: segment_kernels.softmax_backward(weight, segment_kernels.softmax(weight, _INDPTR), _INDPTR),
    lambda x, weight: segment_kernels.gatv2(x, x[:2], x[0], x, _IDS, _INDPTR, 0.2),
    lambda x, weight: segment_kernels.gatv2_backward(weight, x, x[:2], x[0], x, _IDS, _INDPTR, 0.2),
)


def _aggregate(number: int, dtype: torch.dtype) -> None:
    _AGGREGATIONS[number](torch.zeros(3, 1, 2, dtype=dtype), torch.zeros(3, 1, dtype=dtype))


def _step(dtype: torch.dtype) -> None:
    lid = torch.tensor([1, 0])
    rows, grads = torch.zeros(2, 1, dtype=dtype), torch.zeros(2, 1, dtype=gradient_dtype(dtype))
    state = torch.zeros_like(grads)
    step_sgd(rows, lid, grads, lr=0.0)
    step_adagrad(rows, state, lid, grads, lr=0.0, eps=1.0)
    step_rowwise_adagrad(rows, state[:, 0], lid, grads, lr=0.0, eps=1.0)
    step_adam(rows, state, torch.zeros_like(state), lid, grads, lr=0.0, eps=1.0, beta1=0.0, beta2=0.0)


def _sum_and_fill(dtype: torch.dtype) -> None:
    rows, lid = torch.zeros(2, 1, dtype=dtype), torch.tensor([1, 0])
    sum_by_id(lid, rows)
    sum_of_squares(sum_by_id([lid, lid], [rows, rows], mean=True)[1])
    unite([lid, lid], [rows, rows])[1].sum_of_squares()
    all_finite(rows)
    for fill in (fill_uniform, fill_normal):
        fill(rows, 0, lid, 0.0, 1.0)
