"""Pages of the reference that the program writes about itself: the command line, names of metrics, names of other libraries."""

import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from typing import Any

import typer

import halohop
from halohop.datasets import EdgeFiles, NodeFiles, synthetic
from halohop.dgl import names as dgl_names
from halohop.glt import names as glt_names
from halohop.launch.cli import app
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.k8s.options import Options as K8sOptions
from halohop.launch.jobs.ray.options import RayOptions
from halohop.launch.jobs.slurm.options import Options as SlurmOptions
from halohop.launch.options.docstrings import field_texts
from halohop.telemetry import Gauge

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


CONFIGURATION: dict[str, dict[str, type]] = {
    "graph.toml": {"[nodes.TYPE]": NodeFiles, "[edges.SOURCE__NAME__DESTINATION]": EdgeFiles},
    "job.toml": {
        **{"Top level": Job, "[servers]": Servers},
        **{"[slurm]": SlurmOptions, "[k8s]": K8sOptions, "[ray]": RayOptions},
    },
}
"""Files, their tables, and the class that each table becomes."""


def configuration() -> str:
    """The keys of configuration files, from the classes that they become."""
    lines = [
        *("# Configuration files", ""),
        *("A file in TOML, YAML or JSON may have these keys. In a file for `--config` the keys are the command's options.", ""),
    ]
    for file, tables in CONFIGURATION.items():
        lines += [f"## {file}", ""]
        for table, made in tables.items():
            lines += [f"### {table.strip('[]')}" if table == "Top level" else f"### `{table}`", ""]
            lines += ["| key | default | meaning |", "|---|---|---|", *_keys(made), ""]
    return "\n".join(lines)


def _keys(made: type) -> list[str]:
    """A row for each field of a dataclass, with what its docstring says."""
    meanings = field_texts(made)
    return [f"| `{each.name}` | {_default(each)} | {meanings[each.name]} |" for each in fields(made)]


def _default(each: Any) -> str:
    if each.default is MISSING:
        return "" if each.default_factory is not MISSING else "required"
    if each.default in (None, (), "", sys.executable):  # the meaning says what these stand for
        return ""
    return f"`{str(each.default).lower() if isinstance(each.default, bool) else each.default}`"


def metrics() -> str:
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
    f"reference/{write.__name__}.md": write for write in (command_line, configuration, metrics, names_of_dgl, names_of_glt)
}
"""What writes each page."""
