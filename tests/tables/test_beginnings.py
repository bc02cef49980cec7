import torch

from halohop.tables.beginnings import beginnings_of
from halohop.tables.spec import Beginning, TableSpec


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
