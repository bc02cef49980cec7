"""What a partitioned data set is like, and what training on it needs, as a page for people."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from halohop.launch.pages.chart import Chart, Series
from halohop.launch.pages.page import PageTable, page
from halohop.launch.pages.picture import parts_chart
from halohop.launch.pages.summary import Summary
from halohop.launch.terminal.wording import counted, format_seconds
from halohop.memory import format_size

Needs = Mapping[str, Any]

_COUNTED = ("No copies or caches of remote rows are counted.", "Rows that the partitions have copied are not remote.")

_COLOURS = 3  # the page has so many
_LINKS = ((1e9, "1 Gbit/s"), (1e10, "10 Gbit/s"))
_DEALT = {"none": "whole graph", "owner": "partition", "blocks": "block"}
"""Where the seeds of a batch are from."""


def inspect_page(summary: Summary) -> str:
    """An HTML page of what `summarize` says, with the needs of a training run where they were measured."""
    needs: Needs | None = summary.get("needs")
    how = ", ".join(f"{name} {value}" for name, value in summary["partitioned"].items())
    subtitle = f"{counted(summary['num_parts'], 'partition')}, {format_size(summary['bytes'])} on disk, {how}"
    charts = [parts_chart(summary["parts"])] if "cut" in summary else []
    tables = [_parts(summary), _contents(summary)]
    notes: dict[str, str] = {}
    if needs is not None:
        fanout = ",".join(map(str, needs["fanout"]))
        subtitle += f". One host for each; batches of {needs['batch_size']} seeds, {_seeds(needs)}, fanout {fanout}"
        drawn = list(_needs_charts(needs))
        charts += [chart for chart, _ in drawn]
        notes = {chart.title: note for chart, note in drawn}
        tables = [_batches(needs), _hosts(needs), *tables]
    return page(
        title=Path(summary["path"]).resolve().name,
        subtitle=subtitle,
        figures=_figures(summary, needs),
        charts=charts,
        tables=tables,
        notes=notes,
    )


def _figures(summary: Summary, needs: Needs | None) -> dict[str, str]:
    figures = {"edges": f"{sum(spec['count'] for spec in summary['edges'].values()):,}"}
    figures["nodes"] = f"{sum(spec['count'] for spec in summary['nodes'].values()):,}"
    if "cut" in summary:
        figures["edges cut"] = f"{summary['cut']:.1%}"
        figures["nodes, largest over mean"] = f"{summary['node_balance']:.2f}"
        figures["training nodes, largest over mean"] = f"{summary['train_balance']:.2f}"
        figures["edges, largest over mean"] = f"{summary['edge_balance']:.2f}"
    for name, found in (needs or {"localities": {}})["localities"].items():
        figures[f"remote rows, seeds by {_DEALT[name]}"] = f"{found['remote_share']:.1%}"
    return figures


def _needs_charts(needs: Needs) -> Iterator[tuple[Chart, str]]:
    """The charts, each with a sentence about it."""
    places = list(range(len(needs["hosts"])))
    shares = [
        Series(name=_by(name), x=places, y=[100 * host["remote_share"] for host in found["hosts"]])
        for name, found in needs["localities"].items()
    ]
    yield (
        Chart(title="Rows of other hosts", y_label="% of a batch's rows", x_label="host", series=tuple(shares)),
        "By where the seeds of a batch are from: locality= of the loaders.",
    )
    network = [
        Series(name=_by(name), x=places, y=[host["received"] / 1e6 for host in found["hosts"]])
        for name, found in needs["localities"].items()
    ]
    yield (
        Chart(title="Received in an epoch", y_label="MB", x_label="host", series=tuple(network)),
        "Rows, and neighbours that are drawn on other hosts.",
    )
    degrees, hotness = needs["degrees"], needs["hotness"]
    bins = degrees["bins"] if len(degrees["bins"]) <= _COLOURS else {"all types": _added(degrees["bins"].values())}
    columns = range(len(degrees["names"]))
    yield (
        Chart(
            title="Degrees",
            y_label="nodes",
            x_label="edges in the list of a node",
            series=tuple(Series(name=name, x=columns[: len(counts)], y=counts) for name, counts in bins.items()),
            kind="bars",
            x_names=tuple(degrees["names"]),
        ),
        "How many neighbours nodes have.",
    )
    curves = [Series(name="edges", x=_percent(degrees["shares"]), y=_percent(degrees["curve"]))]
    if hotness is not None:
        curves.append(Series(name="rows that batches read", x=_percent(hotness["shares"]), y=_percent(hotness["curve"])))
    yield (
        Chart(title="Hot nodes", y_label="% have", x_label="this % of the nodes, the heaviest first", series=tuple(curves)),
        "The further a curve bends to the upper left, the more a small cache saves.",
    )
    if hotness is not None and len(places) > 1:
        left = hotness["remote_rows_left"]
        mean = [sum(rows[at] for rows in left) / len(left) for at in range(len(hotness["copied"]))]
        yield (
            Chart(
                title="Copies of hot rows",
                y_label="rows of a batch",
                x_label="copied nodes, in % of a partition's own",
                series=(Series(name="remote rows left", x=_percent(hotness["copied"]), y=mean),),
            ),
            "Remote rows of a batch that are left, computed, with seeds by partition.",
        )


def _batches(needs: Needs) -> PageTable:
    rows = []
    for name, found in needs["localities"].items():
        hosts = found["hosts"]
        errors = [host["remote_rows_error"] for host in hosts]
        within = "" if None in errors else f" ± {2 * math.hypot(*errors) / len(errors):,.0f}"
        most = max(max(host["received"], host["sent"]) for host in hosts)
        rows.append(
            (
                _by(name),
                f"{max(host['steps'] for host in hosts):,}",
                f"{found['rows']:,.0f}",
                f"{found['remote_rows']:,.0f}{within}",
                f"{found['remote_share']:.1%}",
                format_size(found["bytes"]),
                *(format_seconds(8 * most / rate) for rate, _ in _LINKS),
            )
        )
    sampled = max(host["sampled"] for found in needs["localities"].values() for host in found["hosts"])
    head = ("seeds by", "batches of an epoch", "rows of a batch", "remote rows", "share", "network, all hosts")
    return PageTable(
        title="An epoch",
        head=(*head, *(f"at {name}" for _, name in _LINKS)),
        rows=rows,
        note=f"The mean of {sampled} sampled batches for each host; ± is two standard errors. The times are those of "
        f"the host with most bytes, if nothing but the link holds it up. {_COUNTED[needs['copies'] is not None]}",
    )


def _hosts(needs: Needs) -> PageTable:
    base = needs["process_bytes"]
    head = ["host", "disk", "lists", "columns", "copies", "memory, rows on disk", "memory, all"]
    rows = []
    for number, host in enumerate(needs["hosts"]):
        sizes = [format_size(host[name]) for name in ("disk", "lists", "columns", "copies")]
        traffic = [
            f"{format_size(found['hosts'][number]['received'])} / {format_size(found['hosts'][number]['sent'])}"
            for found in needs["localities"].values()
        ]
        rows.append([str(number), *sizes, format_size(base + host["lists"]), format_size(base + host["disk"]), *traffic])
    return PageTable(
        title="What each host needs",
        head=[*head, *(f"received / sent, by {_DEALT[name]}" for name in needs["localities"])],
        rows=rows,
        note=f"Memory is for one trainer, with {format_size(base)} for the processes and without model and batches. Less "
        "works: lists and rows are mapped, and what does not fit is read from the disk.",
    )


def _parts(summary: Summary) -> PageTable:
    measured = "cut" in summary
    rows = []
    for part in summary["parts"]:
        row = [str(part["part"]), f"{sum(part['nodes'].values()):,}", f"{part['edges']:,}"]
        if measured:
            cut = f"{part['cut_edges'] / max(part['edges'], 1):.1%}"
            row += [f"{part['train_nodes']:,}", cut, f"{part['halo']:,}", format_size(part["bytes"])]
        rows.append(row)
    head = ["partition", "nodes", "edges", *(["training nodes", "edges cut", "borrowed nodes", "size"] if measured else [])]
    return PageTable(title="Partitions", head=head, rows=rows)


def _contents(summary: Summary) -> PageTable:
    rows = []
    for kind in ("nodes", "edges"):
        for name, spec in summary[kind].items():
            columns = ", ".join(f"{column} {form}" for column, form in (spec["columns"] | spec.get("halo", {})).items())
            splits = ", ".join(f"{split} {count:,}" for split, count in spec.get("splits", {}).items())
            rows.append([name, kind, f"{spec['count']:,}", columns, splits])
    return PageTable(title="Contents", head=["name", "", "count", "columns", "splits"], rows=rows, words=True)


def _seeds(needs: Needs) -> str:
    seeds = needs["seeds"]
    return f"{seeds['count']:,} nodes of type {seeds['type']!r}{' for training' if seeds['split'] else ''}"


def _by(locality: str) -> str:
    return f"{_DEALT[locality]} (locality {locality})"


def _added(counts: Any) -> list[int]:
    rows = list(counts)
    return [sum(row[place] for row in rows if place < len(row)) for place in range(max(map(len, rows)))]


def _percent(shares: Any) -> list[float]:
    return [100 * share for share in shares]
