"""A step of Adam on 20,000 rows of 64 float32, of a million, that lie at two servers on this machine.

    step, gids         rows are looked up, and their gradients sent to the owners, who change rows and state
    transfers, gids    rows and both moments are read, changed by the trainer, and written back: six transfers

"gids": a batch says where its rows lie. "ids": they are named by the user's ids, and located each time that they are named.
Gradients are there already: no model is computed.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor

import halohop
from benchmarks.protocol import Info, in_turn, serve
from benchmarks.table_servers import NUM_ROWS, SECRET, WIDTH, batches_of, divided, serve_tables
from halohop import init, optim
from halohop.typing import NODE

TOUCHED = 20_000
PORT = 5520
LR, BETA1, BETA2, EPS = 1e-3, 0.9, 0.999, 1e-8


def start(end: ExitStack, *, how: str, number: int) -> tuple[Info, Any]:
    """`number` tells contestants apart that run at the same time."""
    os.environ.update(SECRET)
    torch.set_num_threads(1)
    folder = end.enter_context(tempfile.TemporaryDirectory(prefix="halohop-bench-"))
    addresses = [f"127.0.0.1:{PORT + 2 * number + part}" for part in range(2)]
    serve_tables(end, divided(folder, 2), addresses)
    graph = end.enter_context(halohop.connect(addresses))
    batches, grads = batches_of(TOUCHED), torch.randn(TOUCHED, WIDTH)
    kind, by_gid = how.split(", ")[0], how.endswith("gids")
    if by_gid:
        batches = [graph.locate(ids) for ids in batches]
    step = (_stepping if kind == "step" else _transferring)(graph, grads, by_gid=by_gid)

    versions = {"halohop": halohop.__version__, "torch": torch.__version__}
    return Info(versions=versions), in_turn(step, batches, {"batches": 1, "rows": TOUCHED})


def _stepping(graph: halohop.Graph, grads: Tensor, *, by_gid: bool) -> Callable[[Tensor], None]:
    embedding = halohop.DistEmbedding(graph, NUM_ROWS, WIDTH, "rows", init.zeros(), node_type=NODE)
    optimizer = optim.SparseAdam([embedding], lr=LR, betas=(BETA1, BETA2), eps=EPS)

    def step(ids: Tensor) -> None:
        rows = embedding(gid=ids) if by_gid else embedding(ids)
        rows.backward(grads)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _transferring(graph: halohop.Graph, grads: Tensor, *, by_gid: bool) -> Callable[[Tensor], None]:
    tables = [halohop.DistTensor(graph, (NUM_ROWS, WIDTH), name=name, node_type=NODE) for name in ("rows", "mean", "square")]
    steps = 0

    def read(table: halohop.DistTensor, ids: Tensor) -> Tensor:
        return graph.tables.read(table.name, ids) if by_gid else table[ids]

    def write(table: halohop.DistTensor, ids: Tensor, rows: Tensor) -> None:
        if by_gid:
            graph.tables.write(table.name, ids, rows)
        else:
            table[ids] = rows

    def step(ids: Tensor) -> None:
        nonlocal steps
        steps += 1
        rows, m, v = (read(table, ids) for table in tables)
        m.lerp_(grads, 1 - BETA1)
        v.mul_(BETA2).addcmul_(grads, grads, value=1 - BETA2)
        size = LR * (1 - BETA2**steps) ** 0.5 / (1 - BETA1**steps)
        rows.addcdiv_(m, v.sqrt().add_(EPS), value=-size)
        for table, changed in zip(tables, (rows, m, v), strict=True):
            write(table, ids, changed)

    return step


if __name__ == "__main__":
    with ExitStack() as end:
        serve(partial(start, end))
