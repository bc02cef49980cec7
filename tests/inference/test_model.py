"""Sums over the in-edges of a batch's nodes."""

import pytest
import torch

from halohop.inference import Neighbours


@pytest.mark.parametrize("weights", [None, (11,), (11, 2)])
def test_sums_of_rows_are_those_of_rows_for_each_edge(weights: tuple[int, ...] | None) -> None:
    generator = torch.Generator().manual_seed(0)
    counts = torch.tensor([3, 0, 7, 1])
    src, x = torch.randint(5, (11,), generator=generator), torch.randn(5, 2, 3, generator=generator)
    piece = Neighbours(relation=("a", "to", "a"), x=x, src=src, counts=counts, degree=counts)
    factor = None if weights is None else torch.rand(weights, generator=generator)
    messages = x[src] if factor is None else x[src] * factor.reshape(*weights, *[1] * (3 - len(weights)))  # type: ignore[misc, arg-type]
    torch.testing.assert_close(piece.sum_of(x, factor), piece.reduce(messages))
    expected = piece.reduce(x[src].flatten(1)) / torch.tensor([3, 1, 7, 1])[:, None]
    torch.testing.assert_close(piece.share_of_mean(x.flatten(1)), expected)
