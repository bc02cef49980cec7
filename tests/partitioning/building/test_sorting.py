"""Lists that are sorted in several chunks are those sorted at once: the files, their checksums, and what is noted of times."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.partitioning.building.columns import Given, Numbers
from halohop.partitioning.building.fields import Field, Table
from halohop.partitioning.building.layout import cut_range
from halohop.partitioning.building.sorting import SortedLists, sort_lists
from halohop.store.filling import Filler
from halohop.typing import EDGE, EDGE_ID


def table(gids: list[int], times: list[int]) -> Table:
    """Rows of nodes 0 to 4 in two partitions, with their times and numbers."""
    columns = {"t": Given(tensor=torch.tensor(times, dtype=torch.int64)), EDGE_ID: Numbers(dtype=torch.int32)}
    return Table(
        key=EDGE,
        num_rows=len(gids),
        bounds=(0, 2, 5),
        by=Given(tensor=torch.tensor(gids, dtype=torch.int32)),
        fields=tuple(
            Field(name=name, path=lambda part, number=number: f"part-{part}/{number}.npy", column=column)  # type: ignore[misc]
            for number, (name, column) in enumerate(columns.items())
        ),
        times=frozenset(["t"]),
        lists=True,
    )


def sorted_in(rows: Table, folder: Path, step: int) -> tuple[SortedLists, dict[str, bytes], dict[str, tuple[str, ...]]]:
    with Filler(folder) as filler:
        found = sort_lists(rows, (0, 5), cut_range(range(rows.num_rows), step), filler, with_id=True)
    arrays = [array for _, array in rows.arrays(found.bounds)]
    records = {array.path: array.record(filler.extents.get(array.path, ())).checksums for array in arrays}
    return found, {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*.npy"))}, records


@given(st.data(), st.integers(1, 12), st.booleans())
def test_chunks_change_nothing(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, step: int, rising: bool) -> None:
    gids = data.draw(st.lists(st.sampled_from([0, 1, 3, 3, 3, 4]), max_size=30))
    times = data.draw(st.lists(st.integers(0, 9), min_size=len(gids), max_size=len(gids)))
    times = sorted(times) if rising else times
    folder = tmp_path_factory.mktemp("sorting")
    rows = table(gids, times)
    whole, chunks = (sorted_in(rows, folder / name, size) for name, size in (("whole", 100), ("chunks", step)))
    assert chunks == whole
    found, files, _ = whole
    order = sorted(range(len(gids)), key=lambda row: gids[row])
    stored = [np.load(folder / f"whole/part-{part}/1.npy").tolist() for part in range(2) if f"part-{part}/1.npy" in files]
    assert [row for part in stored for row in part] == order
    lists = [[times[row] for row in order if gids[row] == gid] for gid in range(5)]
    assert found.falling == (() if all(values == sorted(values) for values in lists) else ("t",))


def test_times_that_fall_between_chunks_are_noted(tmp_path: Path) -> None:
    rows = table([3] * 40, [*range(20), *range(20)])
    found, _, _ = sorted_in(rows, tmp_path, 20)
    assert found.falling == ("t",)
