"""One small HTML page of figures, charts and tables, readable without network, scripts or fonts, in light and dark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from halohop.launch.pages.chart import Chart, svg
from halohop.launch.terminal.console import printable

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
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 0 4px 14px; vertical-align: bottom; }
th { color: var(--quiet); font-weight: 500; border-bottom: 1px solid var(--line); }
tr + tr td { border-top: 1px solid var(--line); }
td { white-space: nowrap; } .words td { white-space: normal; vertical-align: top; }
.words td:not(:nth-child(2), :nth-child(3)) { overflow-wrap: anywhere; }
.words th, .words td, th:first-child, td:first-child { text-align: left; } th:first-child, td:first-child { padding-left: 0; }
.wide { grid-column: 1 / -1; overflow-x: auto; } section p { font-size: 13px; }
.grid { stroke: var(--line); } .axis { stroke: var(--quiet); } .mark { stroke: var(--quiet); stroke-dasharray: 3 4; }
.s0 { fill: var(--c0); color: var(--c0); } .s1 { fill: var(--c1); color: var(--c1); } .s2 { fill: var(--c2); color: var(--c2); }
polyline.line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A table.

    Args:
        title: the heading.
        head: names of the columns.
        rows: cells.
        note: a sentence or two under the title.
        words: whether cells are words, and not numbers behind a name.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: bool = False


def page(
    *,
    title: str,
    subtitle: str,
    figures: Mapping[str, str],
    charts: Sequence[Chart],
    tables: Sequence[PageTable] = (),
    notes: Mapping[str, str] | None = None,
) -> str:
    """An HTML page.

    Args:
        title, subtitle: the heading and the line under it.
        figures: the few numbers that matter, by their names.
        charts: what to draw.
        tables: what stands below the charts.
        notes: a sentence under the title of some of the charts.
    """
    tiles = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in figures.items())
    cards = "".join(
        f"<section><h2>{escape(chart.title)}</h2>{_note((notes or {}).get(chart.title, ''))}{_key(chart)}{svg(chart)}</section>"
        for chart in charts
    )
    rows = "".join(map(_table, tables))
    return printable(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f'<body><main><h1>{escape(title)}</h1><p class="quiet">{escape(subtitle)}</p>\n'
        f'<div class="figures">{tiles}</div>\n<div class="cards">{cards}{rows}</div></main></body></html>\n'
    )


def _table(table: PageTable) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(value)}</td>' for value in row)}</tr>" for row in table.rows)
    words = ' class="words"' if table.words else ""
    return (
        f'<section class="wide"><h2>{escape(table.title)}</h2>{_note(table.note)}'
        f"<table{words}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></section>"
    )


def _note(text: str) -> str:
    return f'<p class="quiet">{escape(text)}</p>' if text else ""


def _key(chart: Chart) -> str:
    if len(chart.series) < 2:
        return ""
    names = (f'<i class="s{number}"></i>{escape(series.name)}' for number, series in enumerate(chart.series))
    return f'<p class="key">{"".join(names)}</p>'
