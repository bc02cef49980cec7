"""What a training run came to: its figures, and a picture in its folder."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from halohop.files import UrlFolder, write_file
from halohop.launch.pages.chart import short
from halohop.launch.pages.page import page
from halohop.launch.pages.picture import training_charts
from halohop.launch.pages.summary import summarize
from halohop.launch.processes.tasks import Event
from halohop.launch.terminal.console import Console
from halohop.recipes.checks import servers_of
from halohop.recipes.config import TrainConfig
from halohop.recipes.names import CHECKPOINT, METRICS

PICTURE = "picture.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a training run came to.

    Args:
        out: the run folder.
        start: the event "start".
        epochs: the events "epoch", in order.
        end: the event "end".
    """

    out: Path
    start: Event
    epochs: tuple[Event, ...]
    end: Event

    def figures(self) -> dict[str, str]:
        """The few numbers that matter, readable, by their names."""

        def median(field: str, form: Callable[[float], str]) -> str:
            values = [epoch[field] for epoch in self.epochs if epoch.get(field) is not None]
            return form(statistics.median(values)) if values else "-"

        tested = {name: figure for name, figure in self.end.items() if name.startswith("test_")}
        return {
            **{name.replace("_", " "): "-" if figure is None else f"{figure:.4f}" for name, figure in tested.items()},
            "best epoch": f"{self.end.get('best_epoch', '-')} of {len(self.epochs)}",
            "median epoch": median("train_seconds", "{:.2f} s".format),
            "sampled edges/s": median("edges_per_second", short),
            "share of remote rows": median("remote_share", "{:.1%}".format),
        }


def draw(outcome: Outcome, config: TrainConfig, place: str) -> None:
    """Writes the picture of a run into its folder."""
    start = outcome.start
    subtitle = (
        f"{start.get('nodes', 0):,} nodes and {start.get('edges', 0):,} edges in {start.get('partitions', '?')} partitions; "
        f"fanout {', '.join(map(str, config.fanout))}, batches of {config.batch_size}; {place}"
    )
    parts = [] if servers_of(config.parts) else summarize(config.parts)["parts"]  # servers do not send the cut
    html = page(
        title=f"{start.get('model', config.model)}: {outcome.out.name}",
        subtitle=subtitle,
        figures=outcome.figures(),
        charts=training_charts(outcome.epochs, parts, figure=start.get("figure", "accuracy")),
    )
    write_file(outcome.out / PICTURE, html.encode())
    if config.copy_to is not None:
        UrlFolder(config.copy_to).send(outcome.out / PICTURE, PICTURE)


def show(outcome: Outcome, console: Console, *, url: str | None = None) -> None:
    """The end of a run for a terminal: its figures, and where the rest lies: in its folder, or at its URL."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in outcome.figures().items():
        table.add_row(name, value, style="bold" if name == "test accuracy" else "")
    for name, file in (("metrics", METRICS), ("checkpoint", CHECKPOINT), ("picture", PICTURE)):
        table.add_row(name, f"{url or outcome.out}/{file}", style="dim")
    console.print(table)
