"""A cache's index: as the reference does it, step by step, and what it keeps of what is needed often."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference_cache

STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(0, 60), max_size=12), st.sampled_from([0b01, 0b10, 0b11, 1 << 63])), max_size=12
)


@given(num_places=st.integers(1, 40), steps=STEPS, dtype=st.sampled_from([torch.int64, torch.int32]))
def test_equals_the_reference(num_places, steps, dtype):
    index, expected = ops.CacheIndex(num_places), reference_cache.CacheIndex(num_places)
    assert index.num_places == expected.num_places
    for adds, keys, columns in steps:
        ids = torch.tensor(keys, dtype=dtype)
        step = "take_places" if adds else "find"
        assert torch.equal(getattr(index, step)(ids, columns), getattr(expected, step)(ids, columns))
        assert index.num_kept == expected.num_kept


def test_a_key_lies_where_it_was_put_until_another_takes_its_place():
    index, rng, truth = ops.CacheIndex(64), np.random.default_rng(0), {}
    for _ in range(50):
        keys = torch.from_numpy(rng.integers(0, 300, 40)).unique()
        found = index.find(keys, 1)
        for key, place in zip(keys.tolist(), found.tolist(), strict=True):
            assert place < 0 or truth[place] == key
        new = keys[found < 0]
        truth |= dict(zip(index.take_places(new, 1).tolist(), new.tolist(), strict=True))
    assert index.num_kept == len(truth) <= 64


def test_what_is_needed_often_stays():
    """A quarter of the room is for keys of every round; a stream of keys that come once does not push them out."""
    index, often, hits = ops.CacheIndex(1024), torch.arange(256), 0
    for round_ in range(50):
        once = 1000 + torch.arange(500) + 500 * round_
        keys = torch.cat([often, once])
        found = index.find(keys, 1)
        hits += int((found[:256] >= 0).sum()) * (round_ >= 10)
        index.take_places(keys[found < 0], 1)
    assert hits > 0.95 * 40 * 256


def test_what_cannot_be_a_key_is_refused():
    with pytest.raises(InputError, match="keys hold -1"):
        ops.CacheIndex(8).take_places(torch.tensor([-1]), 1)
    with pytest.raises(InputError, match="more than 64 bits"):
        ops.CacheIndex(8).find(torch.tensor([1]), 1 << 64)
