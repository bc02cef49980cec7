"""What `halohop inspect` tells about a partitioned data set: from its manifest alone, its masks, and on request every byte."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from halohop.files.aside import leftovers, removal
from halohop.launch.terminal.console import one_line
from halohop.memory import format_size
from halohop.partitioning.building.dataset import work_folder
from halohop.partitioning.building.report import Report
from halohop.store.disk import held_parts, map_part, read_manifest, verify_parts
from halohop.store.manifest import Manifest
from halohop.store.schema import ColumnSpec
from halohop.typing import relation_text

BAR_WIDTH = 16
_BALANCES = (("nodes", "node"), ("train nodes", "train"), ("edges", "edge"))

Summary = dict[str, Any]


def summarize(
    path: str | Path, *, verify: bool = False, progress: Callable[[str, int, int], None] = lambda stage, done, total: None
) -> Summary:
    """Plain dicts, lists and numbers: what `halohop inspect --json` prints.

    Args:
        path: the folder that `halohop.partition` wrote.
        verify: also compare every file of the partitions in this folder with its checksum.
        progress: called with the stage, how many bytes ("verify") or partitions ("read masks") are done, and of how many.

    Raises:
        DatasetError: no such data set, incomplete, of another version, or damaged; names the file.
    """
    path = Path(path)
    folder = path.resolve()
    manifest = read_manifest(path)
    here = held_parts(path, manifest)
    splits: dict[str, dict[str, int]] = {name: dict.fromkeys(manifest.schema.splits(name), 0) for name in manifest.schema.nodes}
    if verify:
        verify_parts(path, progress)
    for done, part in enumerate(here):
        progress("read masks", done, len(here))
        tables = map_part(path, manifest, part).nodes
        for name, counts in splits.items():
            for split in counts:
                mask = tables[name].columns[f"{split}_mask"]
                counts[split] += int((mask.flatten(1).any(1) if mask.dim() > 1 else mask).sum())
    progress("read masks", len(here), len(here))
    return {
        "path": str(path),
        "num_parts": manifest.num_parts,
        "parts_here": list(here),
        "partitioned": dict(manifest.partitioned),
        "edge_dir": manifest.edge_dir,
        "verified": verify,
        "bytes": sum(record.bytes for record in manifest.files.values()),
        "nodes": {
            name: {"count": spec.count, "columns": _columns(spec.columns), "splits": splits[name]}
            for name, spec in manifest.schema.nodes.items()
        },
        "edges": {
            relation_text(relation): {
                "count": spec.count,
                "columns": _columns(spec.columns),
                "halo": _columns(manifest.halo[relation]),
                "ascending": list(manifest.ascending[relation]),
                "weight_sums": dict(manifest.weight_sums[relation]),
            }
            for relation, spec in manifest.schema.edges.items()
        },
        **_quality(manifest),
        "leftovers": {str(left): size for left, size in (leftovers(folder) | leftovers(work_folder(folder))).items()},
    }


def render(summary: Summary) -> RenderableType:
    """The summary as tables and bars for a terminal."""
    return Group(*_render(summary))


def _columns(columns: dict[str, ColumnSpec]) -> dict[str, str]:
    return {name: _form(spec) for name, spec in columns.items()}


def _form(spec: ColumnSpec) -> str:
    form = f"{spec.dtype}{list(spec.shape) if spec.shape else ''}{' sparse' if spec.sparse else ''}"
    return form if spec.stored is None else f"{form} stored as {spec.stored_dtype}"


def _named(columns: dict[str, str]) -> str:
    return ", ".join(f"{column} {form}" for column, form in columns.items())


def _sums(weightless: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count:,} lists without weight)" if count else name for name, count in weightless.items())


def _quality(manifest: Manifest) -> dict[str, Any]:
    """Cut, balance and partitions as they were measured; without a measurement, what the bounds tell."""
    if manifest.report:
        report = Report.from_dict(manifest.report).to_dict()
        return {**report, "parts": [{"part": part, **numbers} for part, numbers in enumerate(report["parts"])]}
    return {
        "parts": [
            {
                "part": part,
                "nodes": {name: bounds[part + 1] - bounds[part] for name, bounds in manifest.node_bounds.items()},
                "edges": sum(bounds[part + 1] - bounds[part] for bounds in manifest.edge_bounds.values()),
            }
            for part in range(manifest.num_parts)
        ]
    }


def _render(summary: Summary) -> Iterator[RenderableType]:
    how = ", ".join(f"{name} {value}" for name, value in summary["partitioned"].items())
    yield Text.assemble(
        (summary["path"], "bold"),
        f"  {summary['num_parts']} partitions, {format_size(summary['bytes'])}",
        (f"  ({how})" if how else "", "dim"),
    )
    if summary["edge_dir"] == "out":
        yield Text("lists of out-edges (edge_dir out): neighbours of a node are those that it has an edge to")
    if len(summary["parts_here"]) < summary["num_parts"]:
        yield Text(f"in this folder: partitions {summary['parts_here']}", style="yellow")
    yield _tables(summary)
    yield _parts(summary)
    if "cut" in summary:
        yield Text.assemble(
            f"{summary['cut']:.1%} of the edges are cut; largest over mean: ",
            ", ".join(f"{name} {summary[f'{key}_balance']:.2f}" for name, key in _BALANCES),
        )
    if "needs" in summary:
        yield _needs(summary["needs"])
    for path, size in summary["leftovers"].items():
        text = f"{path} takes {format_size(size)}: left by a writer that was stopped; if none writes it, {removal(Path(path))}"
        yield Text(text, style="yellow")
    if summary["verified"]:
        yield Text(f"all files of {len(summary['parts_here'])} partitions match their checksums", style="green")


def _tables(summary: Summary) -> Table:
    table = Table(title="Contents", title_justify="left", title_style="bold", box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("nodes, relations", overflow="fold")
    table.add_column("count", justify="right")
    table.add_column("columns", overflow="fold")
    table.add_column("splits", overflow="fold")
    for kind, style in (("nodes", "cyan"), ("edges", "magenta")):
        for name, spec in summary[kind].items():
            columns = [_named(spec["columns"]), *(["halo: " + _named(spec["halo"])] if spec.get("halo") else [])]
            columns += [f"lists ascend by {', '.join(spec['ascending'])}"] if spec.get("ascending") else []
            columns += [f"sums of {_sums(spec['weight_sums'])}"] if spec.get("weight_sums") else []
            splits = ", ".join(f"{split} {count:,}" for split, count in spec.get("splits", {}).items())
            table.add_row(
                Text(one_line(name), style=style),
                f"{spec['count']:,}",
                one_line("; ".join(filter(None, columns))),
                one_line(splits),
            )
    return table


def _parts(summary: Summary) -> Table:
    parts = summary["parts"]
    measured = "cut" in summary
    table = Table(
        title="Partitions", title_justify="left", title_style="bold", box=None, header_style="dim", padding=(0, 2, 0, 0)
    )
    for name in ("part", "nodes", *(("train", "edges", "cut", "halo", "size") if measured else ("edges",))):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(Text.assemble(("inside", "cyan"), ", ", ("cut", "red")) if measured else "", width=BAR_WIDTH, no_wrap=True)
    most = max((part["edges"] for part in parts), default=0)
    for part in parts:
        own = [str(part["part"]), f"{sum(part['nodes'].values()):,}"]
        if measured:
            cut = part["cut_edges"] / max(part["edges"], 1)
            own += [
                f"{part['train_nodes']:,}",
                f"{part['edges']:,}",
                f"{cut:.1%}",
                f"{part['halo']:,}",
                format_size(part["bytes"]),
            ]
        else:
            own += [f"{part['edges']:,}"]
        table.add_row(*own, _bar(part["edges"], part.get("cut_edges", 0), most))
    return table


def _needs(needs: dict[str, Any]) -> Table:
    title = f"An epoch with one host for each partition, fanout {','.join(map(str, needs['fanout']))}"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("locality")
    for name in ("rows of a batch", "remote", "share", "network, all hosts"):
        table.add_column(name, justify="right")
    for name, found in needs["localities"].items():
        rows, remote = f"{found['rows']:,.0f}", f"{found['remote_rows']:,.0f}"
        table.add_row(name, rows, remote, f"{found['remote_share']:.1%}", format_size(found["bytes"]))
    return table


def _bar(edges: int, cut: int, most: int) -> Text:
    """A bar of `edges`, the longest being `most`; its end is the share that is cut."""
    length = round(BAR_WIDTH * edges / most) if most else 0
    outside = round(length * cut / edges) if edges else 0
    return Text.assemble(("█" * (length - outside), "cyan"), ("█" * outside, "red"))
