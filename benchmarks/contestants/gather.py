"""Rows of the unique nodes of sampled batches, from the mapped feature file: halohop's gather and torch's.

Two threads of halohop gather a batch each; two threads of torch share one batch, as index_select does.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

import halohop
from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.work import SeedBatches
from halohop import ops
from halohop.ops.pool import Pool
from halohop.sampling.batch import Seeds
from halohop.sampling.fanouts import Fanouts
from halohop.sampling.neighbor import NeighborSampler
from halohop.store.disk import map_part, read_manifest
from halohop.typing import NODE

BATCHES = 8


def start(folder: str, fanout: list[int], how: str, threads: int = 1) -> tuple[Info, Any]:
    """`how`: "halohop" or "torch", then "fresh", "out" or (halohop) "pool"."""
    library = how.partition(" ")[0]
    torch.set_num_threads(threads if library == "torch" else 1)
    source = map_part(f"{folder}/parts-1", read_manifest(f"{folder}/parts-1"), 0).nodes[NODE].columns["x"]
    batches = _unique_rows(folder, fanout)
    most = max(map(len, batches))
    own, pool = threading.local(), Pool()

    def buffer(length: int) -> Tensor:
        if not hasattr(own, "buffer"):
            own.buffer = torch.zeros((most, source.shape[1]), dtype=source.dtype)
        return own.buffer[:length]

    def gather(rows: Tensor) -> Tensor:
        match how:
            case "halohop fresh":
                return ops.gather_rows(source, rows, out=torch.empty((len(rows), source.shape[1]), dtype=source.dtype))
            case "halohop out":
                return ops.gather_rows(source, rows, out=buffer(len(rows)))
            case "halohop pool":
                return ops.gather_rows(source, rows, out=pool.empty((len(rows), source.shape[1]), source.dtype))
            case "torch fresh":
                return torch.index_select(source, 0, rows)
            case "torch out":
                return torch.index_select(source, 0, rows, out=buffer(len(rows)))
        raise ValueError(how)

    def make(number: int) -> dict[str, float]:
        got = gather(batches[number % BATCHES])
        return {"batches": 1, "rows": len(got), "bytes": got.nbytes}

    workers = ThreadPoolExecutor(threads) if threads > 1 and library == "halohop" else None

    def run(count: int) -> Unit:
        return timed(make, range(count), workers)

    versions = {"halohop": halohop.__version__, "torch": torch.__version__}
    return Info(versions=versions, widths={"row ids": "int64", "row": f"{source.shape[1]} x float32"}), run


def _unique_rows(folder: str, fanout: list[int]) -> list[Tensor]:
    graph = halohop.open(f"{folder}/parts-1")
    sampler = NeighborSampler(graph, Fanouts.uniform(fanout, graph.schema))
    seeds = [torch.from_numpy(chosen) for chosen in SeedBatches(folder).take(BATCHES)]
    return [
        sampler.sample(Seeds(node_type=NODE, gid=gid, input_id=gid, epoch=0, index=index)).nodes[NODE].gid
        for index, gid in enumerate(seeds)
    ]


if __name__ == "__main__":
    serve(start)
