"""Steps of sparse optimisers on 50,000 rows of 64 float32, of a million: halohop's kernels, torch's optimisers, and a gather.

The rows of a batch are drawn anew for each, distinct and ascending, as an owner of tables has them.
"""

from typing import Any

import torch
from torch import Tensor

import halohop
from benchmarks.protocol import Info, in_turn, serve
from halohop import ops

NUM_ROWS, WIDTH, TOUCHED = 1_000_000, 64, 50_000
BATCHES = 8


def start(how: str, threads: int = 1) -> tuple[Info, Any]:
    """`how`: "gather"; or "halohop" or "torch", then the optimiser."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    library, _, optimizer = how.partition(" ")
    rows, grads = torch.randn(NUM_ROWS, WIDTH), torch.randn(TOUCHED, WIDTH)
    batches = [torch.randperm(NUM_ROWS)[:TOUCHED].sort().values for _ in range(BATCHES)]
    step = _theirs(optimizer, rows, grads) if library == "torch" else _ours(optimizer or "gather", rows, grads)

    versions = {"halohop": halohop.__version__, "torch": torch.__version__}
    return Info(versions=versions, widths={"row ids": "int64", "row": f"{WIDTH} x float32"}), in_turn(
        step, batches, {"batches": 1, "rows": TOUCHED, "bytes": grads.nbytes}
    )


def _ours(how: str, rows: Tensor, grads: Tensor) -> Any:
    first, second = (torch.zeros_like(rows).add_(1e-3) for _ in range(2))
    row_sums, out = torch.full((NUM_ROWS,), 1e-3), torch.zeros_like(grads)
    constants = {"lr": 1e-3, "eps": 1e-8}
    return {
        "gather": lambda lid: ops.gather_rows(rows, lid, out=out),
        "SGD": lambda lid: ops.step_sgd(rows, lid, grads, lr=1e-3),
        "Adagrad": lambda lid: ops.step_adagrad(rows, first, lid, grads, **constants),
        "row-wise Adagrad": lambda lid: ops.step_rowwise_adagrad(rows, row_sums, lid, grads, **constants),
        "Adam": lambda lid: ops.step_adam(rows, first, second, lid, grads, **constants, beta1=0.9, beta2=0.999, step=10),
    }[how]


def _theirs(how: str, rows: Tensor, grads: Tensor) -> Any:
    weight = torch.nn.Parameter(rows)
    optimizer = {"SGD": torch.optim.SGD, "Adagrad": torch.optim.Adagrad, "SparseAdam": torch.optim.SparseAdam}[how](
        [weight], lr=1e-3
    )

    def step(lid: Tensor) -> None:
        weight.grad = torch.sparse_coo_tensor(lid[None], grads, weight.shape, is_coalesced=True)
        optimizer.step()

    return step


if __name__ == "__main__":
    serve(start)
