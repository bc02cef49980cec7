"""The graphs: made once, kept as data sets of halohop, whose arrays are plain .npy files that any peer can read.

    .bench/graphs/products/parts-1/part-0000/edges/node__to__node/{indptr,indices}.npy     what peers load
    .bench/graphs/products/parts-4/                                                        the same graph in four partitions
    .bench/graphs/products/parts-2-metis/                                                  the same, divided by METIS
    .bench/graphs/products/parts-2-metis-dgl/                                              the same as DGL reads it
    .bench/graphs/products/parts-2-metis-copies/                                           with copies for batches of near seeds
    .bench/graphs/events/parts-1-sums/                                                     with running sums of weights
    .bench/graphs/products/{seeds,links}.npy                                               the seeds, the same for everybody

Edges are ordered by destination before anything else, so that an edge's id is its position in CSC for every contestant and none
has to look it up.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import torch

import halohop
from benchmarks import real
from benchmarks.entries import FANOUT
from benchmarks.paths import GRAPHS, ROOT
from benchmarks.peers import dgl_python
from benchmarks.work import BATCH_SIZE
from halohop import ops
from halohop.datasets.synthetic import SIZES, synthetic, synthetic_hetero
from halohop.store.tables import EdgeTable, GraphTables, NodeTable

MAG_PAPERS = 736_389
MAX_SEEDS = 1024 * 256
SEEDED = {"products": "node", "mag": "paper", "events": "node", "cora": "node", "computers": "node"}
"""The graphs that there are, and which of their nodes the seeds are."""

EVENTS_NODES = SIZES["products"].num_nodes // 4
LATEST = 1_000_000
"""Times of edges are whole numbers below it."""


def division(parts: int, method: str) -> str:
    """The name of the graph's folder in so many partitions."""
    return f"parts-{parts}{'-metis' if method == 'metis' and parts > 1 else ''}"


def copies_of(division: str) -> str:
    """The name of a division with copies."""
    return f"{division}-copies"


def folder_of(graph: str, scale: float) -> Path:
    return GRAPHS / (graph if scale == 1 else f"{graph}-{scale:g}")


def prepare(
    graph: str,
    scale: float = 1.0,
    parts: tuple[int, ...] = (1,),
    metis: tuple[int, ...] = (),
    *,
    dgl: bool = False,
    copies: tuple[int, ...] = (),
) -> Path:
    """Makes whatever is missing of a graph, and returns its folder.

    Args:
        graph: "products" or "mag", the shapes of ogbn-products and ogbn-mag; "events", a quarter of products whose edges have
            weights and times; "cora", of Cora's size; or "computers", Amazon Computers, from ``../shared/data``.
        scale: share of its nodes, at the same average degree.
        parts: the numbers of partitions to have it in, divided at random.
        metis: those to have it in divided by METIS, too.
        dgl: have all of them for DGL, too, if its environment is there.
        copies: those of METIS to have with copies, too: of half as many nodes as a partition has, chosen for seeds by block.
    """
    folder = folder_of(graph, scale)
    if not (folder / "parts-1").exists():
        print(f"making {folder.name}, once", flush=True)
        tables = _by_destination(_generate(graph, scale))
        if graph == "events":
            tables = _with_events(tables)
        halohop.partition(tables, folder / "parts-1", num_parts=1, method="random", overwrite=True)
    if not (folder / "links.npy").exists():
        schema = halohop.open(folder / "parts-1").schema
        count = schema.nodes[SEEDED[graph]].count
        np.save(folder / "seeds.npy", np.random.default_rng(1).permutation(count)[:MAX_SEEDS])
        edges = next(iter(schema.edges.values())).count
        np.save(folder / "links.npy", np.random.default_rng(2).integers(edges, size=min(MAX_SEEDS, edges)))
    if graph == "events":
        if not (folder / "parts-1-sums").exists():
            shutil.copytree(folder / "parts-1", folder / "parts-1-sums", copy_function=os.link)
        halohop.add_weight_sums(folder / "parts-1-sums", ["weight"])
    for number, method in [*((number, "random") for number in parts), *((number, "metis") for number in metis)]:
        name = division(number, method)
        if not (folder / name).exists():
            print(f"dividing {folder.name} into {number}, {method}, once", flush=True)
            # At random: no division cuts more edges, so no hop is spread wider. A good division can only be faster.
            halohop.partition(_load(folder / "parts-1"), folder / name, num_parts=number, method=method)
        if dgl and dgl_python() is not None and not (folder / f"{name}-dgl").exists():
            print(f"writing {folder.name} in {number}, {method}, for DGL, once", flush=True)
            subprocess.run([dgl_python() or "", "-m", "benchmarks.dgl_parts", folder, name], cwd=ROOT, check=True)
    for number in copies:
        _copy(folder, division(number, "metis"))
    return folder


