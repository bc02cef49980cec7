"""The functions of `halohop.ops.reference_segments` on the CPU: kernels, in several threads where the work is large.

Lists are divided among as many threads as torch may use. They are started for the call, 50 us a thread: so more are
used where there is more work. None stay, so a process can be forked, and none compete with torch's.
"""

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from halohop.errors import IdError, InputError
from halohop.ops import cpu_gatv2, cpu_greatest, cpu_segments, cpu_softmax
from halohop.ops.pool import layer_pool
from halohop.ops.reference_segments import wide

u64 = np.uint64
Kernel = Callable[..., Any]

_START = 1 << 16  # values that are read in the time in which a thread is started
_BITS = {torch.bfloat16: np.uint16, torch.float16: np.int16}
_NO_EDGE = np.empty(0, np.int64)


def by_source(src: Tensor, begins: Tensor, num_src: int) -> tuple[Tensor, Tensor, Tensor]:
    _check_ends(begins, len(src))
    begins_out, dst, place = np.zeros(num_src + 2, np.int64), np.empty(len(src), np.int64), np.empty(len(src), np.int64)
    _check(cpu_segments.by_source(_ids(src), _flat(begins), begins_out, dst, place), src, begins, num_src)
    return torch.from_numpy(dst), torch.from_numpy(begins_out[:-1]), torch.from_numpy(place)


def weighted_sum(
    x: Tensor, src: Tensor, begins: Tensor, weight: Tensor | None, edge: Tensor | None, own: Tensor | None, mean: bool
) -> Tensor:
    out = _new((len(begins) - 1, *x.shape[1:]), wide(x.dtype))
    values = _flat(out)
    weights, owns = (values[:0] if factors is None else _flat(factors.to(out.dtype)) for factors in (weight, own))
    arguments = (_words(x), *_sizes(x), u64(len(x)), _ids(src), _flat(begins), weights, _edges(edge), owns, mean)
    _run(cpu_segments.weighted_sum, arguments, (values,), src, begins, x)
    return out.to(x.dtype)


def dot(left: Tensor, right: Tensor, src: Tensor, begins: Tensor, edge: Tensor | None) -> Tensor:
    out = _new((len(src), left.shape[1]), wide(left.dtype))
    arguments = (_words(left), _words(right), *_sizes(left), u64(len(left)), _ids(src), _flat(begins), _edges(edge))
    _run(cpu_segments.dot, arguments, (_flat(out),), src, begins, left)
    return out.to(left.dtype)


