"""A training run as one small HTML page: figures and charts, readable without network, scripts or fonts."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from halohop.launch.chart import Chart, Series, svg

Event = Mapping[str, Any]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --quiet: #66717e; --line: #e3e8ee; --paper: #f6f8fa; --card: #fff;
        --c0: #2f6fb2; --c1: #e08a3c; --c2: #4f9d69; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --quiet: #97a3b0; --line: #2d3743; --paper: #12171d; --card: #1a212a; --c0: #6ba6e0; --c1: #e8a266; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 28px 20px 48px; }
h1 { font-size: 24px; font-weight: 650; margin: 0; }
h2 { font-size: 15px; font-weight: 650; margin: 0 0 2px; }
p { margin: 2px 0 0; } .quiet { color: var(--quiet); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 12px; margin: 20px 0 12px; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: 12px; }
.cards > *, .figures > * { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.figures b { display: block; font-size: 21px; font-weight: 650; } .figures span, .key { color: var(--quiet); font-size: 13px; }
.key i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin: 0 5px 0 12px; background: currentColor; }
.key i:first-child { margin-left: 0; }
svg { width: 100%; height: auto; display: block; font: 11.5px system-ui, sans-serif; }
svg text { fill: var(--ink); } svg text.quiet { fill: var(--quiet); }
.grid { stroke: var(--line); } .axis { stroke: var(--quiet); } .mark { stroke: var(--quiet); stroke-dasharray: 3 4; }
.s0 { fill: var(--c0); color: var(--c0); } .s1 { fill: var(--c1); color: var(--c1); } .s2 { fill: var(--c2); color: var(--c2); }
polyline.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
"""


def page(*, title: str, subtitle: str, figures: Mapping[str, str], charts: Sequence[Chart]) -> str:
    """An HTML page.

    Args:
        title, subtitle: the heading and the line under it.
        figures: the few numbers that matter, by their names.
        charts: what to draw.
    """
    tiles = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures.items())
    cards = "".join(f"<section><h2>{escape(chart.title)}</h2>{_key(chart)}{svg(chart)}</section>" for chart in charts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f'<body><main><h1>{escape(title)}</h1><p class="quiet">{escape(subtitle)}</p>\n'
        f'<div class="figures">{tiles}</div>\n<div class="cards">{cards}</div></main></body></html>\n'
    )


def training_charts(epochs: Sequence[Event], parts: Sequence[Event] = (), *, figure: str = "accuracy") -> tuple[Chart, ...]:
    """The charts of a training run.

    Args:
        epochs: the run's events "epoch", in order.
        parts: the data set's partitions as `halohop.launch.inspect.summarize` tells of them.
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
        charts.append(_parts_chart(parts))
    return tuple(charts)


def _parts_chart(parts: Sequence[Event]) -> Chart:
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


def _key(chart: Chart) -> str:
    if len(chart.series) < 2:
        return ""
    names = (f'<i class="s{number}"></i>{escape(series.name)}' for number, series in enumerate(chart.series))
    return f'<p class="key">{"".join(names)}</p>'
