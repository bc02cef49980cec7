"""What training on a partitioned data set needs: sizes from the manifest, traffic from sampled batches."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from halohop.access.concentration import SHARES, bin_names, concentration, degree_bins, left_over
from halohop.access.dealing import dealt
from halohop.access.estimates import estimated
from halohop.access.traffic import HostTraffic, traffic
from halohop.cluster.graph import Graph
from halohop.errors import InputError
from halohop.loading.examples import SeedDataset
from halohop.loading.locality import Locality
from halohop.net.open import open_graph
from halohop.pyg.inputs import fanouts_of, seed_dataset
from halohop.sampling.fanouts import Fanouts
from halohop.store.checksums import FileRecord
from halohop.store.disk import held_parts, map_replica, read_manifest
from halohop.store.draw import Rules
from halohop.store.manifest import Manifest, column_file, part_folder, sparse_files
from halohop.store.replica import REPLICAS
from halohop.typing import NodeType, OnProgress, TableKey

COPIED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
"""Shares of a partition's nodes, for the curve of copies."""

PROCESS_BYTES = 490 << 20
"""What a launcher and one trainer take without any graph: docs/start/why.md."""


def needs(
    path: Path,
    fanout: Sequence[int],
    *,
    batch_size: int,
    batches: int,
    hotness: bool,
    progress: OnProgress,
) -> dict[str, Any]:
    """Plain dicts, lists and numbers: what one host for each partition needs for an epoch, whatever the locality.

    Args:
        path: of a data set all of whose partitions are here.
        fanout: neighbours per hop, of every relation.
        batch_size: seeds of a batch.
        batches: how many are sampled for each host and locality.
        hotness: whether access probabilities are computed, which reads the lists once per hop and partition.
        progress: called with the stage, how much of it is done, and of how much.

    Raises:
        InputError: a partition is not here, or fanouts or numbers that cannot work.
    """
    manifest = read_manifest(path)
    here = held_parts(path, manifest)
    if len(here) < manifest.num_parts:
        raise InputError(
            f"{path} has partitions {list(here)} of {manifest.num_parts}, and batches are sampled where all of them are: "
            f"leave out fanout={tuple(fanout)}"
        )
    rows = row_bytes(manifest)
    with open_graph(path) as graph:
        seeds, split = _seeds(graph)
        numbers = fanouts_of(list(fanout), graph.schema)
        dealings = [name for name in get_args(Locality) if name != "blocks" or graph.book.num_blocks]
        localities = {}
        for done, name in enumerate(dealings):
            progress("sample", done, len(dealings))
            found = traffic(
                graph,
                seeds,
                numbers,
                batch_size=batch_size,
                locality=name,
                row_bytes=rows,
                batches=batches,
                copies=[map_replica(path, manifest, part) for part in here],
            )
            localities[name] = _epoch(found)
        progress("sample", len(dealings), len(dealings))
        return {
            "fanout": list(fanout),
            "batch_size": batch_size,
            "batches": batches,
            "seeds": {"type": seeds.node_type, "split": split, "count": len(seeds)},
            "localities": localities,
            "hosts": _sizes(manifest),
            "copies": None if manifest.replicas is None else manifest.replicas.made,
            "process_bytes": PROCESS_BYTES,
            "degrees": _degrees(graph),
            "hotness": _hotness(graph, seeds, numbers, batch_size, progress) if hotness else None,
        }


def row_bytes(manifest: Manifest) -> dict[TableKey, float]:
    """What the columns of a row weigh in each table, in the mean."""
    sizes: dict[TableKey, float] = {}
    for table in manifest.schema.tables:
        spec = manifest.schema.table(table)
        total = sum(
            _array_bytes(manifest.files[file])
            for part in range(manifest.num_parts)
            for name, column in spec.columns.items()
            for file in (sparse_files(part, table, name) if column.sparse else (column_file(part, table, name),))
        )
        sizes[table] = total / max(spec.count, 1)
    return sizes


def _array_bytes(record: FileRecord) -> int:
    return np.dtype(record.dtype).itemsize * math.prod(record.shape)


