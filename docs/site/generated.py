"""Pages of the reference that the program writes about itself: the command line, names of metrics, names of other libraries."""

import tempfile
from collections.abc import Callable, Collection, Mapping
from typing import Any

import typer

import halohop
from halohop.datasets import synthetic
from halohop.dgl import names as dgl_names
from halohop.glt import names as glt_names
from halohop.launch.cli import app

WIDTH = 80
"""Columns of the help of commands."""


def command_line() -> str:
    """The help of every command, as a terminal shows it."""
    group: Any = typer.main.get_command(app)
    width = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    context = group.context_class(group, info_name="halohop", **width, **group.context_settings)
    parts = [
        "# Command line",
        "",
        "`halohop COMMAND --help` prints these texts.",
        "",
        "## halohop",
        "",
        _console(group.get_help(context)),
    ]
    for name, command in group.commands.items():
        inner = command.context_class(command, info_name=name, parent=context, **width, **command.context_settings)
        parts += ["", f"## halohop {name}", "", _console(command.get_help(inner))]
    return "\n".join([*parts, ""])


def _console(text: str) -> str:
    return f"```text\n{text.strip()}\n```"


def metric_names() -> str:
    """What a loader, a graph and a server count, with the names that Prometheus reads."""
    with tempfile.TemporaryDirectory(prefix="halohop-site-") as folder:
        halohop.partition(synthetic("tiny"), folder, num_parts=2, method="random", overwrite=True)
        with halohop.serve(folder) as server, halohop.connect([server.address]) as graph:
            loader = halohop.NeighborLoader(graph, [2], "train", batch_size=64, num_workers=0)
            list(loader)
            sources = {"loader": loader, "graph": graph, "server": server}
            found = {name: source.statistics() for name, source in sources.items()}
    lines = ["# Metrics", "", "`halohop.metrics` and `--metrics` serve these names. Counters only grow, gauges may fall.", ""]
    for source, counts in found.items():
        lines += [f"## Of a {source}", "", "| name | kind |", "|---|---|"]
        lines += [f"| {_metric(name, value)} |" for name, value in sorted(counts.items())]
        lines.append("")
    return "\n".join(lines)


def _metric(name: str, value: float) -> str:
    from halohop.telemetry import Gauge

    return f"`halohop_{name}` | gauge" if isinstance(value, Gauge) else f"`halohop_{name}_total` | counter"


def names_of_dgl() -> str:
    """What works of DGL's names, and what to do without the others."""
    works = {f"dgl.{where}".rstrip("."): found for where, found in dgl_names.WORKS.items()}
    return _names("DGL", works, dgl_names.ACCEPTED, dgl_names.REFUSED)


def names_of_glt() -> str:
    """What works of GLT's names, and what to do without the others."""
    return _names("GLT", glt_names.WORKS, glt_names.ACCEPTED, glt_names.REFUSED)


def _names(library: str, works: Mapping[str, Collection[str]], accepted: Mapping[str, str], refused: Mapping[str, str]) -> str:
    by_text: dict[str, list[str]] = {}
    for name, text in refused.items():
        by_text.setdefault(text, []).append(name)
    rows = [
        *(f"# Names of {library}", "", f"`halohop.{library.lower()}` has these names of {library}.", ""),
        *("## Names that work", "", "| package | names |", "|---|---|"),
        *(f"| `{where}` | {_listed(found)} |" for where, found in works.items()),
        *("", "## Arguments that change nothing", "", "| argument | what happens instead |", "|---|---|"),
        *(f"| `{name}` | {text} |" for name, text in accepted.items()),
        *("", "## Names that are refused", "", "| names | what to do instead |", "|---|---|"),
        *(f"| {_listed(found)} | {text} |" for text, found in by_text.items()),
    ]
    return "\n".join([*rows, ""])


def _listed(found: Collection[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(found, key=str.lower))


PAGES: dict[str, Callable[[], str]] = {
    "reference/command_line.md": command_line,
    "reference/metrics.md": metric_names,
    "reference/names_of_dgl.md": names_of_dgl,
    "reference/names_of_glt.md": names_of_glt,
}
"""What writes each page."""
