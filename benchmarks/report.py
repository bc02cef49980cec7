"""A run's record as a page: what was run where, a table with spread, the comparisons with their bars, and a plot."""

import json
from pathlib import Path
from typing import Any

from benchmarks.paths import DOCS, RESULTS
from benchmarks.statistics import Spread, disagreement, memory_share, milliseconds, per_batch, rates, ratio

Record = dict[str, Any]


def save(record: Record, name: str) -> Path:
    """Writes JSON, Markdown and the plot under .bench/results."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    stem = RESULTS / f"{name}-{record['graph']}-{record['date'].replace(':', '').replace('+0000', 'Z')}"
    path = stem.with_name(f"{stem.name}.json")
    path.write_text(json.dumps(record, indent=1))
    write_page(record, stem)
    return path


def publish(record: Record, name: str) -> Path:
    """Writes the page and the plot into docs/benchmarks."""
    DOCS.mkdir(parents=True, exist_ok=True)
    write_page(record, DOCS / name)
    return DOCS / f"{name}.md"


def write_page(record: Record, stem: Path) -> None:
    plotted = plot(record, stem.with_name(f"{stem.name}.svg"))
    stem.with_name(f"{stem.name}.md").write_text(markdown(record, f"{stem.name}.svg" if plotted else None))


def markdown(record: Record, picture: str | None = None) -> str:
    lines = [f"# {record['title']}", ""]
    lines += [f"> **{warning}**\n" for warning in record.get("warnings", [])]
    rounds = len(next(iter(record["contestants"].values()))["units"])
    lines += [f"{record['date']}, graph `{record['graph']}`, medians of {rounds} units of {record['unit']} batches, in turn.", ""]
    lines += ["; ".join(f"{key}: {value}" for key, value in record["machine"].items()) + ".", ""]
    lines += [f"{remark}\n" for remark in record["remarks"]]
    if picture:
        lines += [f"![{record['title']}]({picture})", ""]
    lines += [*_table(record), "", *_comparisons(record), ""]
    lines += [f"Absent: {name} ({why})." for name, why in record["absent"].items()]
    lines += ["", "Versions and widths of ids:", "", *_versions(record), ""]
    return "\n".join(lines)


def _table(record: Record) -> list[str]:
    measure = record["measure"]
    known = record["contestants"]
    first = next(iter(known.values()))["units"][0]["counts"]
    parts = [name.removesuffix("_seconds") for name in first if name.endswith("_seconds")]
    shares = {name: memory_share(record, name) for name in known}
    head = [
        "contestant",
        "ms a batch",
        "quartiles",
        "least",
        *(f"{part} ms" for part in parts),
        f"{measure} a batch",
        f"{measure}/s",
    ]
    if any(shares.values()):
        head.append("share of memory's limit")
    rows = [head, ["---", *["---:"] * (len(head) - 1)]]
    for name, contestant in known.items():
        counted = measure if not contestant["entry"]["is_limit"] else "lines" if "lines" in name else "rows"
        time, rate = Spread.of(milliseconds(contestant)), Spread.of(rates(contestant, counted))
        row = [name, f"{time.median:.2f}", f"{time.q1:.2f} to {time.q3:.2f}", f"{time.low:.2f}"]
        row += [f"{Spread.of(milliseconds(contestant, part)).median:.2f}" for part in parts]
        row += [_quantity(per_batch(contestant, counted)), _quantity(rate.median)]
        if any(shares.values()):
            share = shares[name]
            row.append("" if share is None else f"{share:.0%}")
        rows.append(row)
    return ["| " + " | ".join(row) + " |" for row in rows]


def _comparisons(record: Record) -> list[str]:
    rows = ["| comparison | times as fast | quartiles | bar | |", "|---|---:|---:|---:|---|"]
    for item in record["comparisons"]:
        spread = ratio(record, item["entry"], item["versus"])
        if spread is None:
            continue
        if not item.get("other_batches") and (reason := disagreement(record, item["entry"], item["versus"])):
            rows.append(f"| {item['entry']} / {item['versus']} | | | | {reason} |")
            continue
        bar = item["bar"]
        verdict = "" if bar is None else "reached" if spread.median >= bar else "**missed**"
        rows.append(
            f"| {item['entry']} / {item['versus']} | {spread.median:.2f} | {spread.q1:.2f} to {spread.q3:.2f} "
            f"| {'' if bar is None else f'{bar:.2f}'} | {verdict} |"
        )
    return rows


def _versions(record: Record) -> list[str]:
    told: dict[str, list[str]] = {}
    for name, contestant in record["contestants"].items():
        info = contestant["info"]
        text = ", ".join(f"{key} {value}" for key, value in {**info["versions"], **info["widths"]}.items())
        told.setdefault(text, []).append(name)
    return [f"- {text}: {'; '.join(names)}" for text, names in told.items()]


def _quantity(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def plot(record: Record, path: Path) -> bool:
    """Bars of what was done in a second, whiskers from quartile to quartile; False if nothing was, or matplotlib is missing."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter
    except ImportError:
        return False
    shown = {name: c for name, c in record["contestants"].items() if not c["entry"]["is_limit"]}
    if not shown:
        return False
    spreads = [Spread.of(rates(contestant, record["measure"])) for contestant in shown.values()]
    figure = Figure(figsize=(8, 0.9 + 0.32 * len(shown)), layout="constrained")
    axes = figure.subplots()
    middle = [spread.median for spread in spreads]
    whiskers = [[s.median - s.q1 for s in spreads], [s.q3 - s.median for s in spreads]]
    colours = ["#d95f02" if name.startswith(("halohop", "samples", "batches")) else "#7a8899" for name in shown]
    axes.barh(list(shown), middle, xerr=whiskers, color=colours, error_kw={"capsize": 2, "elinewidth": 1})
    for place, spread in enumerate(spreads):
        axes.annotate(
            _quantity(spread.median), (spread.q3, place), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(spread.q3 for spread in spreads))
    axes.set_xlabel(f"{record['measure']} a second (median, quartiles); {record['graph']}, {record['date'][:10]}")
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.spines[["top", "right"]].set_visible(False)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "halohop"}):  # text as text: a tenth of the size
        figure.savefig(path, metadata={"Date": None})
    return True
