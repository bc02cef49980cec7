"""Which rows a cache holds: the hottest, within its bytes, those for the table of places included."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.cluster.device.hottest import hottest
from halohop.ops.cached_rows import HotPlaces


def taken(found, widths, counts, divided):
    """What the rows and the tables of places weigh."""
    return sum(
        len(rows) * widths[name] + (HotPlaces.num_bytes(counts[name]) if divided or len(rows) < counts[name] else 0)
        for name, rows in found.items()
    )


@given(
    st.dictionaries(st.sampled_from("abc"), st.tuples(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 20)), min_size=1),
    st.integers(0, 2000),
    st.booleans(),
)
def test_rows_and_tables_fit_and_are_the_hottest(types, num_bytes, divided):
    widths = {name: width for name, (_, width) in types.items()}
    hotness = {name: torch.tensor(reads, dtype=torch.float32) for name, (reads, _) in types.items()}
    counts = {name: len(reads) for name, reads in hotness.items()}
    found = hottest(hotness.__getitem__, widths, num_bytes, divided=divided)
    assert taken(found, widths, counts, divided) <= num_bytes
    for name, rows in found.items():
        assert rows.tolist() == sorted(set(rows.tolist()))
        others = hotness[name][[row for row in range(counts[name]) if row not in set(rows.tolist())]]
        assert not len(others) or hotness[name][rows].min() >= others.max()


@pytest.mark.parametrize(("num_bytes", "count"), [(0, 0), (40, 0), (47, 0), (48, 1), (79, 4), (80, 10), (500, 10)])
def test_a_part_of_the_rows_needs_room_for_their_places(num_bytes, count):
    """All 10 rows of 8 bytes take 80; a part needs 40 bytes more."""
    found = hottest(lambda _: torch.arange(10.0), {"node": 8}, num_bytes)
    assert len(found.get("node", ())) == count


def test_what_a_small_type_does_not_need_is_the_others():
    hotness = {"few": torch.ones(2), "many": torch.ones(100)}
    found = hottest(hotness.__getitem__, {"few": 4, "many": 4}, 8 + 400 + 40)
    assert {name: len(rows) for name, rows in found.items()} == {"few": 2, "many": 100}
