"""What rows begin with depends on the table's name, its seed and the row's raw id, and on nothing else."""

from typing import Any

import pytest
import torch

from halohop import ops
from halohop.errors import InputError
from halohop.tables.beginnings import beginnings_of
from halohop.tables.spec import Beginning, TableSpec


def spec(kind: str, *, dtype: str = "float32", shape: tuple[int, ...] = (3,), table: str = "t", **begin: Any) -> TableSpec:
    return TableSpec(name=table, key="node", num_rows=20, shape=shape, dtype=dtype, begin=Beginning(kind=kind, **begin))


def filled(table: TableSpec, lid: torch.Tensor, **where: Any) -> torch.Tensor:
    begins = beginnings_of(table, **{"raw": None, "offset": 0, "column": None} | where)
    assert begins is not None
    out = torch.empty(len(lid), *table.shape, dtype=table.torch_dtype)
    begins.fill(out, lid)
    return out


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_rows_are_the_same_in_any_layout(kind: str) -> None:
    table, raw = spec(kind, low=-2.0, high=5.0), torch.randperm(20) * 2**40 - 7
    whole = filled(table, torch.arange(20), raw=raw)
    assert torch.equal(filled(table, torch.tensor([4, 0, 4]), raw=raw[10:]), whole[[14, 10, 14]])
    assert torch.equal(filled(table, torch.tensor([2, 1]), offset=10), filled(table, torch.tensor([12, 11])))
    assert len(whole.unique()) == whole.numel()
    narrow = torch.randperm(20, dtype=torch.int32)  # as ids of edges lie where they fit
    assert torch.equal(filled(table, torch.arange(20), raw=narrow), filled(table, torch.arange(20), raw=narrow.long()))


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_names_and_seeds_give_other_rows(kind: str) -> None:
    tables = [spec(kind, high=1.0), spec(kind, high=1.0, seed=1), spec(kind, high=1.0, table="u"), spec(kind, high=1.0, seed=-1)]
    rows = torch.stack([filled(table, torch.arange(20)) for table in tables])
    assert len(rows.unique()) == rows.numel()


@pytest.mark.parametrize(
    ("dtype", "value"), [("float16", 0.1), ("int64", -7.0), ("bool", 1.0), ("uint8", 255), ("complex64", 2.5)]
)
def test_a_constant(dtype: str, value: float) -> None:
    table = spec("constant", dtype=dtype, low=value)
    assert torch.equal(filled(table, torch.arange(5)), torch.full((5, 3), value, dtype=table.torch_dtype))


@pytest.mark.parametrize("table", [spec("constant"), spec("constant", dtype="int8", low=-0.0), spec("given", low=7.0)])
def test_zeros_need_no_beginning(table: TableSpec) -> None:
    assert beginnings_of(table, raw=None, offset=0, column=None) is None


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_a_column_in_the_dtype_of_the_table(dtype: str) -> None:
    column, lid = torch.randn(20, 3) * 100, torch.tensor([19, 0, 0])
    table = spec("column", dtype=dtype, name="x")
    assert torch.equal(filled(table, lid, column=column), column[lid].to(table.torch_dtype))


@pytest.mark.parametrize("kind", ["uniform", "normal"])
@pytest.mark.parametrize("shape", [(0,), (), (2, 2)])
def test_rows_of_any_shape(kind: str, shape: tuple[int, ...]) -> None:
    table = spec(kind, shape=shape, dtype="bfloat16", high=1.0)
    assert filled(table, torch.arange(4)).shape == (4, *shape)
    key = ops.name_key(seed=0, name="t")
    out = torch.empty(4, *shape, dtype=torch.bfloat16)
    (ops.fill_uniform if kind == "uniform" else ops.fill_normal)(out, key, torch.arange(4), 0.0, 1.0)
    assert torch.equal(filled(table, torch.arange(4)), out)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (spec("uniform", dtype="int64", high=1.0), "table 't' of int64 cannot begin with uniform numbers"),
        (spec("normal", dtype="complex64", high=1.0), "table 't' of complex64 cannot begin with normal numbers"),
        (spec("uniform", low=2.0, high=1.0), r"numbers from 2.0 to 1.0; swap the two"),
        (spec("normal", high=-1.0), "a standard deviation of -1.0; it must be at least 0"),
        (spec("uniform", high=float("inf")), "uniform numbers of 0.0 and inf: not finite"),
        (spec("constant", dtype="int64", low=0.5), "is to begin with 0.5, which int64 does not have"),
        (spec("constant", dtype="uint8", low=256.0), "is to begin with 256.0, which uint8 does not have"),
        (spec("constant", dtype="bool", low=2.0), "is to begin with 2.0, which bool does not have"),
        (spec("column", name="x"), "begins with column 'x', which is not there"),
    ],
)
def test_what_no_row_can_begin_with_is_refused(table: TableSpec, words: str) -> None:
    with pytest.raises(InputError, match=words):
        beginnings_of(table, raw=None, offset=0, column=None)


def test_a_column_of_other_rows_is_refused() -> None:
    with pytest.raises(InputError, match=r"column 'x', which has rows of shape \(4,\); expected \(3,\)"):
        beginnings_of(spec("column", name="x"), raw=None, offset=0, column=torch.zeros(20, 4))


def test_tables_of_two_names_begin_alike_where_their_random_numbers_have_one_name() -> None:
    def rows(table: str, name: str) -> torch.Tensor:
        begin = Beginning(kind="uniform", low=-1, high=1, seed=3, name=name)
        spec = TableSpec(name=table, key=None, num_rows=5, shape=(4,), dtype="float32", begin=begin)
        begins, out = beginnings_of(spec, raw=None, offset=0, column=None), torch.empty(5, 4)
        assert begins is not None
        begins.fill(out, torch.arange(5))
        return out

    assert torch.equal(rows("a", "users"), rows("b", "users"))
    assert torch.equal(rows("users", ""), rows("b", "users"))
    assert not torch.equal(rows("a", ""), rows("b", ""))
