"""A rule gives its table's optimiser state, and changes rows alike however they are divided among partitions."""

from itertools import pairwise

import pytest
import torch

from halohop import ops
from halohop.errors import InputError
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.rules import Rule, coalesce

SPECS = {
    "sgd": RuleSpec(kind="sgd", maximize=True),
    "adagrad": RuleSpec(kind="adagrad", initial=0.5, lr_decay=0.1),
    "rowwise_adagrad": RuleSpec(kind="rowwise_adagrad", initial=0.25, lr_decay=0.1),
    "adam": RuleSpec(kind="adam", eps=1e-8),
    "adam by row": RuleSpec(kind="adam", eps=1e-8, bias="row"),
}


def made(rule: Rule, num_rows: int) -> dict[str, torch.Tensor]:
    return {
        name: torch.full((num_rows, *state.row_shape), state.fill, dtype=state.dtype) for name, state in rule.states().items()
    }


@pytest.mark.parametrize("duplicates", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ops.FLOATS)
@pytest.mark.parametrize("name", SPECS)
def test_partitions_give_the_same_bits(name: str, dtype: torch.dtype, duplicates: str) -> None:
    """Two ranks, five steps, ids that repeat, a rank without any; rows of 4 partitions, of which one is empty, and of one."""
    torch.manual_seed(0)
    rule, begun = Rule(SPECS[name], shape=(3, 2), dtype=dtype), torch.randn(50, 3, 2, dtype=torch.float64).to(dtype)
    finals = []
    shares = [
        [(torch.randint(50, (n,)), torch.randn(n, 3, 2, dtype=ops.gradient_dtype(dtype))) for n in (40 if step != 2 else 0, 25)]
        for step in range(5)
    ]
    for bounds in ((0, 50), (0, 10, 10, 33, 50)):
        rows, states = begun.clone(), made(rule, 50)
        for step, ranks in enumerate(shares, start=1):
            for begin, end in pairwise(bounds):
                here = [(gid >= begin) & (gid < end) for gid, _ in ranks]
                gids = [gid[mask] for (gid, _), mask in zip(ranks, here, strict=True)]
                grads = [grad[mask] for (_, grad), mask in zip(ranks, here, strict=True)]
                gid, sums = coalesce(gids, grads, duplicates)
                own = {key: state[begin:end] for key, state in states.items()}
                rule.apply(rows[begin:end], own, gid - begin, sums, lr=0.1, step=step, scale=0.5)
        finals.append([rows, *states.values()])
    for one, other in zip(*finals, strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(finals[0][0], begun)


def test_gradients_of_ranks_are_put_together_in_their_order() -> None:
    """1 is lost beside 2**24, twice; in another order one or both would stay."""
    ids = [torch.tensor([8, 8, 3]), torch.tensor([8, 8])]
    grads = [torch.tensor([2.0**24, 1.0, 5.0]), torch.tensor([1.0, -(2.0**24)])]
    gid, sums = coalesce(ids, grads, "sum")
    assert (gid.tolist(), sums.tensor().tolist()) == ([3, 8], [5.0, 0.0])
    gid, means = coalesce([torch.tensor([8, 3]), torch.tensor([8])], [torch.tensor([3.0, 5.0]), torch.tensor([6.0])], "mean")
    assert (gid.tolist(), means.tensor().tolist()) == ([3, 8], [5.0, 4.5])


def test_learning_rate_of_adagrad_decays_with_the_steps() -> None:
    rule = Rule(SPECS["adagrad"], shape=(1,), dtype=torch.float64)
    weight = torch.nn.Parameter(torch.zeros(1, 1, dtype=torch.float64))
    optimizer = torch.optim.Adagrad([weight], lr=0.3, lr_decay=0.1, initial_accumulator_value=0.5)
    rows, states, grads = torch.zeros(1, 1, dtype=torch.float64), made(rule, 1), torch.tensor([[2.0]], dtype=torch.float64)
    for step in range(1, 6):
        weight.grad = grads.clone()
        optimizer.step()
        rule.apply(rows, states, torch.tensor([0]), grads, lr=0.3, step=step)
    torch.testing.assert_close(rows, weight.detach())


def test_bias_is_corrected_by_the_steps_of_each_row() -> None:
    """A row's first step is that of a table's first step, however late it comes."""
    late, first = (Rule(SPECS[name], shape=(2,), dtype=torch.float32) for name in ("adam by row", "adam"))
    lid, grads = torch.tensor([1]), torch.tensor([[3.0, -1.0]])
    rows, others = torch.zeros(2, 2), torch.zeros(2, 2)
    states = made(late, 2)
    late.apply(rows, states, lid, grads, lr=0.1, step=1000)
    first.apply(others, made(first, 2), lid, grads, lr=0.1, step=1)
    assert torch.equal(rows, others)
    assert states["steps"].tolist() == [0, 1]


def test_maximizing_goes_along_the_gradient() -> None:
    rows = torch.zeros(1, 1)
    Rule(SPECS["sgd"], shape=(1,), dtype=torch.float32).apply(rows, {}, torch.tensor([0]), torch.tensor([[2.0]]), lr=0.5, step=1)
    assert rows.item() == 1.0


def test_state_of_tables_of_two_bytes_is_of_four() -> None:
    half = {name: state.dtype for name, state in Rule(SPECS["adam by row"], shape=(4,), dtype=torch.float16).states().items()}
    assert half == {"mean": torch.float32, "square": torch.float32, "steps": torch.int32}
    assert Rule(SPECS["rowwise_adagrad"], shape=(4,), dtype=torch.bfloat16).states()["sum"].row_shape == ()


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_a_table_of_other_numbers_is_refused(dtype: torch.dtype) -> None:
    words = (
        f"a table of {str(dtype).removeprefix('torch.')} cannot be trained; make it of one of float32, float64, float16, bfloat16"
    )
    with pytest.raises(InputError, match=words):
        Rule(SPECS["sgd"], shape=(1,), dtype=dtype)


def test_squares_are_those_of_all_entries() -> None:
    sums = coalesce([torch.tensor([8, 3])], [torch.tensor([[1.0, 2.0], [3.0, 4.0]])], "sum")[1]
    assert sums.sum_of_squares() == 30.0
