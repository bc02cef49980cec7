import io
from functools import partial

import pytest
from rich.console import Console

from halohop.launch.terminal import progress
from halohop.launch.terminal.progress import Pace, TrainingDisplay, epoch_line, stages

EPOCH = {
    "event": "epoch",
    "epoch": 2,
    "loss": 0.5,
    "val_accuracy": 0.75,
    "train_seconds": 1.25,
    "wait_seconds": 0.5,
    "edges_per_second": 2e6,
    "remote_share": 0.1,
}


def test_an_epoch_stands_under_its_columns() -> None:
    output = io.StringIO()
    with TrainingDisplay(Console(file=output, width=100), epochs=30) as display:
        display({"event": "start", "leaks": ["3 of 9 edges of val and test have a copy"]})
        display({"event": "step", "epoch": 2, "step": 10, "steps": 20, "loss": 1.0})
        display(EPOCH)
        display({**EPOCH, "epoch": 3, "val_accuracy": None})
        display({"event": "end"})
    leak, head, *rows = output.getvalue().splitlines()
    assert leak == "3 of 9 edges of val and test have a copy"
    assert [row.split() for row in rows] == [
        ["2/30", "0.5000", "0.7500", "1.25", "0.50", "2M", "10.0%"],
        ["3/30", "0.5000", "-", "1.25", "0.50", "2M", "10.0%"],
    ]
    assert head.index("loss") + len("loss") == rows[0].index("0.5000") + len("0.5000")


def test_without_a_terminal_a_line_now_and_then_tells_how_fast_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(progress, "LINE_S", 0.0)
    with TrainingDisplay(Console(file=output, width=100), epochs=30) as display:
        display({"event": "step", "epoch": 2, "step": 10, "steps": 20, "loss": 1.0})
        display({"event": "step", "epoch": 2, "step": 20, "steps": 20, "loss": 0.5})
    with stages(Console(file=output, width=100)) as stage:
        stage("layer 1", 0, 4000)
        stage("layer 1", 1000, 4000)
    first, second, third, fourth = output.getvalue().splitlines()
    assert first == "epoch 2: step 10 of 20, loss 1.0000"
    assert second.startswith("epoch 2: step 20 of 20, ")
    assert second.endswith(" steps/s, loss 0.5000")
    assert third == "layer 1: 0 of 4,000"
    assert fourth.startswith("layer 1: 1,000 of 4,000, ")


def test_the_rate_is_that_of_the_stage_and_lines_are_rare() -> None:
    now = [100.0]
    pace = Pace(lambda: now[0])
    assert pace.rate("epoch 1", 10) is None
    now[0] += 2
    assert (pace.rate("epoch 1", 20), pace.line_is_due()) == (5, False)
    now[0] += 8
    assert (pace.rate("epoch 2", 10), pace.line_is_due(), pace.line_is_due()) == (None, True, False)


def test_the_time_left_follows_from_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now, output = [100.0], io.StringIO()
    monkeypatch.setattr(progress, "Pace", partial(Pace, lambda: now[0]))
    with stages(Console(file=output, width=100)) as stage:
        for done in (0, 1000, 4000):
            stage("write", done, 4000)
            now[0] += 50
    assert output.getvalue().splitlines() == [
        "write: 1,000 of 4,000, 20/s, 3 min left",
        "write: 4,000 of 4,000, 40/s, 0 s left",
    ]


def test_what_a_batch_weighs_is_said_once() -> None:
    output = io.StringIO()
    with TrainingDisplay(Console(file=output, width=100), epochs=30) as display:
        for epoch in (1, 2):
            display({**EPOCH, "epoch": epoch, "batch_bytes": 600 * 2**20})
    assert output.getvalue().splitlines()[0].split() == ["a", "batch", "weighs", "up", "to", "600", "MiB"]
    assert output.getvalue().count("weighs") == 1


def test_long_numbers_of_epochs_stay_apart() -> None:
    assert epoch_line({**EPOCH, "epoch": 1000}, 1000).split()[0] == "1000/1000"


def test_stages_write_nothing_that_stays_in_a_log() -> None:
    output = io.StringIO()
    with stages(Console(file=output, force_terminal=False)) as progress:
        progress("write", 1, 2)
    assert output.getvalue().strip() == ""