def _copy(folder: Path, name: str) -> None:
    if (folder / copies_of(name)).exists():
        return
    print(f"making copies in {folder.name} in {name}, once", flush=True)
    wanted = halohop.Replicas(
        fanouts=FANOUT,
        batch_size=BATCH_SIZE,
        ratio=0.5,
        seeds=torch.from_numpy(np.load(folder / "seeds.npy")),
        locality="blocks",
        lists=True,
    )
    made = folder / f"{copies_of(name)}-unfinished"
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(folder / name, made, copy_function=os.link)
    halohop.add_replicas(made, wanted)
    made.rename(folder / copies_of(name))


def _generate(graph: str, scale: float) -> GraphTables:
    if graph == "products":
        return synthetic("products", num_nodes=round(SIZES["products"].num_nodes * scale))
    if graph == "events":
        return synthetic("products", num_nodes=round(EVENTS_NODES * scale))
    if graph == "cora":
        return synthetic(None, num_nodes=2_708, avg_degree=10_556 / 2_708, num_classes=7, num_features=1_433)
    if graph == "computers":
        return real.read("computers")
    return synthetic_hetero(round(MAG_PAPERS * scale), num_features=128)


def _by_destination(tables: GraphTables) -> GraphTables:
    edges = {}
    for relation, table in tables.edges.items():
        indptr, row = ops.build_csc(table.dst, tables.nodes[relation[2]].num_nodes)
        edges[relation] = EdgeTable(src=ops.gather_rows(table.src, row), dst=_destinations(indptr))
    return GraphTables(nodes=tables.nodes, edges=edges)


def _with_events(tables: GraphTables) -> GraphTables:
    """Edges with weights, times in any order, and times that ascend in every list, as in a log of events."""
    ((relation, table),) = tables.edges.items()
    random = np.random.default_rng(3)
    time = random.integers(LATEST, size=len(table.dst))
    list_and_time = np.sort(table.dst.numpy().astype(np.int64) * LATEST + time)
    columns = {
        "weight": torch.from_numpy(1 - random.random(len(time), dtype=np.float32)),  # in (0, 1]
        "time": torch.from_numpy(time),
        "arrival": torch.from_numpy(list_and_time % LATEST),
    }
    nodes = {name: NodeTable(num_nodes=table.num_nodes) for name, table in tables.nodes.items()}
    return GraphTables(nodes=nodes, edges={relation: EdgeTable(src=table.src, dst=table.dst, columns=columns)})


def _destinations(indptr: torch.Tensor) -> torch.Tensor:
    return torch.arange(len(indptr) - 1, dtype=torch.int32).repeat_interleave(indptr.diff())


def _load(folder: Path) -> GraphTables:
    """The tables of a graph in one partition; columns stay mapped."""
    from halohop.store.disk import map_part, read_manifest

    part = map_part(folder, read_manifest(folder), 0)
    return GraphTables(
        nodes={name: NodeTable(num_nodes=nodes.num_nodes, columns=nodes.columns) for name, nodes in part.nodes.items()},
        edges={relation: EdgeTable(src=edges.indices, dst=_destinations(edges.indptr)) for relation, edges in part.edges.items()},
    )
