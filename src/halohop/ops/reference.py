"""What the operations compute, in plain Python: slow, obvious, the specification. Tests compare the kernels with it.

Arguments are taken to be right; what happens when they are not is the door's business.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from halohop.ops.eligible import Eligible
from halohop.ops.index import Buckets
from halohop.ops.labor import Sources
from halohop.ops.pieces import Pieces
from halohop.ops.random import stream_key as stream_key
from halohop.ops.reference_beginnings import logarithms
from halohop.ops.reference_random import draw
from halohop.ops.reference_random import fraction as fraction
from halohop.ops.reference_random import word as word
from halohop.ops.reference_weighted import draw_weighted as draw_weighted


def draw_positions(degree: int, raw: int, fanout: int, key: int, *, replace: bool) -> list[int]:
    """The drawn positions in a list of `degree` neighbours."""
    if fanout == -1 or (degree <= fanout and not replace):
        return list(range(degree))
    if replace:
        return [draw(key, raw, number, degree) for number in range(fanout)] if degree > 0 else []
    chosen: list[int] = []
    for number, last in enumerate(range(degree - fanout, degree)):  # Floyd's algorithm (Bentley & Floyd, 1987)
        pick = draw(key, raw, number, last + 1)
        chosen.append(last if pick in chosen else pick)
    return chosen


def draw_by_source(sources: list[int], weights: list[float] | None, fanout: int, key: int) -> list[int]:
    """The drawn positions in a list of neighbours with these ids, by numbers of their own (Balin & Catalyurek 2023); weights,
    if there are any, are above zero.

    The law is that of `draw_positions` or `draw_weighted` (Efraimidis & Spirakis 2006), since the numbers in a list are
    independent: copy c of a source in the list has number c of its stream.
    """
    if fanout == -1 or len(sources) <= fanout:
        return list(range(len(sources)))
    keys = [fraction(key, source, sources[:j].count(source)) for j, source in enumerate(sources)]
    if weights is not None:
        greatest = max(weights)
        keys = [log * (greatest / weight) for log, weight in zip(logarithms(np.array(keys)).tolist(), weights, strict=True)]
    return sorted(range(len(keys)), key=lambda j: (-keys[j], j))[:fanout]


def most_recent(times: list[float], fanout: int) -> list[int]:
    """The positions of the greatest times in a list; of equal ones, of the last."""
    if fanout == -1 or len(times) <= fanout:
        return list(range(len(times)))
    return sorted(range(len(times)), key=lambda j: (times[j], j))[len(times) - fanout :]


def time_of(position: int, eligible: Eligible) -> float:
    assert isinstance(eligible.times, Tensor)
    if eligible.via is not None:
        assert isinstance(eligible.via, Tensor)
        position = int(eligible.via[position])
    time: float = eligible.times[position].item()
    return time


def source_of(position: int, sources: Sources) -> int:
    assert isinstance(sources.ids, Tensor)
    if sources.via is not None:
        assert isinstance(sources.via, Tensor)
        position = int(sources.via[position])
    return int(sources.ids[position])


def may_be_drawn(position: int, number: int, eligible: Eligible | None) -> bool:
    """Whether an entry of the list of row `number` may be drawn, whatever its weight."""
    if eligible is None:
        return True
    if eligible.excluded is not None and position in eligible.excluded.tolist():
        return False
    if eligible.earliest is not None and not time_of(position, eligible) >= eligible.earliest[number].item():
        return False
    if eligible.latest is not None:
        return time_of(position, eligible) <= eligible.latest[number].item()
    return not eligible.last or time_of(position, eligible) <= float("inf")  # not so if it is no number


def stitch_lists(pieces: Sequence[tuple[Tensor, Tensor, Sequence[Tensor]]]) -> tuple[Tensor, tuple[Tensor, ...]]:
    counts, orders, columns = zip(*pieces, strict=True)
    placed, source = stitch(torch.cat(counts), torch.cat(orders))
    return placed, tuple(torch.cat(parts)[source] for parts in zip(*columns, strict=True))


def copy_ids(ids: Tensor, out: Tensor) -> Tensor:
    return out.copy_(ids)


def repeat_positions(counts: Tensor, begin: int, out: Tensor) -> None:
    out[:] = torch.tensor([begin + i for i, count in enumerate(counts.tolist()) for _ in range(count)], dtype=torch.int64)


def sample_neighbors(
    indptr: Tensor,
    rows: Tensor,
    raw: Tensor,
    fanout: int,
    key: int,
    *,
    replace: bool = False,
    weights: Tensor | None = None,
    eligible: Eligible | None = None,
    sources: Sources | None = None,
) -> tuple[Tensor, Tensor]:
    counts, positions = [], []
    for number, (row, raw_id) in enumerate(zip(rows.tolist(), raw.tolist(), strict=True)):
        start, end = indptr[row : row + 2].tolist()
        possible: Sequence[int] = range(start, end)
        if eligible is not None:
            possible = [position for position in possible if may_be_drawn(position, number, eligible)]
        if eligible is not None and eligible.last:
            drawn = most_recent([time_of(position, eligible) for position in possible], fanout)
        elif sources is not None:
            shift = 0 if sources.shift is None else int(sources.shift[number])
            possible = [position for position in possible if weights is None or weights[position] > 0]
            ids = [source_of(position, sources) + shift for position in possible]
            chances = None if weights is None else [weights[position].item() for position in possible]
            drawn = draw_by_source(ids, chances, fanout, key)
        elif weights is not None:
            drawn = draw_weighted([weights[position].item() for position in possible], raw_id, fanout, key, replace=replace)
        else:
            drawn = draw_positions(len(possible), raw_id, fanout, key, replace=replace)
        counts.append(len(drawn))
        positions += [possible[j] for j in drawn]
    return torch.tensor(counts, dtype=torch.int64), torch.tensor(positions, dtype=torch.int64)


def list_lengths(indptr: Tensor, rows: Tensor) -> Tensor:
    return torch.tensor([int(indptr[row + 1] - indptr[row]) for row in rows.tolist()], dtype=torch.int64)


def gather_rows(source: Tensor | Pieces, rows: Tensor, out: Tensor | None = None) -> Tensor:
    pieces = source if isinstance(source, Pieces) else Pieces([source.contiguous()], [0, len(source)])
    result = torch.empty((len(rows), *pieces.row_shape), dtype=pieces.dtype) if out is None else out
    for i, row in enumerate(rows.tolist()):
        tensor, local = pieces.find(row)
        assert tensor is not None
        result[i] = tensor[local]
    return result


def gather_known(source: Tensor | Pieces, rows: Tensor) -> Tensor:
    known = gather_rows(source, rows[rows >= 0])
    result = torch.zeros((len(rows), *known.shape[1:]), dtype=known.dtype)
    scatter_rows(known, known_places(rows), result)
    return result


def join_rows(pieces: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(pieces))


def known_places(rows: Tensor) -> Tensor:
    return torch.tensor([i for i, row in enumerate(rows.tolist()) if row >= 0], dtype=torch.int64)


def fill_missing(column: Tensor, rows: Tensor, value: float = 0) -> None:
    for i, row in enumerate(rows.tolist()):
        if row < 0:
            column[i] = value


def gather_rows_to(source: Tensor, rows: Tensor, positions: Tensor, out: Tensor) -> None:
    scatter_rows(gather_rows(source, rows), positions, out)


def scatter_rows(values: Tensor, positions: Tensor, out: Tensor) -> None:
    for i, position in enumerate(positions.tolist()):
        out[position] = values[i]


def bucket(ids: Tensor, bounds: Sequence[int], bucket_of_part: Sequence[int]) -> Buckets:
    members: list[list[int]] = [[] for _ in range(max(bucket_of_part, default=-1) + 1)]
    for position, v in enumerate(ids.tolist()):
        (part,) = (p for p in range(len(bucket_of_part)) if bounds[p] <= v < bounds[p + 1])
        members[bucket_of_part[part]].append(position)
    order = [position for positions in members for position in positions]
    starts = tuple(sum(len(positions) for positions in members[:b]) for b in range(len(members) + 1))
    return Buckets(order=torch.tensor(order, dtype=torch.int64), starts=starts)


def stitch(counts: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    segments: dict[int, list[int]] = {}
    begin = 0
    for length, place in zip(counts.tolist(), order.tolist(), strict=True):
        segments[place] = list(range(begin, begin + length))
        begin += length
    in_order = [segments[place] for place in range(len(segments))]
    lengths = torch.tensor([len(segment) for segment in in_order], dtype=torch.int64)
    return lengths, torch.tensor([position for segment in in_order for position in segment], dtype=torch.int64)


def build_csc(dst: Tensor, num_dst: int) -> tuple[Tensor, Tensor]:
    order = sorted(range(len(dst)), key=dst.tolist().__getitem__)  # sorted() is stable
    indptr = [sum(1 for v in dst.tolist() if v < d) for d in range(num_dst + 1)]
    return torch.tensor(indptr, dtype=torch.int64), torch.tensor(order, dtype=torch.int64)


def never_falls(indptr: Tensor, values: Tensor) -> bool:
    lists = [values[begin:end].tolist() for begin, end in pairwise(indptr.tolist())]
    return all(one <= other for entries in lists for one, other in pairwise(entries))


def distinct_pairs(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> Tensor:
    first: dict[tuple[int, int], int] = {}
    for position, (s, d) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
        first.setdefault((d, s), position)
    return torch.tensor([first[pair] for pair in sorted(first)], dtype=torch.int64)


class KeyIndex:
    def __init__(self, keys: Tensor) -> None:
        self._rows: dict[tuple[int, ...], int] = {}
        self.repeated = None
        for row, key in enumerate(map(tuple, keys.tolist())):
            if key in self._rows:
                self.repeated = row
                break
            self._rows[key] = row

    def find(self, queries: Tensor) -> Tensor:
        return torch.tensor([self._rows.get(tuple(query), -1) for query in queries.tolist()], dtype=torch.int64)


def pad_texts(offsets: Tensor, data: Tensor, width: int) -> Tensor:
    texts = [data[begin:end].tolist()[:width] for begin, end in pairwise(offsets.tolist())]
    return torch.tensor([text + [0] * (width - len(text)) for text in texts], dtype=torch.uint8).view(len(texts), width)


def dense_rows(indptr: list[int], indices: list[int], values: list[float], width: int) -> list[list[float]]:
    """Rows of numbers from lists of those that are not zero; one value may stand for all."""
    rows = []
    for begin, end in pairwise(indptr):
        row = [type(values[0])(0)] * width
        for at in range(begin, end):
            row[indices[at]] = values[at % len(values)]
        rows.append(row)
    return rows


def find_ranges(ids: Tensor, bounds: Sequence[int]) -> list[int]:
    ranges = list(pairwise(bounds))
    return [next(k for k, (low, high) in enumerate(ranges) if low <= v < high) for v in ids.tolist()]


def number(keys: Sequence[int], cursors: Sequence[int]) -> tuple[list[int], list[int]]:
    """The numbers, and the cursors afterwards."""
    after, numbers = list(cursors), []
    for key in keys:
        numbers.append(after[key])
        after[key] += 1
    return numbers, after
