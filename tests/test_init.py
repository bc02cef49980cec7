"""What rows begin with: as torch's functions of the same names, for a tensor of the whole table's shape."""

import math

import pytest
import torch

from halohop import init
from halohop.errors import InputError
from halohop.tables.spec import Beginning, TableSpec, _digest


def test_each_beginning_is_what_it_says():
    made = {
        init.zeros(): Beginning(kind="constant"),
        init.constant(2): Beginning(kind="constant", low=2.0),
        init.uniform(-1, 2): Beginning(kind="uniform", low=-1.0, high=2.0, seed=7),
        init.normal(1, 2): Beginning(kind="normal", low=1.0, high=2.0, seed=7),
        init.column("x"): Beginning(kind="column", name="x"),
    }
    for one, expected in made.items():
        assert repr(one.beginning(10, (3,), seed=7)) == repr(expected)


@pytest.mark.parametrize("shape", [(10, 4), (7, 3, 5), (1000, 64)])
@pytest.mark.parametrize("gain", [1.0, 2.5])
def test_xavier_is_that_of_torch_for_the_whole_table(shape, gain):
    whole = torch.empty(shape)
    bound = init.xavier_uniform(gain).beginning(shape[0], shape[1:], seed=0)
    torch.nn.init.xavier_uniform_(whole, gain)
    assert bound.low == -bound.high
    assert float(whole.abs().max()) == pytest.approx(bound.high, rel=0.2)
    assert float(whole.abs().max()) <= bound.high * (1 + 1e-6)
    deviation = init.xavier_normal(gain).beginning(shape[0], shape[1:], seed=0).high
    assert bound.high == pytest.approx(math.sqrt(3) * deviation)
    fan_in, fan_out = torch.nn.init._calculate_fan_in_and_fan_out(whole)
    assert deviation == pytest.approx(gain * math.sqrt(2 / (fan_in + fan_out)))


def test_a_callable_has_the_name_by_which_others_know_it():
    def twice(ids: torch.Tensor) -> torch.Tensor:
        return ids * 2

    begin, rows_of = init.beginning_of(twice, 10, (), seed=0)
    assert (begin.kind, rows_of) == ("given", twice)
    assert begin.name.endswith("test_a_callable_has_the_name_by_which_others_know_it.<locals>.twice")


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(InputError, match="init=3 is neither"):
        init.beginning_of(3, 10, (), seed=0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="uniform from 2 to 1"):
        init.uniform(2, 1)
    with pytest.raises(InputError, match="std=-1"):
        init.normal(0, -1)
    with pytest.raises(InputError, match=r"xavier needs rows of at least one dimension, and a table of shape \[10\]"):
        init.xavier_normal().beginning(10, (), seed=0)


def test_numbers_of_another_type_make_no_other_table():
    """Floats that were whole numbers are floats on the other side of a connection."""
    specs = [
        TableSpec(name="x", key=None, num_rows=3, shape=(), dtype="float32", begin=Beginning(kind="constant", low=low))
        for low in (1, 1.0)
    ]
    assert len({_digest.__wrapped__(spec) for spec in specs}) == 1
