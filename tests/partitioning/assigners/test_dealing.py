"""Random and ranges: even by type and split, whatever is dealt at a time."""

from itertools import product

import pytest
import torch

from halohop.errors import InputError
from halohop.partitioning.assigners import dealing
from halohop.partitioning.assigners.assign import assign
from tests.support.assigning import mixed


@pytest.mark.parametrize(("piece", "num_parts"), list(product([1, 70, 10**6], [2, 3, 1000])))
def test_random_is_even_in_every_type_and_split(monkeypatch: pytest.MonkeyPatch, piece: int, num_parts: int) -> None:
    monkeypatch.setattr(dealing, "_PIECE", piece)
    tables = mixed()
    found = assign(tables, num_parts, "random").part
    train = tables.nodes["paper"].columns["train_mask"]
    for part in (*found.values(), found["paper"][train], found["paper"][~train], torch.cat(list(found.values()))):
        counts = part.bincount(minlength=num_parts)
        assert counts.max() - counts.min() <= 1
    assert piece == 1 or not torch.equal(found["paper"], assign(tables, num_parts, "random", seed=1).part["paper"])


@pytest.mark.parametrize("num_parts", [1, 2, 7, 1000])
def test_ranges_are_runs_of_rows(num_parts: int) -> None:
    found = assign(mixed(), num_parts, "range").part
    for part in found.values():
        counts = part.bincount(minlength=num_parts)
        assert (part.diff() >= 0).all()
        assert counts.max() - counts.min() <= 1


def test_nodes_without_a_graph_are_dealt_alike_everywhere() -> None:
    part = dealing.place_at_random(1000, 3, seed=5)
    assert part.dtype == torch.int32
    assert sorted(part.bincount().tolist()) == [333, 333, 334]
    assert torch.equal(part, dealing.place_at_random(1000, 3, seed=5))
    assert not torch.equal(part, dealing.place_at_random(1000, 3, seed=6))
    assert not torch.equal(part[:300].sort().values, part[:300])
    assert dealing.place_at_random(0, 3).tolist() == []
    for count, parts, message in ((5, 0, "num_parts=0"), (-1, 2, "num_nodes=-1 is negative")):
        with pytest.raises(InputError, match=message):
            dealing.place_at_random(count, parts)
