"""A trainer whose model learns rows that lie at two servers on this machine: what the model takes, what its data does, and both.

    model      forward, backward and the optimisers' steps, on rows that are there; nothing is loaded
    data       batches of a loader and the rows of their nodes, nothing is computed
    in turn    a training loop: the rows of a batch are read when the model asks for them
    ahead      the same with `ReadAhead`: a thread makes the next batch and reads its rows meanwhile, at most one step old

The model has one thread, so that there is a core for the rest: where it has all of them, nothing can be done beside it.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice, pairwise, repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import halohop
from benchmarks.protocol import Info, Unit, serve, timed
from benchmarks.table_servers import NUM_ROWS, SECRET, WIDTH, divided, serve_tables
from halohop import init, optim
from halohop.typing import NODE

SEEDS, FANOUT, HIDDEN = 2_000, [1, 1, 1, 1], 96
PORT = 5540


def start(end: ExitStack, *, how: str, number: int) -> tuple[Info, Any]:
    """`number` tells contestants apart that run at the same time."""
    os.environ.update(SECRET)
    torch.set_num_threads(1)
    folder = end.enter_context(tempfile.TemporaryDirectory(prefix="halohop-bench-"))
    addresses = [f"127.0.0.1:{PORT + 2 * number + part}" for part in range(2)]
    serve_tables(end, divided(folder, 2), addresses)
    graph = end.enter_context(halohop.connect(addresses))
    embedding = halohop.DistEmbedding(graph, NUM_ROWS, WIDTH, "rows", init.zeros(), node_type=NODE)
    learns = _learner(embedding)
    loader = halohop.NeighborLoader(
        graph, FANOUT, torch.arange(NUM_ROWS), batch_size=SEEDS, shuffle=True, gids=True, num_workers=0
    )
    kept = [(batch.n_gid, embedding(gid=batch.n_gid).detach()) for batch in islice(loader, 4)]
    endless = chain.from_iterable(repeat(loader))  # an epoch begins once in 500 batches
    wanted = {embedding: lambda batch: batch.n_gid}
    batches = iter(halohop.ReadAhead(endless, gid=wanted, staleness=int(how == "ahead")))

    def make(number: int) -> dict[str, float]:
        if how == "model":
            gid, rows = kept[number % len(kept)]
            learns(embedding.gradients.recorded(rows.clone(), gid))
        else:
            gid = next(batches).n_gid
            with torch.set_grad_enabled(how != "data"):
                rows = embedding(gid=gid)
            if how != "data":
                learns(rows)
        return {"batches": 1, "rows": len(gid)}

    def run(count: int) -> Unit:
        return timed(make, range(count))

    return Info(versions={"halohop": halohop.__version__, "torch": torch.__version__}), run


def _learner(embedding: halohop.DistEmbedding) -> Callable[[Tensor], None]:
    """A step of the model and both its optimisers."""
    sizes = (WIDTH, HIDDEN, HIDDEN, 1)
    model = torch.nn.ModuleList(torch.nn.Linear(*pair) for pair in pairwise(sizes))
    dense, sparse = torch.optim.Adam(model.parameters()), optim.SparseAdagrad([embedding], lr=1e-2)

    def learn(x: Tensor) -> None:
        for layer in model:
            x = F.silu(layer(x))
        dense.zero_grad()
        x.square().mean().backward()
        dense.step()
        sparse.step()

    return learn


if __name__ == "__main__":
    with ExitStack() as end:
        serve(partial(start, end))
