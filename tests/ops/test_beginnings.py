"""Random numbers that rows begin with: the bits of the reference, and the distribution that they are said to have."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from halohop import ops
from halohop.errors import InputError
from halohop.ops import reference_beginnings

KINDS = ("uniform", "normal")
IDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8)


def filled(kind: str, raw: Tensor, shape: tuple[int, ...], *, key: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    """Uniform from -3 to 3, or normal of deviation 3 around 0."""
    out = torch.empty(len(raw), *shape, dtype=dtype)
    if kind == "uniform":
        ops.fill_uniform(out, key, raw, -3.0, 3.0)
    else:
        ops.fill_normal(out, key, raw, 0.0, 3.0)
    return out


@given(
    st.sampled_from(KINDS),
    IDS,
    st.integers(0, 2**64 - 1),
    st.sampled_from([(), (0,), (1,), (3,), (2, 4), (17,)]),
    st.sampled_from(ops.FLOATS),
)
def test_numbers_have_the_bits_of_the_reference(
    kind: str, ids: list[int], key: int, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    bounds = (-3.0, 3.0) if kind == "uniform" else (0.0, 3.0)
    rows = [getattr(reference_beginnings, kind)(key, raw, math.prod(shape), *bounds) for raw in ids]
    expected = torch.from_numpy(np.array(rows).reshape(len(ids), *shape))
    rounded = expected.to(dtype) if dtype.itemsize > 2 else expected.float().to(dtype)
    assert torch.equal(filled(kind, torch.tensor(ids, dtype=torch.int64), shape, key=key, dtype=dtype), rounded)


@pytest.mark.parametrize("dtype", ops.FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_the_same_among_any_others(kind: str, dtype: torch.dtype) -> None:
    raw = torch.randperm(3000) - 1000
    together = filled(kind, raw, (33,), dtype=dtype)
    for some in (slice(0, 1), slice(700, 2999), slice(None, None, 7)):
        assert torch.equal(filled(kind, raw[some], (33,), dtype=dtype), together[some])


def test_logarithms_cosines_and_sines_are_right() -> None:
    x = np.concatenate([2.0 ** -np.arange(1.0, 54), np.linspace(1e-6, 1 - 2**-53, 10_001)])
    np.testing.assert_allclose(reference_beginnings.logarithms(x), np.log(x), rtol=8e-16)
    t = np.linspace(-0.5, 0.5, 10_001)
    for found, expected in zip(reference_beginnings.half_turns(t), (np.cos(np.pi * t), np.sin(np.pi * t)), strict=True):
        np.testing.assert_allclose(found, expected, atol=3e-16)


@pytest.mark.parametrize("kind", KINDS)
def test_moments(kind: str) -> None:
    """Of 800,000 numbers, the first four: each within five standard errors."""
    rows = filled(kind, torch.arange(100_000), (8,)).view(-1) / 3
    wanted = [0.0, 1 / 3, 0.0, 1 / 5] if kind == "uniform" else [0.0, 1.0, 0.0, 3.0]
    for power, mean in enumerate(wanted, start=1):
        found = rows**power
        assert abs(found.mean() - mean) < 5 * found.std() / len(rows) ** 0.5, power


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles(kind: str) -> None:
    """By the distance of Kolmogorov and Smirnov, which exceeds 1.95 / sqrt(n) once in a thousand times."""
    rows = filled(kind, torch.arange(50_000), (3,)).view(-1).sort().values / 3
    expected = (rows + 1) / 2 if kind == "uniform" else (1 + torch.erf(rows / 2**0.5)) / 2
    places = torch.arange(len(rows), dtype=torch.float64) / len(rows)
    assert (places - expected).abs().max() < 1.95 / len(rows) ** 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_rows_entries_and_keys_are_independent(kind: str) -> None:
    """The correlation of neighbours of any kind, of the numbers and of their squares, is that of independent ones."""
    raw = torch.arange(20_000)
    rows = filled(kind, raw, (6,))
    keys = [ops.name_key(seed=seed, name=name) for seed, name in ((0, "a"), (1, "a"), (0, "b"))]
    by_key = [filled(kind, raw, (6,), key=key) for key in keys]
    pairs = [(rows[1:], rows[:-1]), (rows[8:], rows[:-8]), *((rows[:, 1 + k :], rows[:, : 5 - k]) for k in range(5))]
    for one, other in [*pairs, (by_key[0], by_key[1]), (by_key[0], by_key[2]), (by_key[1], by_key[2])]:
        for power in (1, 2):
            both = torch.stack([one.reshape(-1) ** power, other.reshape(-1) ** power])
            assert abs(torch.corrcoef(both)[0, 1]) < 5 / both.shape[1] ** 0.5


def test_no_bounds_or_deviation_give_one_number() -> None:
    rows = torch.empty(4, 3)
    ops.fill_uniform(rows, 1, torch.arange(4), 0.25, 0.25)
    assert (rows == 0.25).all()
    ops.fill_normal(rows, 1, torch.arange(4), -0.25, 0.0)
    assert (rows == -0.25).all()


@pytest.mark.parametrize("out", [torch.zeros(2, 3, dtype=torch.int64), torch.zeros(3, 2).T, torch.tensor(1.0)])
def test_what_cannot_be_filled_is_refused(out: Tensor) -> None:
    with pytest.raises(InputError, match="out must be rows of floats, contiguous, got"):
        ops.fill_uniform(out, 1, torch.arange(2), 0.0, 1.0)


def test_ids_must_be_as_many_as_rows() -> None:
    with pytest.raises(InputError, match="raw has 3 entries, expected 2"):
        ops.fill_normal(torch.zeros(2, 3), 1, torch.arange(3), 0.0, 1.0)
