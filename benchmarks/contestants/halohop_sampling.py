"""halohop: sampled subgraphs, or with `rows` finished batches as the loader hands them over. Two threads make a batch each."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import torch

import halohop
from benchmarks.memory_model import lines_of
from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.work import SeedBatches
from halohop.sampling.batch import Batch, Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler, Rules

MODELLED = 4  # batches whose cache lines are counted


def start(
    folder: str, fanout: list[int], expand: Any, threads: int = 1, rows: bool = False, parts: int = 1, seed_type: str = "node"
) -> tuple[Info, Any]:
    torch.set_num_threads(1)
    graph = halohop.open(f"{folder}/parts-{parts}")
    seeds = SeedBatches(folder)
    pool = ThreadPoolExecutor(threads) if threads > 1 else None
    sampler = NeighborSampler(graph, Fanouts.uniform(fanout, graph.schema), rules=Rules(expand=expand))
    # The same seeds go through the draws of an epoch each time they come round.
    gids = graph.locate(torch.from_numpy(seeds.seeds), seed_type)
    numbers = SeedBatches(folder)
    numbers.seeds = np.arange(len(seeds.seeds))
    loader = halohop.NeighborLoader(
        graph, fanout, (seed_type, torch.from_numpy(seeds.seeds)) if seed_type != "node" else torch.from_numpy(seeds.seeds),
        expand=expand, batch_size=seeds.batch_size, run="inline",
    )  # fmt: skip

    def sample(positions: torch.Tensor) -> Batch:
        index = int(positions[0]) // seeds.batch_size
        return sampler.sample(Seeds(node_type=seed_type, gid=gids[positions], input_id=positions, epoch=0, index=index))

    def make(positions: torch.Tensor) -> dict[str, float]:
        batch = sample(positions)
        return {"batches": 1, "edges": batch.num_edges, "nodes": sum(len(block.gid) for block in batch.nodes.values())}

    def make_with_rows(positions: torch.Tensor) -> dict[str, float]:
        data = loader(positions)
        return {"batches": 1, "edges": data.num_edges, "nodes": data.num_nodes}

    def run(batches: int) -> Unit:
        return timed(make_with_rows if rows else make, map(torch.from_numpy, numbers.take(batches)), pool)

    lines = [
        lines_of(graph, sample(torch.from_numpy(positions))) for positions in numbers.take(0 if rows or parts > 1 else MODELLED)
    ]
    widths = {"indices in store": _width(folder, parts), "ids in batch": str(sample(torch.arange(1)).nodes[seed_type].gid.dtype)}
    return Info(
        versions={"halohop": halohop.__version__, "torch": torch.__version__, "numba": numba.__version__},
        widths={name: width.replace("torch.", "") for name, width in widths.items()},
        notes={"lines a batch": float(np.mean(lines))} if lines else {},
    ), run


def _width(folder: str, parts: int) -> str:
    from halohop.store.disk import map_part, read_manifest

    part = map_part(f"{folder}/parts-{parts}", read_manifest(f"{folder}/parts-{parts}"), 0)
    return str(next(iter(part.edges.values())).indices.dtype)


if __name__ == "__main__":
    serve(start)
