"""Calls that need every kernel of dividing a graph, as `variants` has them of batches; loaders do not import these."""

from collections.abc import Iterator
from functools import partial

import torch

from halohop.ops.access import add_absence, draw_shares
from halohop.ops.adjacency import count_ends, induced, merge_lists, place_ends
from halohop.ops.dealing import Lists, Parts
from halohop.ops.keys import KeyIndex, pad_texts
from halohop.ops.ranges import Ranges, meet, number
from halohop.ops.variants import Call

_IDS = torch.tensor([0, 1, 1])
_ID_DTYPES = (torch.int64, torch.int32)


def of_building() -> Iterator[Call]:
    """What dividing a graph needs, and choosing the nodes whose rows are copied."""
    yield from (partial(Ranges([0, 2]).find, _IDS.to(ids)) for ids in _ID_DTYPES)
    yield from (partial(number, _IDS.to(ids), torch.tensor([0, 0]), dtype) for ids in _ID_DTYPES for dtype in _ID_DTYPES)
    yield from (partial(meet, _IDS.to(ids), 0, 1, torch.zeros(1, dtype=torch.uint8)) for ids in _ID_DTYPES)
    yield from (partial(_adjacency, ids) for ids in _ID_DTYPES)
    yield from (partial(_deal, ids) for ids in _ID_DTYPES)
    yield _find_keys
    yield from (partial(_shares, ids) for ids in _ID_DTYPES)


def _adjacency(ids: torch.dtype) -> None:
    src, dst, low = _IDS[:2].to(ids), _IDS[1:].to(ids), (0, 0)
    neighbors, loads = torch.tensor([1, 0], dtype=ids), torch.tensor([0, 1, 2])
    count_ends(src, dst, low, torch.zeros(2, dtype=torch.int64))
    for placed in (torch.int32, torch.int64):
        place_ends(src, dst, low, 0, torch.tensor([0, 1]), torch.zeros(2, dtype=placed))
    merged, weights = merge_lists(loads, neighbors)
    induced(loads, merged, weights, _IDS[:2])


def _deal(ids: torch.dtype) -> None:
    for weights in (None, torch.ones(2, dtype=torch.int64)):
        lists = Lists(
            first=0,
            indptr=torch.tensor([0, 1, 2]),
            neighbors=torch.tensor([1, 0], dtype=ids),
            weights=weights,
            loads=torch.ones(2, 1, dtype=torch.int32),
        )
        parts = Parts(torch.zeros(2, dtype=torch.int32), torch.zeros(2, 1, dtype=torch.int64), torch.ones(1))
        parts.deal(lists, rule="ldg")
        parts.relieve(lists, dearest=1.0)


def _find_keys() -> None:
    keys = pad_texts(torch.tensor([0, 1]), torch.zeros(1, dtype=torch.uint8), 1)
    KeyIndex(keys).find(keys)


def _shares(ids: torch.dtype) -> None:
    shares, neighbors = draw_shares(_IDS[:1] + 1, 1), torch.zeros(1, dtype=ids)
    add_absence(_IDS[:1] + 1, neighbors, shares, shares, torch.zeros_like(shares))
    draw_shares(_IDS[:1] + 1, 1, weights=shares)
