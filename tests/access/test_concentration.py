import pytest
import torch

from halohop.access.concentration import bin_names, concentration, degree_bins, left_over


def test_an_even_load_is_a_straight_line_and_no_load_is_none() -> None:
    assert concentration(torch.full((10,), 3), [0.0, 0.5, 1.0]) == [0.0, 0.5, 1.0]
    assert concentration(torch.zeros(4), [0.5, 1.0]) == [0.0, 0.0]
    assert concentration(torch.empty(0), [0.5, 1.0]) == [0.0, 0.0]


def test_the_hottest_rows_are_copied_first() -> None:
    hot = torch.rand(50)
    falling = hot.sort(descending=True).values.double()
    assert left_over(hot, [0, 7, 50, 99]) == pytest.approx([float(falling[n:].sum()) for n in (0, 7, 50, 50)])
    assert left_over(torch.empty(0), [0, 3]) == [0.0, 0.0]


def test_every_node_is_in_the_bin_of_its_degree() -> None:
    degrees = torch.cat([torch.arange(70), torch.tensor([2**33])])
    bins = degree_bins(degrees)
    assert sum(bins) == len(degrees)
    assert bins[:8] == [1, 1, 2, 4, 8, 16, 32, 6]
    assert bin_names(len(bins))[-1] == f"{2**33}-{2**34 - 1}"
    assert bins[-1] == 1
    assert degree_bins(torch.empty(0, dtype=torch.int64)) == []
