"""DGL's graphbolt: minibatches from its own data pipe, without a process of its own. Threads are torch's intra-op threads.

With `time` seeds have the time SEED_TIME, and only edges before it are drawn. It tells nodes of different times apart, and never
recognises one again: that is what disjoint subgraphs are to others.
"""

import itertools
from typing import Any

import dgl
import dgl.graphbolt as gb
import torch

from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.work import SEED_TIME, SeedBatches, edge_column, relations


def start(folder: str, fanout: list[int], threads: int = 1, time: str | None = None) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    ((indptr, indices),) = relations(folder).values()
    columns = None if time is None else {time: torch.from_numpy(edge_column(folder, time))}
    graph = gb.fused_csc_sampling_graph(torch.from_numpy(indptr), torch.from_numpy(indices), edge_attributes=columns)
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
        if time is None:
            source = gb.ItemSampler(gb.ItemSet(nodes, names="seed_nodes"), batch_size=seeds.batch_size)
            batches = iter(gb.NeighborSampler(source, graph, [torch.tensor([number]) for number in reversed(fanout)]))
        else:
            items = gb.ItemSet((nodes, torch.full(nodes.shape, SEED_TIME)), names=("seed_nodes", "timestamp"))
            source = gb.ItemSampler(items, batch_size=seeds.batch_size)
            numbers = [torch.tensor([number]) for number in reversed(fanout)]
            batches = iter(gb.TemporalNeighborSampler(source, graph, numbers, edge_timestamp_attr_name=time))
        return timed(make, range(count))

    widths = {"indptr": str(indptr.dtype), "indices": str(indices.dtype)}
    return Info(versions={"graphbolt (dgl)": dgl.__version__, "torch": torch.__version__}, widths=widths), run


if __name__ == "__main__":
    serve(start)
