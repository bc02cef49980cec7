"""The folder of a run: none is lost by accident, and two runs do not write to one."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from halohop.errors import CorruptDatasetError, InputError, WriteError
from halohop.recipes.config import TrainConfig
from halohop.recipes.events import EventLog
from halohop.recipes.folder import check_run
from halohop.recipes.train import train
from halohop.world import World


class KilledError(Exception):
    """Stands for the end of the process."""


def log(out: Path, events: list[dict[str, Any]] | None = None) -> EventLog:
    return EventLog(str(out), World(), lambda event: None if events is None else events.append(event))


@pytest.mark.parametrize("name", ["metrics.jsonl", "resume.pt", "checkpoint/model.pt"])
def test_a_run_is_not_lost_by_accident(tiny_parts: str, tmp_path: Path, name: str) -> None:
    config = TrainConfig(parts=tiny_parts, out=str(tmp_path / "run"), device="cpu")
    check_run(config)
    (tmp_path / "run" / name).parent.mkdir(parents=True)
    check_run(config) if "/" not in name else None
    (tmp_path / "run" / name).write_text("hours of work")
    message = rf"holds a run, whose {re.escape(name.split('/')[0])} would be lost; choose another .*resume=True.*overwrite=True"
    with pytest.raises(InputError, match=message):
        train(config, world=World())
    assert (tmp_path / "run" / name).read_text() == "hours of work"
    check_run(replace(config, overwrite=True))
    check_run(replace(config, resume=True))


def test_nothing_of_the_old_run_is_taken_for_the_new_ones(tiny_parts: str, tmp_path: Path) -> None:
    """Killed right after its begin, a run that overwrites has no checkpoint, rather than the other run's."""
    for name in ("metrics.jsonl", "resume.pt", "checkpoint/model.pt", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("of another run")

    def killed(event: dict[str, Any]) -> None:
        raise KilledError

    config = TrainConfig(parts=tiny_parts, out=str(tmp_path), device="cpu", workers=0, overwrite=True)
    with pytest.raises(KilledError):
        train(config, world=World(), on_event=killed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "notes.txt"]
    assert "of another run" not in (tmp_path / "metrics.jsonl").read_text()


def test_two_runs_do_not_write_to_one_folder(tmp_path: Path) -> None:
    with log(tmp_path) as first:
        first.begin()
        first({"event": "start"})
        for other in (log(tmp_path).begin, lambda: log(tmp_path).go_on(10)):
            with pytest.raises(InputError, match=r"another run is writing .*metrics\.jsonl; wait"):
                other()
    events: list[dict[str, Any]] = []
    with log(tmp_path, events) as again:
        again.go_on(first_size := (tmp_path / "metrics.jsonl").stat().st_size)
        assert again.size == first_size
    assert events == [{"event": "start"}]


def test_a_log_on_a_full_disk_and_one_that_is_damaged(tmp_path: Path, no_more_than: Any) -> None:
    with log(tmp_path) as full, no_more_than(100):
        full.begin()
        with pytest.raises(WriteError, match=r"cannot write .*metrics\.jsonl: File too large; make room"):
            full({"event": "x" * 200})
    (tmp_path / "metrics.jsonl").write_bytes(b"[" * 200_000 + b"\n")
    with log(tmp_path) as damaged, pytest.raises(CorruptDatasetError, match=r"metrics\.jsonl cannot be read as JSON"):
        damaged.go_on(300_000)
