"""Checkpoints of tables at their owners: each takes its rows by raw id; what was damaged is refused before anything changes."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from halohop.errors import CorruptDatasetError, IncompleteDatasetError, InputError, WriteError
from halohop.tables import kept
from halohop.tables.arrays import make_arrays
from halohop.tables.checkpoints import Checkpoints
from halohop.tables.kept import KeptPart, KeptTable
from halohop.tables.messages import ClearCheckpointsRequest, LoadTablesRequest, SavedTable, SaveTablesRequest
from halohop.tables.rule_spec import RuleSpec
from halohop.tables.rules import Rule
from halohop.tables.spec import Beginning, TableSpec

pytestmark = pytest.mark.timeout(30)

ROWS = 400
ADAM = RuleSpec(kind="adam", bias="row")
ADAGRAD = RuleSpec(kind="adagrad", initial=0.1)
NORMAL = Beginning(kind="normal", high=1.0)
STEP = "step-7-00c0ffee"

Ids = Sequence[Tensor | range]
"""Of each partition, the raw ids of its rows; a range where they are the gids."""


def spec_of(name: str = "e", begin: Beginning = NORMAL, **others: Any) -> TableSpec:
    given = {"key": "paper", "num_rows": ROWS, "shape": (3,), "dtype": "float32", **others}
    return TableSpec(name=name, begin=begin, **given)


def layout(num_parts: int, *, seed: int = 0, ascending: bool = True) -> list[Tensor]:
    """Every row in a random partition; some may be empty."""
    generator = np.random.default_rng(seed)
    owner, order = generator.integers(0, num_parts, ROWS), generator.permutation(ROWS)
    ids = [order[owner[order] == part] for part in range(num_parts)]
    return [torch.from_numpy(np.sort(part) if ascending else part.copy()) for part in ids]


class Owner:
    """Tables of some partitions, as far as checkpoints see them."""

    def __init__(
        self, ids: Ids, specs: Sequence[TableSpec], folder: Path | None, *, rule: RuleSpec | None = None, anywhere: bool = True
    ) -> None:
        self.rules: dict[str, RuleSpec | None] = {spec.name: rule for spec in specs}
        self.kept: dict[str, dict[int, KeptPart]] = {}
        self.specs = {spec.name: spec for spec in specs}
        for spec in specs:
            self.kept[spec.name], first = {}, 0
            for part, raw in enumerate(ids):
                arrays = make_arrays(spec, len(raw), folder=folder)
                explicit = raw if isinstance(raw, Tensor) else None
                self.kept[spec.name][part] = KeptPart(
                    arrays=arrays, raw_id=explicit, first=first if explicit is not None else raw.start
                )
                first += len(raw)
            self._train(spec.name, rule)
        self.checkpoints = Checkpoints(folder, anywhere=anywhere, tables=self.tables, restores=self.restores)

    def _train(self, name: str, rule: RuleSpec | None) -> None:
        self.rules[name] = rule or self.rules[name]
        for part in self.kept[name].values():
            states = {} if rule is None else Rule(rule, self.specs[name].shape, self.specs[name].torch_dtype).states()
            for state, made in states.items():
                if state not in part.arrays.states:
                    part.arrays.add_state(state, made.row_shape, made.dtype, made.fill)

    @contextmanager
    def tables(self, names: Sequence[str], *, whole: bool) -> Iterator[Mapping[str, KeptTable]]:
        yield {name: self.table(name) for name in names}

    def table(self, name: str = "e") -> KeptTable:
        optimizer = "o" if self.rules[name] else ""
        return KeptTable(spec=self.specs[name], optimizer=optimizer, rule=self.rules[name], parts=self.kept[name])

    @contextmanager
    def restores(self, saved: SavedTable) -> Iterator[KeptTable]:
        self._train(saved.spec.name, saved.rule)
        parts = self.kept[saved.spec.name].values()
        for part in parts:
            part.arrays.counts[0] += 1
        yield self.table(saved.spec.name)
        for part in parts:
            part.arrays.counts[0] += 1
            part.arrays.counts[1] = saved.steps

    def change(self, share: float, *, steps: int = 5, seed: int = 0) -> None:
        """Writes some rows and their state; what a row becomes depends on its raw id alone."""
        for name, parts in self.kept.items():
            for part in parts.values():
                lid = torch.arange(len(part.arrays.rows))
                ids = part.ids(lid)
                chosen = torch.from_numpy(np.random.default_rng(seed).random(ROWS) < share)[ids]
                lid, ids = lid[chosen], ids[chosen]
                part.arrays.counts[0] += 2
                part.arrays.write(lid, (torch.stack([ids, ids * 2, -ids], 1) + len(name)).to(self.specs[name].torch_dtype))
                for state, array in part.arrays.states.items():
                    values = (ids + len(state)).to(array.dtype)
                    part.arrays.write(lid, values if array.dim() == 1 else values[:, None].expand(-1, 3).contiguous(), state)
                part.arrays.counts[1] = steps

    def save(self, folder: Path | str, names: Sequence[str] = ("e",)) -> tuple[SavedTable, ...]:
        return self.checkpoints.answer(SaveTablesRequest(folder=str(folder), names=tuple(names))).result(20).tables

    def load(
        self, folder: Path | str, tables: Sequence[SavedTable], *, only_check: bool = False, token: str = ""
    ) -> dict[str, int]:
        token = token or f"{id(tables)} {only_check}"
        request = LoadTablesRequest(token=token, folder=str(folder), tables=tuple(tables), only_check=only_check)
        return self.checkpoints.answer(request).result(20).rows

    def by_id(self, name: str = "e") -> dict[str, Tensor]:
        """All arrays in the order of raw ids; rows that begin otherwise count as not a number."""
        found: dict[str, Tensor] = {}
        parts = self.kept[name].values()
        order = torch.argsort(torch.cat([part.ids(torch.arange(len(part.arrays.rows))) for part in parts]))
        touched = [
            torch.ones(0, dtype=torch.bool) if part.arrays.touched is None else part.arrays.touched.bool() for part in parts
        ]
        for state in ("", *next(iter(parts)).arrays.states):
            arrays = [part.arrays.states[state] if state else part.arrays.rows for part in parts]
            if not state and len(touched[0]):
                arrays = [torch.where(seen[:, None], rows, torch.nan) for seen, rows in zip(touched, arrays, strict=True)]
            found[state] = torch.cat(arrays)[order]
        return found


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[name].view(torch.uint8).equal(b[name].view(torch.uint8)) for name in a)


@pytest.fixture
def owner() -> Iterator[Callable[..., Owner]]:
    """Makes owners, and closes them."""
    made: list[Owner] = []

    def make(*args: Any, **options: Any) -> Owner:
        made.append(Owner(*args, **options))
        return made[-1]

    yield make
    for one in made:
        one.checkpoints.close()
        for part in [part for parts in one.kept.values() for part in parts.values()]:
            part.arrays.close()


Make = Callable[..., Owner]


@pytest.mark.parametrize(
    ("begin", "rule", "ascending"),
    [
        (NORMAL, None, True),
        (NORMAL, ADAM, False),
        (Beginning(), ADAM, True),
        (Beginning(), ADAGRAD, True),
        (NORMAL, ADAGRAD, True),
    ],
    ids=["normal-none", "normal-adam-edges", "zeros-adam", "zeros-adagrad", "normal-adagrad"],
)
def test_saved_in_two_partitions_and_read_into_any_number_of_owners(
    begin: Beginning, rule: RuleSpec | None, ascending: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Make
) -> None:
    monkeypatch.setattr(kept, "_CHUNK_BYTES", 12 * 128)
    before = owner(layout(2, ascending=ascending), [spec_of(begin=begin)], None, rule=rule)
    whole = owner([range(ROWS)], [spec_of(begin=begin)], None, rule=rule)
    for one in (before, whole):
        one.change(0.3)
    saved = before.save(tmp_path / STEP)
    assert same(before.by_id(), whole.by_id())
    assert saved[0].num_rows == sum(len(part.changed()) for part in whole.kept["e"].values())
    for parts in ([range(ROWS)], *(layout(count, seed=count, ascending=ascending) for count in (1, 3, 4))):
        one = owner(parts, [spec_of(begin=begin)], None)
        if len(parts) == 3:
            one.change(0.5, seed=9)  # what was written since goes
        assert one.load(tmp_path / STEP, saved) == {"e": saved[0].num_rows}
        assert same(one.by_id(), whole.by_id())
        assert all(int(part.arrays.counts[1]) == 5 for part in one.kept["e"].values())


@pytest.fixture
def saved(owner: Make, tmp_path: Path) -> tuple[SavedTable, ...]:
    """Two tables of one partition, in ``tmp_path / STEP``."""
    one = owner([range(ROWS)], [spec_of(), spec_of("other", key=None)], None, rule=ADAM)
    one.change(0.5)
    return one.save(tmp_path / STEP, ["e", "other"])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-7] ^= 4
    file.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "flipped": (
        flip,
        CorruptDatasetError,
        r"table 'other' cannot be loaded from .*rows\.npy has checksum .*, or load an older one",
    ),
    "missing": (Path.unlink, IncompleteDatasetError, r"table 'other' cannot be loaded from .*rows\.npy is missing"),
    "cut": (lambda file: file.write_bytes(file.read_bytes()[:-1]), CorruptDatasetError, r"rows\.npy has \d+ bytes, the manifest"),
    "another": (lambda file: shutil.copy(file.with_name("id.npy"), file), CorruptDatasetError, "table 'other' cannot be loaded"),
}


@pytest.mark.parametrize(("damage", "kind", "text"), DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("only_check", [True, False])
def test_a_damaged_file_is_named_and_no_table_is_changed(
    damage: Callable[[Path], object], kind: type[Exception], text: str, only_check: bool, saved, owner: Make, tmp_path: Path
) -> None:
    one = owner(layout(2), [spec_of(), spec_of("other", key=None)], None, rule=ADAM)
    one.change(0.2, seed=3, steps=2)
    before = one.by_id(), one.by_id("other")
    damage(tmp_path / STEP / "other" / "00000" / "rows.npy")
    with pytest.raises(kind, match=text):
        one.load(tmp_path / STEP, saved, only_check=only_check)
    assert same(one.by_id(), before[0])
    assert same(one.by_id("other"), before[1])
    assert one.table().steps == 2


@pytest.mark.parametrize(
    ("spec", "rule", "text"),
    [
        (
            spec_of(num_rows=ROWS + 1),
            None,
            r"table 'e' was saved with num_rows=400, and has num_rows=401 here; make it as it was",
        ),
        (spec_of(shape=(4,)), None, r"saved with shape=\(3,\), and has shape=\(4,\) here"),
        (spec_of(dtype="float64"), None, "saved with dtype='float32', and has dtype='float64'"),
        (spec_of(key="author"), None, "saved with key='paper', and has key='author'"),
        (spec_of(begin=Beginning(kind="normal", high=1.0, seed=1)), None, "saved with begin=.*'seed': 0.*has begin=.*'seed': 1"),
        (spec_of(), ADAGRAD, r"table 'e' was saved with the state of .*kind='adam'.*, and is trained by .*kind='adagrad'"),
    ],
)
def test_another_table_or_another_rule_is_refused_by_name(spec, rule, text, saved, owner: Make, tmp_path: Path) -> None:
    one = owner([range(ROWS)], [spec], None, rule=rule)
    with pytest.raises(InputError, match=text):
        one.load(tmp_path / STEP, saved[:1])
    assert not one.table().parts[0].arrays.rows.any()


def test_a_table_in_memory_comes_back_on_disk(saved, owner: Make, tmp_path: Path) -> None:
    memory, disk = (owner(layout(2), [spec_of(storage=storage)], tmp_path / "tables") for storage in ("memory", "disk"))
    for one in (memory, disk):
        one.load(tmp_path / STEP, saved[:1])
    assert same(memory.by_id(), disk.by_id())
    assert [table.num_rows for table in disk.save(tmp_path / "again" / STEP)] == [saved[0].num_rows]


def test_an_owner_of_the_same_rows_reads_its_own_files_alone(owner: Make, tmp_path: Path) -> None:
    """So hosts with disks of their own need not share a folder."""
    ids = layout(2)
    first, second = (owner([part], [spec_of()], None, rule=ADAM) for part in ids)
    for one in (first, second):
        one.change(0.5)
    saved = [*first.save(tmp_path / "first" / STEP), *second.save(tmp_path / "second" / STEP)]
    again = owner([ids[1]], [spec_of()], None)
    assert again.load(tmp_path / "second" / STEP, saved) == {"e": saved[1].num_rows}
    assert same(again.by_id(), second.by_id())
    other = owner([ids[0][1:]], [spec_of()], None)
    with pytest.raises(IncompleteDatasetError, match=r"00000.id\.npy is missing|has \d+ bytes"):
        other.load(tmp_path / "third" / STEP, saved)


def test_rows_that_this_graph_does_not_have_are_counted(saved, owner: Make, tmp_path: Path) -> None:
    fewer = owner([torch.arange(0, ROWS, 2)], [spec_of()], None)
    found = fewer.load(tmp_path / STEP, saved[:1], only_check=True)["e"]
    assert 0 < found < saved[0].num_rows


def test_what_is_asked_again_is_done_once(saved, owner: Make, tmp_path: Path) -> None:
    """A client repeats a request when the connection broke before the answer came."""
    one = owner([range(ROWS)], [spec_of()], None, rule=ADAM)
    one.load(tmp_path / STEP, saved[:1], token="once")
    one.change(1.0, seed=5, steps=9)
    now = one.by_id()
    one.load(tmp_path / STEP, saved[:1], token="once")
    assert same(one.by_id(), now)
    first = one.save(tmp_path / "again" / STEP)
    one.change(1.0, seed=6, steps=10)
    assert one.save(tmp_path / "again" / STEP) == first
    one.load(tmp_path / STEP, saved[:1], token="twice")
    assert one.table().steps == 5


def test_a_full_disk_names_the_file_and_the_tables_stay(owner: Make, tmp_path: Path, no_more_than) -> None:
    one = owner([range(ROWS)], [spec_of()], None, rule=ADAM)
    one.change(1.0)
    before = one.by_id()
    with no_more_than(3000), pytest.raises(WriteError, match=r"cannot write .*step-7-00c0ffee/e/00000/.*\.npy.*make room"):
        one.save(tmp_path / STEP)
    assert same(one.by_id(), before)
    assert len(one.save(tmp_path / "step-8-00c0ffee")) == 1


def test_only_checkpoints_are_cleared_and_only_those_that_are_not_to_stay(saved, owner: Make, tmp_path: Path) -> None:
    for name in ("step-8-00c0ffee", "step-9-00c0ffee", "steps", "model.pt", "step-8-00c0ffee.txt"):
        (tmp_path / name).mkdir()
    one = owner([range(ROWS)], [spec_of()], None)
    one.checkpoints.answer(ClearCheckpointsRequest(folder=str(tmp_path), keep=("step-9-00c0ffee",))).result(20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pt", "step-8-00c0ffee.txt", "step-9-00c0ffee", "steps"]
    one.checkpoints.answer(ClearCheckpointsRequest(folder=str(tmp_path / "nowhere"), keep=())).result(20)


def test_a_server_writes_and_reads_below_its_folder_only(saved, owner: Make, tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    allowed.mkdir()
    outside.mkdir()
    (allowed / "link").symlink_to(outside)
    (allowed / "loop").symlink_to(allowed / "loop")
    server = owner([range(ROWS)], [spec_of()], allowed, anywhere=False)
    server.change(0.5)
    for folder in (f"../outside/{STEP}", f"{outside}/{STEP}", f"link/{STEP}", f"loop/{STEP}", f"a\0b/{STEP}"):
        with pytest.raises(InputError, match="lies outside the folder for tables that the server names; give a path below it"):
            server.save(folder)
        with pytest.raises(InputError, match="lies outside"):
            server.load(folder, saved[:1], token=folder)
    for folder in ("..", "", str(outside), "link"):
        with pytest.raises(InputError, match="lies outside"):
            server.checkpoints.answer(ClearCheckpointsRequest(folder=folder, keep=())).result(20)
    with pytest.raises(InputError, match="lies outside"):
        server.load(f"runs/{STEP}", [replace(saved[0], path=f"../../../{STEP}/e/00000")])
    with pytest.raises(InputError, match="is no name of a checkpoint"):
        server.save("runs/model")
    assert list(outside.iterdir()) == []
    assert server.load(f"runs/{STEP}", server.save(f"runs/{STEP}"))["e"] > 0
    assert server.load(f"{allowed}/runs/{STEP}", server.save(f"runs/{STEP}"))["e"] > 0
    bare = owner([range(ROWS)], [spec_of()], None, anywhere=False)
    with pytest.raises(InputError, match=r"names no folder for tables; start it with one \(tables=, --tables FOLDER\)"):
        bare.save(f"runs/{STEP}")


@pytest.mark.parametrize("named", [True, False], ids=["named", "working directory"])
def test_peers_of_a_trainer_stay_below_its_folder(saved, owner: Make, tmp_path: Path, monkeypatch, named) -> None:
    """The process itself saves wherever its user wants."""
    run, outside = tmp_path / "run", tmp_path / "outside"
    (run / "a").mkdir(parents=True)
    kept = outside / "step-1-00c0ffee"
    kept.mkdir(parents=True)
    (run / "link").symlink_to(outside)
    monkeypatch.chdir(tmp_path if named else run)
    trainer = owner([range(ROWS)], [spec_of()], run if named else None)
    trainer.change(0.5)
    for folder in (f"../outside/{STEP}", f"{outside}/{STEP}", f"link/{STEP}", f"a/../link/{STEP}", f"{'x/' * 2100}{STEP}"):
        for request in (
            SaveTablesRequest(folder=folder, names=("e",)),
            LoadTablesRequest(token="t", folder=folder, tables=saved[:1], only_check=False),
            ClearCheckpointsRequest(folder=str(Path(folder).parent), keep=()),
        ):
            with pytest.raises(InputError, match="outside the folder for tables that the trainer names; give a path below it"):
                trainer.checkpoints.answer(request, peer=True).result(20)
    (run / "runs" / STEP).mkdir(parents=True)
    (run / "runs" / STEP / "e").symlink_to(outside)
    with pytest.raises(InputError, match="lies outside"):
        trainer.checkpoints.answer(SaveTablesRequest(folder=f"runs/{STEP}", names=("e",)), peer=True).result(20)
    assert [*outside.iterdir()] == [kept]
    assert trainer.checkpoints.answer(SaveTablesRequest(folder=f"a/{STEP}", names=("e",)), peer=True).result(20).tables
    assert (run / "a" / STEP / "e").is_dir()
    trainer.checkpoints.answer(ClearCheckpointsRequest(folder="a", keep=()), peer=True).result(20)
    assert [*(run / "a").iterdir()] == []
    trainer.save(outside / STEP)
    trainer.checkpoints.answer(ClearCheckpointsRequest(folder=str(outside), keep=())).result(20)
    assert [*outside.iterdir()] == []


def test_a_row_of_zeros_that_has_a_state_is_saved(owner: Make, tmp_path: Path) -> None:
    """Of a table that begins with zeros it is not kept which rows were touched."""
    one, other = (owner([range(ROWS)], [spec_of(begin=Beginning())], None, rule=ADAGRAD) for _ in range(2))
    arrays = one.table().parts[0].arrays
    assert arrays.touched is None
    arrays.write(torch.tensor([5]), torch.full((1, 3), 0.5), "sum")
    saved = one.save(tmp_path / STEP)
    assert saved[0].num_rows == 1
    other.load(tmp_path / STEP, saved)
    assert same(other.by_id(), one.by_id())
