"""A source of a graph on the command line: read and partitioned, with a progress bar, before anything trains on it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halohop.datasets import directions, scales
from halohop.datasets.imports.named import import_owners, is_import
from halohop.datasets.scale import gaps
from halohop.datasets.sources import load_link_graph
from halohop.errors import InputError
from halohop.launch.runs.reading import Reading, tables_of
from halohop.launch.terminal.console import Console
from halohop.launch.terminal.progress import stages
from halohop.partitioning.assigners.assign import Method, chosen
from halohop.partitioning.assigners.defaults import TOLERANCE
from halohop.partitioning.assigners.given import Given
from halohop.partitioning.building.build import check_num_parts, partition
from halohop.partitioning.building.dataset import finished
from halohop.partitioning.building.narrowing import parse_feature_dtype, with_narrow_features
from halohop.partitioning.building.report import Report
from halohop.store.names import MANIFEST
from halohop.store.tables import GraphTables
from halohop.store.writer import check_target
from halohop.typing import EdgeDir, NodeType


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """How a training run partitions a source: see `partition_source`."""

    num_parts: int
    method: str
    undirected: bool = False
    normalize: bool = False


def is_partitioned(path: str | Path) -> bool:
    """Whether a folder is a partitioned data set, or what is left of one."""
    return Path(path, MANIFEST).is_file() or any(Path(path).glob("part-[0-9]*"))


def assigned_by(method: str, files: Sequence[str]) -> Method:
    """What divides a graph: a method, or files that the option --assignment names.

    Raises:
        InputError: both are given, a file for all node types besides those of some, or a type twice.

    Example:
        >>> assigned_by("auto", ["user=users.txt", "item=items.npy"])
        {'user': PosixPath('users.txt'), 'item': PosixPath('items.npy')}
    """
    if not files:
        return method
    if method != "auto":
        raise InputError(f"--assignment and --method {method} both say where nodes go; leave one out")
    if len(files) == 1 and Path(files[0]).exists():  # whatever its name
        return Path(files[0])
    found: dict[NodeType, Given] = {}
    for text in files:
        name, _, file = text.rpartition("=")
        if name in found or not file or (len(files) > 1 and not name):
            raise InputError(f"--assignment {text!r} is not one of several like user=users.npy; name each node type once")
        found[name] = Path(file)
    return found.get("", found)


def partition_source(
    source: str,
    out: Path,
    *,
    num_parts: int | None,
    method: Method,
    seed: int,
    console: Console,
    tolerance: float = TOLERANCE,
    blocks: int | None = None,
    balance_types: bool = False,
    halo: Sequence[str] = (),
    edge_dir: EdgeDir = "in",
    feature_dtype: str | None = None,
    weight_sums: Sequence[str] = (),
    overwrite: bool = False,
    undirected: bool = False,
    normalize: bool = False,
    task: str = "node",
    time_attr: str | None = None,
    memory: str | None = None,
    worker: bool = False,
    check: Callable[[GraphTables], None] | None = None,
) -> Report:
    """Reads a source and partitions it under a progress bar; the options are those of `halohop.partition` and `load_source`.

    A source that does not fit into half of the memory is read chunk by chunk, see `halohop.launch.runs.reading`.
    With the task "link" its edges are split, by `time_attr` where that is given: see `load_link_graph`. Without `num_parts`
    partitions of another library stay as they are, unless a `method` is named; other sources get 2. `check` is called with
    the tables before they are partitioned.
    """
    owners = import_owners(source) if num_parts is None and is_import(source) else None
    num_parts = num_parts or (owners.num_parts if owners else 2)
    division = method
    if owners and method == "auto":
        console.print(f"nodes stay where they are: {num_parts} partitions; --parts or --method divide anew", style="dim")
        division = owners.part
    if worker and (found := finished(out.resolve(), overwrite=overwrite)) is not None:
        console.print(f"{out} is there already, so nothing is left to do", style="dim")
        return found
    if not worker:
        check_target(out, overwrite=overwrite)  # before what may take hours
    said: list[str] = []
    with ExitStack() as stack:
        progress = stack.enter_context(stages(console))
        given: dict[str, Any] = {"seed": seed, "undirected": undirected, "normalize": normalize}
        if task == "link":
            progress("read", 0, 1)
            tables = load_link_graph(source, time_attr=time_attr, **given)
        else:
            reading = tables_of(
                Reading(source=source, **given), out, memory=memory, worker=worker, progress=progress, say=said.append
            )
            tables = stack.enter_context(reading)
        if division == "auto" and chosen("auto") == "fennel" and num_parts > 1:
            console.print('method: fennel; metis cuts fewer edges: pip install "halohop[metis]"', style="dim")
        options: dict[str, Any] = {"halo": halo, "edge_dir": edge_dir, "overwrite": overwrite, "progress": progress}
        options |= {"memory": memory, "worker": worker, "weight_sums": weight_sums}
        options |= {"tolerance": tolerance, "blocks": blocks, "balance_types": balance_types}
        check_num_parts(tables, num_parts, division)
        if check is not None:
            check(tables)
        tables = with_narrow_features(tables, parse_feature_dtype(feature_dtype) if feature_dtype else None)
        report = partition(tables, out, num_parts=num_parts, method=division, seed=seed, **options)
        for line in (*said, *directions(tables), *scales(tables), *gaps(tables)):
            console.print(line, style="dim", soft_wrap=True)
        return report
