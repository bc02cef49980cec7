"""The logarithm that LABOR by weight and the beginnings of tables take: close to the library's, and the same on CPU and GPU."""

import numpy as np
import pytest
import torch
import triton.language as tl

from halohop.ops import cpu_numbers, reference_beginnings
from halohop.ops.gpu_launch import kernel, launch
from halohop.ops.gpu_numbers import logarithm
from tests.support.pretend_gpu import any_pool, home


def fractions() -> np.ndarray:
    """Numbers as draws have them, all over, close to 0 and to 1, and around powers of two and 3/4 of them."""
    random = np.random.default_rng(0)
    words = [random.integers(0, 2**53, 200_000), 2**53 - 1 - np.arange(1000), np.arange(1000)]
    words += [np.int64(2) ** np.arange(53) * part // 4 + shift for part in (3, 4) for shift in (-1, 0, 1)]
    words += [(2.0 ** random.uniform(0, 53, 50_000)).astype(np.int64)]
    return np.unique((np.concatenate(words) & 2**53 - 1) | 1) * 2.0**-53


def here(values: np.ndarray) -> np.ndarray:
    return np.array([cpu_numbers.logarithm(value) for value in values])


def test_it_is_the_librarys_up_to_three_of_the_last_digit_and_never_falls() -> None:
    values = fractions()
    found, expected = here(values), np.log(values)
    assert (np.abs(found - expected) <= 3 * np.spacing(np.abs(expected))).all()
    assert (np.diff(found) >= 0).all()
    assert (found < 0).all()


@kernel
def take_logarithms(values: tl.tensor, out: tl.tensor, count: tl.tensor, block: tl.constexpr) -> None:
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    tl.store(out + at, logarithm(tl.load(values + at, mask=at < count, other=1.0)), mask=at < count)


def test_it_is_the_same_in_plain_python_and_on_a_gpu() -> None:
    values, pool = fractions(), any_pool()
    found = here(values)
    assert np.array_equal(found, reference_beginnings.logarithms(values))
    out = pool.empty((len(values),), torch.float64)
    launch(take_logarithms, len(values), pool.put(torch.from_numpy(values)), out, len(values), block=16384)
    assert np.array_equal(found, home(out).numpy())


@pytest.mark.parametrize(("one", "expected"), [(1.0, 0.0), (0.5, -0.6931471805599453), (4.0, 1.3862943611198906)])
def test_of_powers_of_two_it_is_exact(one: float, expected: float) -> None:
    assert cpu_numbers.logarithm(one) == expected
