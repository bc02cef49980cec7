"""What is shown while something runs: a line for every epoch, and between them a bar that moves; a line now and then where no
terminal is."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from halohop.launch.pages.chart import short
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.wording import format_seconds
from halohop.memory import format_size

LINE_S = 10.0
"""Seconds between two lines about what is going on, where no terminal shows a bar."""

_COLUMNS = (("epoch", 9), ("loss", 9), ("val", 9), ("seconds", 9), ("waiting", 9), ("edges/s", 9), ("remote", 9))


@contextmanager
def stages(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for work in stages: gives the callback (stage, done, total) that moves it."""
    bar = _bar(console)
    with bar if console.is_terminal else nullcontext():  # where it shows nothing, its end would be an empty line
        task, pace = bar.add_task("", total=None, rate=""), Pace()

        def progress(stage: str, done: int, total: int) -> None:
            rate = pace.rate(stage, done)
            speed = f", {_per_second(rate)}, {format_seconds(_rounded_up((total - done) / rate))} left" if rate else ""
            bar.update(task, description=stage, completed=done, total=total, rate=speed.removeprefix(", "))
            if not console.is_terminal and pace.line_is_due():
                console.print(f"{stage}: {done:,} of {total:,}{speed}")

        yield progress


class Pace:
    """How fast a stage goes on, and when the next line about it is due.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage, self._begin, self._before = "", 0.0, 0
        self._said = clock()

    def rate(self, stage: str, done: int) -> float | None:
        """Of what is done in a second, since the first report of this stage; None at its begin."""
        now = self._clock()
        if stage != self._stage or done < self._before:
            self._stage, self._begin, self._before = stage, now, done
        return (done - self._before) / (now - self._begin) if now > self._begin and done > self._before else None

    def line_is_due(self) -> bool:
        """Whether the last line is `LINE_S` seconds ago."""
        due = self._clock() - self._said >= LINE_S
        if due:
            self._said = self._clock()
        return due


class TrainingDisplay:
    """Shows the events of a training run; use it as a context manager and call it with every event.

    Args:
        console: where to.
        epochs: how many there will be.
    """

    def __init__(self, console: Console, *, epochs: int) -> None:
        self._console = console
        self._epochs = epochs
        self._bar = _bar(console)
        self._task = self._bar.add_task("starting", total=None, rate="")
        self._headed, self._pace = False, Pace()
        self._figure = "accuracy"

    def __call__(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "start":
            self._figure = event.get("figure", self._figure)
            for leak in event.get("leaks", ()):
                self._console.print(Text(leak, style="yellow"))
        elif event["event"] == "epoch":
            if not self._headed:
                self._headed = True
                names = ((f"val {self._figure[:3]}" if name == "val" else name, width) for name, width in _COLUMNS)
                if event.get("batch_bytes"):
                    self._console.print(Text(f"    a batch weighs up to {format_size(event['batch_bytes'])}", style="dim"))
                self._console.print(Text("".join(name.rjust(width) for name, width in names), style="dim"))
            self._console.print(Text(epoch_line(event, self._epochs, self._figure)))
            if event.get("held_up"):
                self._console.print(Text(f"         {event['held_up']['line']}", style="yellow"))
        elif event["event"] == "stop":
            place = f"epoch {event['epoch']}, step {event['step']}"
            self._console.print(f"asked to end, and saved after {place}; --resume goes on from there")
        elif event["event"] == "step":
            self._step(event)

    def _step(self, event: Mapping[str, Any]) -> None:
        stage, done, total = f"epoch {event['epoch']}", event["step"], event.get("steps")
        rate = self._pace.rate(stage, done)
        speed = f"{_per_second(rate, ' steps')}, " if rate else ""
        self._bar.update(self._task, description=stage, completed=done, total=total, rate=speed.removesuffix(", "))
        if not self._console.is_terminal and self._pace.line_is_due():
            self._console.print(f"{stage}: step {done} of {total}, {speed}loss {event['loss']:.4f}")

    def __enter__(self) -> "TrainingDisplay":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._bar.stop()


def epoch_line(event: Mapping[str, Any], epochs: int, figure: str = "accuracy") -> str:
    """An epoch in one line, under the columns' names; what was not measured is a dash.

    Example:
        >>> epoch_line({"epoch": 1, "loss": 1.2345, "train_seconds": 3.21, "remote_share": 0.25}, 10)
        '     1/10   1.2345        -     3.21        -        -    25.0%'
    """
    forms: tuple[tuple[str, Callable[[float], str]], ...] = (
        ("loss", "{:.4f}".format),
        (f"val_{figure}", "{:.4f}".format),
        ("train_seconds", "{:.2f}".format),
        ("wait_seconds", "{:.2f}".format),
        ("edges_per_second", short),
        ("remote_share", "{:.1%}".format),
    )
    cells = [f"{event['epoch']}/{epochs}"]
    cells += ["-" if event.get(name) is None else form(event[name]) for name, form in forms]
    return "".join(cell.rjust(width) for cell, (_, width) in zip(cells, _COLUMNS, strict=True))


def _per_second(rate: float, what: str = "") -> str:
    return f"{short(rate)}{what}/s"


def _rounded_up(seconds: float) -> int:
    """To whole seconds or minutes, as one waits for them."""
    return math.ceil(seconds) if seconds < 60 else 60 * math.ceil(seconds / 60)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
