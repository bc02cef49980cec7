"""What the face of GLT costs: ``python -m benchmarks.glt_face [SIZE]``, a minute or two.

An epoch through `halohop.glt`'s NeighborLoader and through halohop's loader below it, in turn, of the same graph, seeds and
columns. Batches are made one by one in the thread that is measured, so its CPU time is all that they take, on a busy machine too.
Without a model; a model makes the share smaller. The bar is 3 %.
"""

import argparse
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch_geometric.data import Data, HeteroData

import halohop
import halohop.glt as glt
from benchmarks import machine
from benchmarks.statistics import Spread
from halohop.datasets import synthetic
from halohop.glt.batches import options_of
from halohop.typing import EDGE, NODE

BATCH, BAR = 1024, 0.03


def prepared(size: str, edge_dir: str, typed: bool) -> tuple[glt.data.Dataset, torch.Tensor, Any]:
    """A Dataset, ids of its seeds, and what loaders take for them."""
    tables = synthetic(size)
    nodes, edges = tables.nodes[NODE], tables.edges[EDGE]
    ends, x, y = torch.stack([edges.src.long(), edges.dst.long()]), nodes.columns["x"], nodes.columns["y"]
    seeds = nodes.columns["train_mask"].nonzero().view(-1)
    dataset = glt.data.Dataset(edge_dir=edge_dir)
    if typed:  # two types of the same nodes, which three relations join
        relations = {("a", "to", "a"): ends, ("a", "to", "b"): ends, ("b", "rev_to", "a"): ends.flip(0)}
        dataset.init_graph(relations, graph_mode="CPU")
        dataset.init_node_features({"a": x, "b": x})
        dataset.init_node_labels({"a": y})
        return dataset, seeds, ("a", seeds)
    dataset.init_graph(ends, graph_mode="CPU")
    dataset.init_node_features(x)
    dataset.init_node_labels(y)
    return dataset, seeds, seeds


def epoch(loader: Iterable[Data | HeteroData], batches: int) -> float:
    """Milliseconds of CPU time for so many batches."""
    begin = time.thread_time()
    made: Iterator[Any] = iter(loader)
    for _ in range(batches):
        next(made)
    return 1e3 * (time.thread_time() - begin)


def compare(name: str, dataset: glt.data.Dataset, inputs: Any, fanouts: list[int], rounds: int, batches: int) -> None:
    how: dict[str, Any] = {"batch_size": BATCH, "shuffle": True, "seed": 0, "num_workers": 0}
    face = glt.loader.NeighborLoader(dataset, fanouts, inputs, with_edge=True, **how)
    kind = inputs[0] if isinstance(inputs, tuple) else None
    columns = options_of(dataset.halohop_graph, kind, with_edge=True)
    below = halohop.NeighborLoader(
        *(dataset.halohop_graph, fanouts, inputs),
        node_columns=columns["node_columns"],
        edge_columns=columns["edge_columns"],
        **how,
    )
    measured = [(epoch(below, batches), epoch(face, batches)) for _ in range(rounds + 1)][1:]  # the first round warms up
    more = Spread.of([mine / theirs - 1 for theirs, mine in measured])
    each = [Spread.of([run[place] / batches for run in measured]).median for place in (0, 1)]
    told = "within the bar" if more.median <= BAR else "above the bar"
    print(
        f"{name:28} below {each[0]:7.2f} ms a batch, face {each[1]:7.2f}: {more.median:+.1%} "
        f"({more.q1:+.1%} to {more.q3:+.1%}), {told}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.glt_face", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("size", nargs="?", default="medium", help="of the synthetic graph: small, medium (default), products")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batches", type=int, default=20, help="of an epoch")
    chosen = parser.parse_args()
    print(", ".join(f"{name}: {value}" for name, value in machine.describe().items()))
    for typed in (False, True):
        for edge_dir in ("in", "out"):
            dataset, seeds, inputs = prepared(chosen.size, edge_dir, typed)
            batches = min(chosen.batches, len(seeds) // BATCH)
            kind = "three relations" if typed else "one"
            for fanouts in ([15, 10, 5], [10, 5]):
                name = f"{kind}, {edge_dir!r}, {fanouts}"
                compare(name, dataset, inputs, fanouts, rounds=chosen.rounds, batches=batches)


if __name__ == "__main__":
    main()
