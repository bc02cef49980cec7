"""What a training run was like, as charts for a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from halohop.launch.pages.chart import Chart, Series

Event = Mapping[str, Any]


def training_charts(epochs: Sequence[Event], parts: Sequence[Event] = (), *, figure: str = "accuracy") -> tuple[Chart, ...]:
    """The charts of a training run.

    Args:
        epochs: the run's events "epoch", in order.
        parts: the data set's partitions as `halohop.launch.pages.summary.summarize` tells of them.
        figure: what a model is the best by.
    """
    scores = _series(epochs, f"validation {figure}", f"val_{figure}")
    best = max(zip(scores.y, scores.x, strict=True), key=lambda pair: (pair[0], -pair[1]), default=None)
    waiting = _series(epochs, "waiting for batches", "wait_seconds")
    total = _series(epochs, "", "train_seconds")
    waited = dict(zip(waiting.x, waiting.y, strict=True))
    compute = Series(
        name="compute", x=total.x, y=[max(y - waited.get(x, 0.0), 0.0) for x, y in zip(total.x, total.y, strict=True)]
    )
    share = _series(epochs, "remote rows", "remote_share")
    charts = [
        Chart(title="Training loss", y_label="loss", series=(_series(epochs, "loss", "loss"),)),
        Chart(
            title=f"Validation {figure}",
            y_label=figure,
            series=(scores,),
            zoom=True,
            mark=(best[1], f"best: {best[0]:.3f}") if best else None,
        ),
        Chart(title="Where an epoch's time goes", y_label="seconds", series=(compute, waiting), kind="bars"),
        Chart(
            title="Sampled edges per second, all trainers",
            y_label="edges / s",
            series=(_series(epochs, "edges/s", "edges_per_second"),),
        ),
        Chart(
            title="Rows that came from another node",
            y_label="% of rows",
            series=(Series(name=share.name, x=share.x, y=[100 * y for y in share.y]),),
            top=100.0 * max((*share.y, 0.01)),
        ),
    ]
    if parts:
        charts.append(parts_chart(parts))
    return tuple(charts)


def parts_chart(parts: Sequence[Event]) -> Chart:
    """How many edges each partition has inside, and how many are cut."""
    places = [part["part"] for part in parts]
    cut = [part.get("cut_edges", 0) for part in parts]
    inside = [part["edges"] - out for part, out in zip(parts, cut, strict=True)]
    share = sum(cut) / max(sum(cut) + sum(inside), 1)
    return Chart(
        title=f"Partitions: {share:.1%} of the edges are cut",
        y_label="edges",
        x_label="partition",
        series=(Series(name="inside", x=places, y=inside), Series(name="cut", x=places, y=cut)),
        kind="bars",
    )


def _series(epochs: Sequence[Event], name: str, field: str) -> Series:
    """Where an event has the field; an accuracy, for instance, is not measured in every epoch."""
    points = [(event["epoch"], event[field]) for event in epochs if event.get(field) is not None]
    return Series(name=name, x=[float(x) for x, _ in points], y=[float(y) for _, y in points])