def add(left: Tensor, right: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    out = _new((len(src), left.shape[1]), left.dtype)
    arguments = (_flat(left), _flat(right), _row(left), u64(len(left)), _ids(src), _flat(begins))
    _run(cpu_segments.add, arguments, (_flat(out),), src, begins, left)
    return out


def greatest(x: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    out = _new((len(begins) - 1, *x.shape[1:]), x.dtype)
    arguments = (_flat(x), _row(x), u64(len(x)), _ids(src), _flat(begins))
    _run(cpu_greatest.greatest, arguments, (_flat(out),), src, begins, x)
    return out


def greatest_backward(grad: Tensor, x: Tensor, out: Tensor, src: Tensor, begins: Tensor) -> Tensor:
    shares, result = _new(tuple(out.shape), out.dtype), _new(tuple(x.shape), x.dtype)
    rows, top = _flat(x), _flat(out)
    _run(cpu_greatest.share, (_flat(grad), rows, top, _row(x), _ids(src), _flat(begins)), (_flat(shares),), src, begins, x)
    dst, ends, _ = by_source(src, begins, len(x))
    arguments = (_flat(shares), rows, top, _row(x), _flat(dst), _flat(ends))
    _run(cpu_greatest.greatest_backward, arguments, (_flat(result),), dst, ends, out)
    return result


def softmax(scores: Tensor, begins: Tensor) -> Tensor:
    out = _new(tuple(scores.shape), scores.dtype)
    heads, num_edges, starts, values = u64(scores.shape[1]), u64(len(scores)), _flat(begins), _flat(out)

    def work(given: Any, heads: Any, num_edges: Any, starts: Any, first: Any, last: Any, values: Any) -> Any:
        done = cpu_softmax.below_top(given, heads, num_edges, starts, first, last, values)
        if done == num_edges:
            part = values[int(starts[int(first)]) * int(heads) : int(starts[int(last)]) * int(heads)]
            np.exp(part, out=part)
            cpu_softmax.add_to_one(values, heads, num_edges, starts, first, last)
        return done

    _run(work, (_flat(scores), heads, num_edges, starts), (values,), scores, begins, scores)
    return out


def softmax_backward(grad: Tensor, out: Tensor, begins: Tensor) -> Tensor:
    result = _new(tuple(out.shape), out.dtype)
    arguments = (_flat(grad), _flat(out), u64(out.shape[1]), u64(len(out)), _flat(begins))
    _run(cpu_softmax.softmax_backward, arguments, (_flat(result),), out, begins, out)
    return result


def gatv2(
    left: Tensor, right: Tensor, attention: Tensor, edges: Tensor | None, src: Tensor, begins: Tensor, slope: float
) -> Tensor:
    out = _new((len(src), left.shape[1]), left.dtype)
    rows = _flat(left)
    arguments = (
        rows,
        _flat(right),
        _flat(attention),
        _own(edges, left),
        rows.dtype.type(slope),
        *_sizes(left),
        u64(len(left)),
        _ids(src),
        _flat(begins),
    )
    _run(cpu_gatv2.scores, arguments, (_flat(out),), src, begins, left)
    return out


def gatv2_backward(
    grad: Tensor,
    left: Tensor,
    right: Tensor,
    attention: Tensor,
    edges: Tensor | None,
    src: Tensor,
    begins: Tensor,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    to_left, to_right = (_new(tuple(rows.shape), rows.dtype) for rows in (left, right))
    to_edges = _new((0,) if edges is None else tuple(edges.shape), left.dtype)
    lefts, rights, weights, grads, own = _flat(left), _flat(right), _flat(attention), _flat(grad), _own(edges, left)
    sizes, factor = _sizes(left), lefts.dtype.type(slope)
    of_lists = (lefts, rights, weights, own, factor, grads, *sizes, _ids(src), _flat(begins))
    _run(cpu_gatv2.rows_backward, (*of_lists, _NO_EDGE), (_flat(to_right),), src, begins, left)
    if edges is not None:
        _run(cpu_gatv2.edges_backward, of_lists, (_flat(to_edges),), src, begins, left)
    dst, ends, place = by_source(src, begins, len(left))
    of_sources = (rights, lefts, weights, own, factor, grads, *sizes, _flat(dst), _flat(ends), _flat(place))
    _run(cpu_gatv2.rows_backward, of_sources, (_flat(to_left),), dst, ends, right)
    shares = np.zeros((-(-(len(begins) - 1) // int(cpu_segments.BLOCK)), attention.numel()), lefts.dtype)
    of_blocks = (lefts, rights, own, factor, grads, *sizes, _ids(src), _flat(begins), cpu_segments.BLOCK)
    _run(cpu_gatv2.attention_backward, of_blocks, (shares.reshape(-1),), src, begins, left)
    return to_left, to_right, torch.from_numpy(shares.sum(0)).view(attention.shape), to_edges


def _new(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    return layer_pool().empty(shape, dtype)


def _own(edges: Tensor | None, left: Tensor) -> NDArray[Any]:
    return _flat(left.new_empty(0) if edges is None else edges)


def _run(kernel: Kernel, arguments: tuple[Any, ...], results: tuple[Any, ...], src: Tensor, begins: Tensor, rows: Tensor) -> None:
    """Has a kernel do all lists, and raises what was wrong with the first that it could not do."""
    _check_ends(begins, len(src))
    bounds = _bounds(begins, rows.shape[1:].numel() * (len(src) + len(begins)))
    done: list[Any] = [None] * (len(bounds) - 1)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            done[number] = kernel(*arguments, u64(bounds[number]), u64(bounds[number + 1]), *results)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,), name=f"halohop-lists-{n}") for n in range(1, len(done))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    for end in done:
        _check(end, src, begins, len(rows))


def _bounds(begins: Tensor, work: int) -> list[int]:
    """Where each thread's lists begin: a multiple of BLOCK, so that blocks are whole; each thread has about as many edges."""
    num_lists, block = len(begins) - 1, int(cpu_segments.BLOCK)
    threads = min(torch.get_num_threads(), math.isqrt(work // _START))  # n take work / n + n * _START: least at that root
    if threads < 2:
        return [0, num_lists]
    heads = begins.numpy()[::block]
    load = heads + np.arange(len(heads)) * block
    cuts = np.searchsorted(load, np.linspace(0, load[-1], threads + 1)[1:-1]) * block
    return [0, *np.maximum.accumulate(np.minimum(cuts, num_lists)).tolist(), num_lists]


def _check(done: Any, src: Tensor, begins: Tensor, num_src: int) -> None:
    done, num_edges = int(done), len(src)
    if done > num_edges:
        at = done - num_edges - 1
        raise InputError(
            f"list {at} goes from {int(begins[at])} to {int(begins[at + 1])}; begins must ascend from 0 to {num_edges}, as in CSC"
        )
    if done < num_edges:
        raise IdError(f"src[{done}] is {int(src[done])}, but there are {num_src} rows; sources are numbers of rows of the batch")


def _check_ends(begins: Tensor, num_edges: int) -> None:
    first, last = int(begins[0]), int(begins[-1])
    if (first, last) != (0, num_edges):
        raise InputError(f"begins go from {first} to {last}, but must from 0 to {num_edges}, the number of edges, as in CSC")


def _flat(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.detach().contiguous().view(-1).numpy()
    return array


def _words(x: Tensor) -> NDArray[Any]:
    """Rows as the kernels read them: two bytes as their bits."""
    return _flat(x.contiguous().view(torch.int16)).view(_BITS[x.dtype]) if x.dtype in _BITS else _flat(x)


def _ids(src: Tensor) -> NDArray[Any]:
    """As int64, so that each kernel is compiled once per dtype of rows."""
    return _flat(src.long())


def _edges(edge: Tensor | None) -> NDArray[Any]:
    return _NO_EDGE if edge is None else _flat(edge)


def _row(x: Tensor) -> Any:
    return u64(x.shape[1:].numel())


def _sizes(x: Tensor) -> tuple[Any, Any]:
    return u64(x.shape[1]), u64(x.shape[2])
