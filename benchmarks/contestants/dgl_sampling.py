"""DGL: blocks from its NeighborSampler, num_workers=0; with `rows` also the features of their source nodes.

With `weight` edges are drawn by their weights; "labor" is its LaborSampler; with `links` the seeds are edges, each with one
negative destination. Every hop draws again for all nodes so far: expand="all".

Threads are OpenMP's: DGL shares one batch among them, which is how it scales in one process. With more than one thread its
NeighborSampler takes a fused kernel, by default; that kernel loses edges where ids are int32 (2.1.0), so it is off there.
"""

from typing import Any

import dgl
import torch

from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.work import SeedBatches, column, edge_column, relations


def start(
    folder: str,
    fanout: list[int],
    ids: str = "int64",
    threads: int = 1,
    rows: bool = False,
    seed_type: str = "node",
    weight: str | None = None,
    labor: bool = False,
    links: bool = False,
) -> tuple[Info, Any]:
    torch.set_num_threads(threads)
    graph = build(folder, ids, formats=("coo", "csc") if links else ("csc",))
    if weight is not None:
        graph.edata[weight] = torch.from_numpy(edge_column(folder, weight))
    # Its lists begin with the hop that is sampled last.
    if labor:
        sampler = dgl.dataloading.LaborSampler(fanout[::-1])
    else:
        sampler = dgl.dataloading.NeighborSampler(fanout[::-1], prob=weight, fused=ids == "int64" and weight is None)
    if links:
        negatives = dgl.dataloading.negative_sampler.Uniform(1)
        sampler = dgl.dataloading.as_edge_prediction_sampler(sampler, negative_sampler=negatives)
    features = torch.from_numpy(column(folder, "x")) if rows else None
    seeds = SeedBatches(folder, links=links)

    def make(chosen: Any) -> dict[str, float]:
        ids = torch.from_numpy(chosen).to(graph.idtype)
        inputs, *_, blocks = sampler.sample(graph, ids if len(graph.ntypes) == 1 else {seed_type: ids})
        if features is not None:
            torch.index_select(features, 0, inputs)
        count = sum(len(ids) for ids in inputs.values()) if isinstance(inputs, dict) else len(inputs)
        return {"batches": 1, "edges": sum(block.num_edges() for block in blocks), "nodes": count}

    def run(batches: int) -> Unit:
        return timed(make, seeds.take(batches))

    return Info(versions={"dgl": dgl.__version__, "torch": torch.__version__}, widths={"all ids": ids}), run


def build(folder: str, ids: str, formats: tuple[str, ...] = ("csc",)) -> Any:
    """The graph, by default with in-edges only, as DGL's guide advises for sampling; edges as seeds need COO, too."""
    dtype = getattr(torch, ids)
    csc = {
        relation: ("csc", (torch.from_numpy(indptr).to(dtype), torch.from_numpy(indices).to(dtype), []))
        for relation, (indptr, indices) in relations(folder).items()
    }
    counts = {relation[2]: len(structure[1][0]) - 1 for relation, structure in csc.items()}
    graph = dgl.heterograph(csc, num_nodes_dict=counts, idtype=dtype).formats(list(formats))
    graph.create_formats_()
    return graph


if __name__ == "__main__":
    serve(start)
