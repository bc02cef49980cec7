from pathlib import Path

import pytest

import halohop
from halohop.alive import REPORT_FILE, note_step
from halohop.datasets import synthetic


def test_a_step_changes_the_time_of_the_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report"
    note_step()  # without a launcher
    monkeypatch.setenv(REPORT_FILE, str(file))
    note_step()  # an inherited variable
    file.write_bytes(b"content")
    before = file.stat().st_mtime_ns
    note_step()
    assert (file.stat().st_mtime_ns > before, file.read_bytes()) == (True, b"content")


def test_each_batch_is_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "report"
    file.touch()
    monkeypatch.setenv(REPORT_FILE, str(file))
    times = [file.stat().st_mtime_ns]
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=2, method="random")
    with halohop.open(tmp_path / "parts") as graph:
        for _ in halohop.NeighborLoader(graph, [2], batch_size=300, num_workers=0):
            times.append(file.stat().st_mtime_ns)
    assert len({*times}) == len(times) > 3
