"""Records come back from their bucket in the order in which they were dealt, and a full disk is named where they are written."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import WriteError
from halohop.files.buckets import BucketFiles


@given(st.lists(st.lists(st.integers(0, 4), max_size=30), max_size=5))
def test_each_bucket_has_its_records_in_order(tmp_path_factory, rounds: list[list[int]]) -> None:
    folder, dealt = tmp_path_factory.mktemp("buckets"), 0
    expected: list[list[list[int]]] = [[] for _ in range(5)]
    buckets = BucketFiles(folder, 5)
    with buckets.writer() as deal:
        for round in rounds:
            records = [[bucket, dealt + place] for place, bucket in enumerate(round)]
            dealt += len(round)
            for record in records:
                expected[record[0]].append(record)
            grouped = np.array(sorted(records), np.int32).reshape(-1, 2)
            deal(grouped, [0, *np.cumsum(np.bincount(grouped[:, 0], minlength=5)).tolist()])
    assert [buckets.take(number, np.dtype(np.int32)).reshape(-1, 2).tolist() for number in range(5)] == expected
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "bucket-1").symlink_to("/dev/full")
    buckets = BucketFiles(tmp_path, 2)
    with pytest.raises(WriteError, match=r"bucket-1.*[Nn]o space"), buckets.writer() as deal:
        deal(torch.arange(4).numpy(), [0, 2, 4])
