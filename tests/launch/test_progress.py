import io

from rich.console import Console

from halohop.launch.progress import TrainingDisplay, epoch_line, stages

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
        display({"event": "start"})
        display({"event": "step", "epoch": 2, "step": 10, "steps": 20, "loss": 1.0})
        display(EPOCH)
        display({**EPOCH, "epoch": 3, "val_accuracy": None})
        display({"event": "end"})
    head, *rows = output.getvalue().splitlines()
    assert [row.split() for row in rows] == [
        ["2/30", "0.5000", "0.7500", "1.25", "0.50", "2M", "10.0%"],
        ["3/30", "0.5000", "-", "1.25", "0.50", "2M", "10.0%"],
    ]
    assert head.index("loss") + len("loss") == rows[0].index("0.5000") + len("0.5000")


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
