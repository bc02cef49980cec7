"""DGL's graphbolt: minibatches from its own data pipe, without a process of its own. Threads are torch's intra-op threads."""

import itertools
from typing import Any

import dgl
import dgl.graphbolt as gb
import torch

from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.work import SeedBatches, relations


def start(folder: str, fanout: list[int], threads: int = 1) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    ((indptr, indices),) = relations(folder).values()
    graph = gb.fused_csc_sampling_graph(torch.from_numpy(indptr), torch.from_numpy(indices))
    seeds = SeedBatches(folder)
    batches = itertools.cycle([])

    def make(_: int) -> dict[str, float]:
        batch = next(batches)
        edges = sum(len(layer.sampled_csc.indices) for layer in batch.sampled_subgraphs)
        return {"batches": 1, "edges": edges, "nodes": len(batch.input_nodes)}

    def run(count: int) -> Unit:
        nonlocal batches
        # Its fanouts begin with the hop that is sampled last, and its ids all have the type of the indices.
        nodes = torch.cat([torch.from_numpy(chosen) for chosen in seeds.take(count)]).to(graph.indices.dtype)
        source = gb.ItemSampler(gb.ItemSet(nodes, names="seed_nodes"), batch_size=seeds.batch_size)
        batches = iter(gb.NeighborSampler(source, graph, [torch.tensor([number]) for number in reversed(fanout)]))
        return timed(make, range(count))

    widths = {"indptr": str(indptr.dtype), "indices": str(indices.dtype)}
    return Info(versions={"graphbolt (dgl)": dgl.__version__, "torch": torch.__version__}, widths=widths), run


if __name__ == "__main__":
    serve(start)
