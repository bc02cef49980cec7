"""Tables that were trained, saved and read into other partitions go on with the same bits."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from halohop.errors import ClusterError, InputError, SchemaError, WriteError
from halohop.partitioning.book import Book
from halohop.store.part import NodePart, Part
from halohop.tables.messages import (
    DropTableRequest,
    FilledRequest,
    ListTablesRequest,
    LoadTablesRequest,
    ReadRowsRequest,
    SavedTable,
    SaveTablesRequest,
    TableQuery,
)
from halohop.tables.owner import Owner
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.spec import Beginning, TableSpec
from tests.support.tables import Client, Ranks, ask, make, share

pytestmark = pytest.mark.timeout(60)

NODES, WIDTH = 300, 2
RULES = {
    "adam": RuleSpec(kind="adam", eps=1e-8),
    "adam by rows": RuleSpec(kind="adam", eps=1e-8, bias="row"),
    "adagrad": RuleSpec(kind="adagrad", lr_decay=0.01, initial=0.1),
    "rowwise_adagrad": RuleSpec(kind="rowwise_adagrad"),
    "sgd": RuleSpec(kind="sgd"),
}
STEP = "step-20-00c0ffee"


def spec_of(name: str = "x", **others: object) -> TableSpec:
    begin = Beginning(kind="normal", high=0.1, seed=3)
    return replace(TableSpec(name=name, key="node", num_rows=NODES, shape=(WIDTH,), dtype="float32", begin=begin), **others)


class Division:
    """The nodes in some partitions, each of which has an owner."""

    def __init__(self, num_parts: int, specs: Sequence[TableSpec], folder: Path | None = None) -> None:
        rng = np.random.default_rng(num_parts)
        owner = rng.integers(0, num_parts, NODES)
        raw = [np.flatnonzero(owner == part) for part in range(num_parts)]
        bounds = tuple(np.cumsum([0, *map(len, raw)]).tolist())
        self.book = Book(nodes={"node": bounds}, edges={})
        parts = [
            Part(nodes={"node": NodePart(num_nodes=len(ids), raw_id=torch.from_numpy(ids), columns={})}, edges={}) for ids in raw
        ]
        self.owners = [Owner(self.book, {number: part}, folder=folder, anywhere=True) for number, part in enumerate(parts)]
        self._gid_of = torch.empty(NODES, dtype=torch.int64)
        self._gid_of[torch.from_numpy(np.concatenate(raw))] = torch.arange(NODES)
        for one in self.owners:
            for spec in specs:
                make(one, spec)

    def begin(self, rules: dict[str, RuleSpec]) -> None:
        self._ranks, self._index = Ranks(self.owners, 1, rules=rules, group="o"), 0

    def steps(self, numbers: range, names: Sequence[str]) -> None:
        """Steps whose gradients depend on their numbers alone."""
        for number in numbers:
            rng = np.random.default_rng(number)
            drawn = {name: (rng.integers(0, NODES // 2, 40), rng.standard_normal((40, WIDTH))) for name in names}
            for part, one in enumerate(self.owners):
                shares = []
                for name, (ids, grads) in drawn.items():
                    gid = self._gid_of[torch.from_numpy(ids)]
                    here = (gid >= self.book.bounds("node")[part]) & (gid < self.book.bounds("node")[part + 1])
                    shares.append(share(gid[here].tolist(), torch.from_numpy(grads)[here], name=name, lr=0.05))
                ask(one, self._ranks.step(0, self._index, *shares))
            self._index += 1

    def rows(self, name: str = "x", state: str = "") -> Tensor:
        found = []
        for part, one in enumerate(self.owners):
            low, high = self.book.bounds("node")[part : part + 2]
            found.append(
                ask(one, ReadRowsRequest(queries=(TableQuery(name=name, gid=torch.arange(low, high), state=state),))).rows[0]
            )
        return torch.cat(found)[self._gid_of]

    def save(self, folder: Path, names: Sequence[str]) -> tuple[SavedTable, ...]:
        request = SaveTablesRequest(folder=str(folder / STEP), names=tuple(names))
        return tuple(table for one in self.owners for table in ask(one, request).tables)

    def load(self, folder: Path, saved: tuple[SavedTable, ...], token: str = "token") -> list[dict[str, int]]:
        request = LoadTablesRequest(token=token, folder=str(folder / STEP), tables=saved, only_check=False)
        return [ask(one, request).rows for one in self.owners]

    def close(self) -> None:
        for one in self.owners:
            one.close()


@pytest.fixture
def divided():
    made: list[Division] = []

    def divide(num_parts: int, specs: Sequence[TableSpec] = (spec_of(),), **options: object) -> Division:
        made.append(Division(num_parts, specs, **options))
        return made[-1]

    yield divide
    for division in made:
        division.close()


def test_the_next_steps_are_the_same_in_any_partitions(divided, tmp_path: Path) -> None:
    rules = {**RULES, "zeros": RULES["adam"]}
    specs = [spec_of(name) for name in RULES] + [spec_of("zeros", begin=Beginning())]
    straight = divided(2, specs)
    straight.begin(rules)
    straight.steps(range(20), list(rules))
    saved = straight.save(tmp_path, list(rules))
    assert {table.steps for table in saved} == {20}
    assert all(table.num_rows < NODES for table in saved), "rows that nobody touched are not written"
    straight.steps(range(20, 40), list(rules))
    for count in (1, 3, 4):
        other = divided(count, specs)
        found = other.load(tmp_path, saved)
        for name in rules:
            assert sum(rows[name] for rows in found) == sum(table.num_rows for table in saved if table.spec.name == name)
        other.begin(rules)
        other.steps(range(20, 40), list(rules))
        for name in rules:
            assert other.rows(name).equal(straight.rows(name)), name
        assert other.rows("adam", "square").equal(straight.rows("adam", "square"))


def test_an_owner_on_disk_and_one_that_had_trained_since_go_back_alike(divided, tmp_path: Path) -> None:
    rules = {"x": RULES["adam"]}
    straight = divided(2)
    straight.begin(rules)
    straight.steps(range(10), ["x"])
    saved = straight.save(tmp_path, ["x"])
    straight.steps(range(10, 20), ["x"])
    then = straight.rows()
    straight.load(tmp_path, saved)  # within one session
    straight.steps(range(10, 20), ["x"])
    assert straight.rows().equal(then)
    disk = divided(3, [spec_of(storage="disk")], folder=tmp_path / "tables")
    disk.load(tmp_path, saved)
    disk.begin(rules)
    disk.steps(range(10, 20), ["x"])
    assert disk.rows().equal(then)


def test_the_state_that_was_loaded_is_that_of_its_rule(divided, tmp_path: Path) -> None:
    straight = divided(1)
    straight.begin({"x": RULES["adam"]})
    straight.steps(range(3), ["x"])
    saved = straight.save(tmp_path, ["x"])
    other = divided(1)
    other.load(tmp_path, saved)
    with pytest.raises(InputError, match=r"table 'x' is trained by .*kind='adam'.*, not by .*kind='adagrad'"):
        other.begin({"x": RULES["adagrad"]})
    other.begin({"x": RULES["adam"]})
    assert ask(other.owners[0], ListTablesRequest()).tables[0].steps == 3


def test_a_table_whose_rows_a_client_makes_is_loaded_without_it_and_not_saved_half(divided, tmp_path: Path) -> None:
    given = spec_of(begin=Beginning(kind="given", name="f"))
    first, second = divided(1, [given]), divided(1, [given])
    with pytest.raises(ClusterError, match="a client is making the rows of table 'x'; save it after that"):
        first.save(tmp_path / "early", ["x"])
    Client().put(first.owners[0], "write", share(range(NODES), torch.arange(NODES * WIDTH).view(NODES, WIDTH)))
    ask(first.owners[0], FilledRequest(name="x", parts=(0,), sender="client"))
    saved = first.save(tmp_path, ["x"])
    assert saved[0].num_rows == NODES
    second.load(tmp_path, saved)
    assert second.rows().equal(first.rows())


def test_a_table_whose_change_failed_half_way_is_not_saved_and_is_whole_again_when_it_was_loaded(divided, tmp_path: Path) -> None:
    one = divided(1)
    one.begin({"x": RULES["adam"]})
    one.steps(range(3), ["x"])
    saved, before = one.save(tmp_path, ["x"]), one.rows()
    table = one.owners[0].catalog.get("x")
    with pytest.raises(IndexError), table.lock, table.changing():
        table.pieces[0].arrays.rows.zero_()[NODES]
    with pytest.raises(ClusterError, match="table 'x' cannot be used: a change of it failed half-way"):
        one.save(tmp_path / "later", ["x"])
    one.load(tmp_path, saved)
    assert one.rows().equal(before)


def test_a_state_that_the_disk_has_no_room_for_leaves_a_table_without_it(divided, tmp_path: Path, no_more_than) -> None:
    """Of several partitions, of which one has got its state, none has it in a checkpoint; another optimiser may come."""
    one = divided(1, [spec_of(storage="disk")], folder=tmp_path / "tables")
    with (
        no_more_than(1000),
        pytest.raises(WriteError, match=r"table 'x', state 'sum' of 300 rows, takes .* below .*; make room there"),
    ):
        one.begin({"x": RULES["rowwise_adagrad"]})
    one.begin({"x": RULES["sgd"]})
    table = one.owners[0].catalog.get("x")
    table.pieces[0].arrays.add_state("sum", (), torch.float32, 0.0)
    one.steps(range(3), ["x"])
    saved = one.save(tmp_path, ["x"])
    assert sorted(saved[0].files) == ["id", "rows"]
    other = divided(2)
    other.load(tmp_path, saved)
    assert other.rows().equal(one.rows())


def test_a_table_that_was_dropped_is_not_saved(divided, tmp_path: Path) -> None:
    one = divided(1)
    ask(one.owners[0], DropTableRequest(name="x"))
    with pytest.raises(SchemaError, match="no table 'x' is here"):
        one.save(tmp_path, ["x"])
