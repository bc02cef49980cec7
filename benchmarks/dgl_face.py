"""What the face of DGL costs: ``python -m benchmarks.dgl_face [SIZE]``, a minute or two.

An epoch through `halohop.dgl`'s DataLoader and through halohop's loader below it, in turn, of the same graph, seeds, columns and
ids. Batches are made one by one in the thread that is measured, so its CPU time is all that they take, on a busy machine too.
Without a model; a model makes the share smaller. The bar is 5 %.
"""

import argparse
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

import halohop
import halohop.dgl as dgl
from benchmarks import machine
from benchmarks.glt_face import BATCH, epoch
from benchmarks.statistics import Spread
from halohop.datasets import synthetic
from halohop.typing import EDGE, NODE

BAR = 0.05
FANOUTS = [5, 10, 10]  # the input's first, as DGL counts


class Derived(dgl.dataloading.NeighborSampler):
    """A sampler of the user's own class, which draws as the built-in one does."""


class Frontiers(dgl.dataloading.BlockSampler):
    """A sampler of the user's own frontiers."""

    def __init__(self) -> None:
        super().__init__(len(FANOUTS))

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        return dgl.sampling.sample_neighbors(g, seed_nodes, FANOUTS[block_id])


def by_hand(draws: "halohop.records.Draws", seeds: Tensor) -> Any:
    """What both make, by halohop's own functions: ids of the input nodes, and for each layer its edges and their ids."""
    nodes, layers = seeds, list[Any]()
    for fanout in reversed(FANOUTS):
        edges = draws.neighbors(nodes, fanout)
        hop, nodes = halohop.nn.hop_of(edges, nodes)
        layers.insert(0, (hop, edges.edge_id))
    return nodes, seeds, layers


def pairs(g: Any, feat: Tensor, seeds: Tensor) -> dict[str, tuple[Any, Any]]:
    """The loader below and the face's, of each way to make batches."""
    how: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "seed": 0, "num_workers": 0}
    known = halohop.graph(Data(x=feat, edge_index=torch.stack(g.edges())))
    drawn: dict[str, Any] = {"num_neighbors": FANOUTS[::-1], "input_nodes": seeds, "expand": "all", "edge_columns": [], **how}

    def face(sampler: Any) -> Any:
        return dgl.dataloading.DataLoader(g, seeds, sampler, **how)

    def made() -> Any:
        return halohop.FunctionLoader(g.engine, by_hand, seeds, **how)

    built_in = dgl.dataloading.NeighborSampler
    with_x = face(built_in(FANOUTS, prefetch_node_feats=["feat"]))
    return {
        "features come with the batch": (halohop.NeighborLoader(known, node_columns=["x"], **drawn), with_x),
        "no columns": (halohop.NeighborLoader(g.engine, node_columns=[], **drawn), face(built_in(FANOUTS))),
        "a class of the user's": (made(), face(Derived(FANOUTS))),
        "the user's sample_frontier": (made(), face(Frontiers())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dgl_face", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("size", nargs="?", default="medium", help="of the synthetic graph: small, medium (default), products")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, default=20, help="of an epoch")
    chosen = parser.parse_args()
    print(", ".join(f"{name}: {value}" for name, value in machine.describe().items()))
    tables = synthetic(chosen.size)
    nodes, edges = tables.nodes[NODE], tables.edges[EDGE]
    g = dgl.graph((edges.src.long(), edges.dst.long()), num_nodes=nodes.num_nodes)
    g.ndata["feat"] = nodes.columns["x"]
    seeds = nodes.columns["train_mask"].nonzero().view(-1)
    loaders = pairs(g, nodes.columns["x"], seeds)
    batches = min(chosen.batches, len(seeds) // BATCH)
    rounds = [
        {name: (epoch(below, batches), epoch(face, batches)) for name, (below, face) in loaders.items()}
        for _ in range(chosen.rounds + 1)
    ][1:]  # the first round warms up
    for name in loaders:
        more = Spread.of([run[name][1] / run[name][0] - 1 for run in rounds])
        each = [Spread.of([run[name][place] / batches for run in rounds]).median for place in (0, 1)]
        told = "within the bar" if more.median <= BAR else "above the bar"
        print(
            f"{name:28} below {each[0]:7.2f} ms a batch, face {each[1]:7.2f}: {more.median:+.1%} "
            f"({more.q1:+.1%} to {more.q3:+.1%}), {told}",
            flush=True,
        )


if __name__ == "__main__":
    main()