def _sizes(manifest: Manifest) -> list[dict[str, int]]:
    """By host: bytes on disk, of lists (ids and halo columns with them), of columns, and of copies of others' rows."""
    columns = {
        file
        for table in manifest.schema.tables
        for name, column in manifest.schema.table(table).columns.items()
        for part in range(manifest.num_parts)
        for file in (sparse_files(part, table, name) if column.sparse else (column_file(part, table, name),))
    }
    hosts = []
    for part in range(manifest.num_parts):
        here = {file: record.bytes for file, record in manifest.files.items() if file.startswith(f"{part_folder(part)}/")}
        of_columns = sum(size for file, size in here.items() if file in columns)
        copies = sum(size for file, size in here.items() if file.split("/")[1] == REPLICAS)
        total = sum(here.values())
        hosts.append({"disk": total, "columns": of_columns, "copies": copies, "lists": total - of_columns - copies})
    return hosts


def _seeds(graph: Graph) -> tuple[SeedDataset, str | None]:
    """The training nodes; all nodes of the largest type where there are none. And the name of their split."""
    trained = [name for name in graph.schema.nodes if "train" in graph.schema.splits(name)]
    if trained:
        return seed_dataset(graph, (trained[0], "train")), "train"
    largest = max(graph.schema.nodes, key=lambda name: graph.schema.nodes[name].count)
    return seed_dataset(graph, (largest, None)), None


def _epoch(hosts: Sequence[HostTraffic]) -> dict[str, Any]:
    """Of an epoch: what each host receives of the others, and sends them."""
    rows, remote = sum(host.rows for host in hosts), sum(host.remote_rows for host in hosts)
    return {
        "remote_share": remote / rows if rows else 0.0,
        "rows": rows / len(hosts),
        "remote_rows": remote / len(hosts),
        "bytes": sum(host.remote_bytes * host.steps for host in hosts),
        "hosts": [
            asdict(host)
            | {
                "remote_share": host.remote_share,
                "received": host.remote_bytes * host.steps,
                "sent": sum(other.bytes_from[host.host] * other.steps for other in hosts),
            }
            for host in hosts
        ],
    }


def _degrees(graph: Graph) -> dict[str, Any]:
    """How long the lists of nodes are, all relations together: by type, and how unevenly edges lie over all nodes."""
    lengths: dict[NodeType, torch.Tensor] = {}
    for name, spec in graph.schema.nodes.items():
        lengths[name] = torch.zeros(spec.count, dtype=torch.int64)
        for relation in graph.book.edges:
            if graph.book.list_type(relation) == name:
                lengths[name] += graph.degrees(relation, torch.arange(spec.count))
    bins = {name: degree_bins(lengths[name]) for name in lengths}
    return {
        "bins": bins,
        "names": bin_names(max(map(len, bins.values()))),
        "shares": list(SHARES),
        "curve": concentration(torch.cat(list(lengths.values()))),
    }


def _hotness(graph: Graph, seeds: SeedDataset, fanouts: Fanouts, batch_size: int, progress: OnProgress) -> dict[str, Any]:
    """Which share of the rows the hottest nodes are, and what each host would ask of others if it had copied the hottest."""
    book, num_parts = graph.book, graph.book.num_parts
    deals = dealt(graph, seeds.node_type, seeds.gid, batch_size=batch_size, locality="owner")
    share = sum(spec.count for spec in graph.schema.nodes.values()) / num_parts
    everywhere: torch.Tensor | None = None
    left = []
    for part, batches in enumerate(deals):
        progress("hotness", part, num_parts)
        hot = estimated(graph, batches, fanouts, Rules(), method="vip", epochs=1, seed=0)
        bounds = {name: book.bounds(name)[part : part + 2] for name in hot}
        remote = torch.cat([torch.cat([values[: bounds[name][0]], values[bounds[name][1] :]]) for name, values in hot.items()])
        left.append(left_over(remote, [round(ratio * share) for ratio in COPIED]))
        load = torch.cat(list(hot.values())) * sum(map(batches.number, batches.groups))
        everywhere = load if everywhere is None else everywhere + load
    progress("hotness", num_parts, num_parts)
    assert everywhere is not None
    return {"shares": list(SHARES), "curve": concentration(everywhere), "copied": list(COPIED), "remote_rows_left": left}
