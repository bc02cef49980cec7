"""halohop: sampled subgraphs, or with `rows` finished batches as the loader hands them over. Two threads make a batch each.

With `rules` neighbours are drawn otherwise than uniformly; seeds have the time SEED_TIME where the rules name times. With `links`
the seeds are edges, each with one negative destination. With `sums` the data set has running sums of weights.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import torch

import halohop
from benchmarks.memory_model import lines_of
from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.work import SEED_TIME, SeedBatches, edge_ends
from halohop.loading.examples import Examples, SeedDataset
from halohop.loading.seeds import Share
from halohop.pyg.link_inputs import link_dataset, read_neg_sampling
from halohop.sampling.batch import Batch
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.draw import Rules

MODELLED = 4  # batches whose cache lines are counted


def start(
    folder: str,
    fanout: list[int],
    expand: Any,
    threads: int = 1,
    rows: bool = False,
    parts: int = 1,
    seed_type: str = "node",
    rules: dict[str, Any] | None = None,
    links: bool = False,
    sums: bool = False,
) -> tuple[Info, Any]:
    torch.set_num_threads(1)
    graph = halohop.open(f"{folder}/parts-{parts}{'-sums' if sums else ''}")
    seeds = SeedBatches(folder, links=links)
    chosen = torch.from_numpy(seeds.seeds)
    pool = ThreadPoolExecutor(threads) if threads > 1 else None
    drawn = Rules(expand=expand, **(rules or {}))
    sampler = NeighborSampler(graph, Fanouts.uniform(fanout, graph.schema), rules=drawn)
    examples = _links(graph, folder, chosen, drawn) if links else _nodes(graph, chosen, seed_type, timed=drawn.time is not None)
    # The same seeds go through the draws of an epoch each time they come round.
    numbers = SeedBatches(folder, links=links)
    numbers.seeds = np.arange(len(chosen))
    loader = None
    if rows:
        nodes = chosen if seed_type == "node" else (seed_type, chosen)
        loader = halohop.NeighborLoader(graph, fanout, nodes, expand=expand, batch_size=seeds.batch_size, run="inline")

    def sample(positions: torch.Tensor) -> Batch:
        index = int(positions[0]) // seeds.batch_size
        return sampler.sample(examples.seeds(0, Share(index=index, positions=positions)))

    def make(positions: torch.Tensor) -> dict[str, float]:
        if loader is not None:
            data = loader(positions)
            return {"batches": 1, "edges": data.num_edges, "nodes": data.num_nodes}
        batch = sample(positions)
        return {"batches": 1, "edges": batch.num_edges, "nodes": sum(len(block.gid) for block in batch.nodes.values())}

    def run(batches: int) -> Unit:
        return timed(make, map(torch.from_numpy, numbers.take(batches)), pool)

    modelled = 0 if rows or parts > 1 or links or rules else MODELLED
    lines = [lines_of(graph, sample(torch.from_numpy(positions))) for positions in numbers.take(modelled)]
    widths = {"indices in store": _width(folder, parts), "ids in batch": "int64"}
    return Info(
        versions={"halohop": halohop.__version__, "torch": torch.__version__, "numba": numba.__version__},
        widths={name: width.replace("torch.", "") for name, width in widths.items()},
        notes={"lines a batch": float(np.mean(lines))} if lines else {},
    ), run


def _nodes(graph: halohop.Graph, raw: torch.Tensor, seed_type: str, *, timed: bool) -> Examples:
    time = torch.full(raw.shape, SEED_TIME) if timed else None
    gid = graph.locate(raw, seed_type)
    return SeedDataset(node_type=seed_type, gid=gid, input_id=torch.arange(len(raw)), time=time)


def _links(graph: halohop.Graph, folder: str, edges: torch.Tensor, rules: Rules) -> Examples:
    ends = torch.from_numpy(edge_ends(folder, edges.numpy()))
    return link_dataset(graph, ends, neg_sampling=read_neg_sampling("triplet", None), rules=rules)


def _width(folder: str, parts: int) -> str:
    from halohop.store.disk import map_part, read_manifest

    part = map_part(f"{folder}/parts-{parts}", read_manifest(f"{folder}/parts-{parts}"), 0)
    return str(next(iter(part.edges.values())).indices.dtype)


if __name__ == "__main__":
    serve(start)
