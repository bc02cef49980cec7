"""Small charts as SVG text: lines over epochs, stacked bars. No library, no script, no font to fetch."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

WIDTH, HEIGHT = 440, 230
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 40
WIDEST_BAR = 72
_MOST_NAMES = 6
_STEPS = (1, 2, 2.5, 5, 10)
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Numbers `y` at places `x`; points that are not finite are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What to draw.

    Args:
        title: the heading.
        y_label, x_label: names of the axes, with their units.
        series: lines side by side, or bars on top of each other.
        kind: lines, or bars; several series of bars are stacked.
        mark: an x to point out, with its text.
        top: the highest value of the y axis; None takes the data's.
        x_names: what stands at the places 0, 1, 2, ... of the x axis, in place of these numbers.
        zoom: the y axis begins where most of the data is, rather than at 0; what lies lower is drawn at its
            foot, with its number.
    """

    title: str
    y_label: str
    series: tuple[Series, ...]
    x_label: str = "epoch"
    kind: Literal["lines", "bars"] = "lines"
    mark: tuple[float, str] | None = None
    top: float | None = None
    x_names: tuple[str, ...] = ()
    zoom: bool = False


def svg(chart: Chart) -> str:
    """The chart as one `<svg>` element; its colours are the page's classes s0, s1, ... and its CSS variables.

    Example:
        >>> svg(Chart(title="Loss", y_label="loss", series=(Series(name="loss", x=(1, 2), y=(0.9, 0.5)),)))[:21]
        '<svg viewBox="0 0 440'
    """
    points = [(x, y) for series in chart.series for x, y in zip(series.x, series.y, strict=True) if math.isfinite(y)]
    if not points:
        return _frame(chart, _text(WIDTH / 2, HEIGHT / 2, "nothing measured", quiet=True))
    bars = chart.kind == "bars"
    values = [y for _, y in points]
    low = _foot(values) if chart.zoom else min(0.0, *values)
    y_ticks = ticks(low, chart.top or max(_heights(chart) if bars else values))
    padding = 0.5 if bars else 0.0
    x_low, x_high = min(x for x, _ in points) - padding, max(x for x, _ in points) + padding
    across = _scale(x_low, x_high, LEFT, WIDTH - RIGHT)
    scaled = _scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)

    def up(value: float) -> float:
        return min(scaled(value), HEIGHT - BOTTOM)

    drawn = [_axes(chart, [x for x in _whole(ticks(x_low, x_high)) if x_low <= x <= x_high], y_ticks, across, up)]
    drawn.append(_bars(chart, across, up) if bars else _lines(chart, y_ticks[0], across, up))
    if chart.mark:
        drawn.append(_mark(across(chart.mark[0]), chart.mark[1]))
    return _frame(chart, "".join(drawn))


def ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers, evenly spaced, from at or below `low` to at or above `high`.

    Example:
        >>> ticks(0, 0.87)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        >>> ticks(3, 13)
        [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
    """
    if high - low <= 1e-9 * max(abs(low), abs(high)):  # one number, as far as a reader can tell
        high = low + (abs(low) or 1.0)
    rough = (high - low) / about
    scale = 10.0 ** math.floor(math.log10(rough))
    step = next(nice for nice in _STEPS if nice * scale >= rough * 0.999) * scale
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def short(value: float) -> str:
    """A number in few characters.

    Example:
        >>> [short(value) for value in (0, 0.25, 12, 1500, 2_340_000)]
        ['0', '0.25', '12', '1.5k', '2.34M']
    """
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"


def _heights(chart: Chart) -> list[float]:
    """The height of each stack."""
    stacks: dict[float, float] = {}
    for series in chart.series:
        for x, y in zip(series.x, series.y, strict=True):
            stacks[x] = stacks.get(x, 0.0) + (y if math.isfinite(y) else 0.0)
    return list(stacks.values())


def _foot(values: Sequence[float]) -> float:
    """Where an axis begins that shows how the better three quarters differ: a run's first epochs are far below the others."""
    ordered = sorted(values)
    return max(ordered[0], ordered[-1] - 2 * (ordered[-1] - ordered[len(ordered) // 4]))


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = high - low
    return lambda value: start + (end - start) * ((value - low) / span if span else 0.5)


def _whole(values: Sequence[float]) -> list[float]:
    return [value for value in values if value == int(value)]


def _axes(
    chart: Chart, xs: Sequence[float], ys: Sequence[float], across: Callable[[float], float], up: Callable[[float], float]
) -> str:
    floor, middle = HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2
    parts = []
    for value in ys:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up(value):.1f}" y2="{up(value):.1f}"/>')
        parts.append(_text(LEFT - 7, up(value) + 4, short(value), anchor="end"))
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor}" y2="{floor}"/>')
    if chart.x_names:
        every = -(-len(chart.x_names) // _MOST_NAMES)
        parts += [_text(across(place), floor + 16, chart.x_names[place]) for place in range(0, len(chart.x_names), every)]
    else:
        parts += [_text(across(value), floor + 16, short(value)) for value in xs]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, chart.x_label, quiet=True))
    turn = f'transform="translate(14 {middle}) rotate(-90)"'
    parts.append(f'<text class="quiet" {turn} text-anchor="middle">{escape(chart.y_label)}</text>')
    return "".join(parts)


def _mark(place: float, text: str) -> str:
    floor = HEIGHT - BOTTOM
    shift, anchor = (5, "start") if place < WIDTH * 0.6 else (-5, "end")
    line = f'<line class="mark" x1="{place:.1f}" x2="{place:.1f}" y1="{TOP}" y2="{floor}"/>'
    return line + _text(place + shift, floor - 8, text, anchor=anchor, quiet=True)


def _text(x: float, y: float, text: str, *, anchor: str = "middle", quiet: bool = False) -> str:
    style = ' class="quiet"' if quiet else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _lines(chart: Chart, foot: float, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    parts = []
    for number, series in enumerate(chart.series):
        points = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(y)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
        parts.append(f'<polyline class="line s{number}" points="{path}"/>')
        for x, y in points if len(points) <= 60 else ():
            parts.append(
                f'<circle class="s{number}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3">'
                f"<title>{escape(series.name)}, {escape(chart.x_label)} {short(x)}: {short(y)}</title></circle>"
            )
        parts += [_text(across(x), up(y) - 8, f"{short(y)} ↓", quiet=True) for x, y in points if y < foot]
    return "".join(parts)


def _bars(chart: Chart, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    width = min((across(1) - across(0)) * 0.72, WIDEST_BAR)
    base: dict[float, float] = {}
    parts = []
    for number, series in enumerate(chart.series):
        for x, y in zip(series.x, series.y, strict=True):
            if not math.isfinite(y):
                continue
            low = base.get(x, 0.0)
            base[x] = low + y
            parts.append(
                f'<rect class="s{number}" x="{across(x) - width / 2:.1f}" y="{up(low + y):.1f}" '
                f'width="{width:.1f}" height="{max(up(low) - up(low + y), 0):.1f}">'
                f"<title>{escape(series.name)}, {escape(chart.x_label)} {short(x)}: {short(y)}</title></rect>"
            )
    return "".join(parts)


def _frame(chart: Chart, content: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(chart.title)}">{content}</svg>'
