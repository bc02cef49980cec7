"""What a batch costs in calls and bytes, counted and not timed: `python -m benchmarks.calls [--scale 1]`.

Finished batches (subgraph, features, labels, ids) of the products' shape, made inline.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import halohop
from benchmarks.entries import FANOUT
from benchmarks.graphs import prepare
from benchmarks.work import BATCH_SIZE, SeedBatches
from halohop.ops import cpu_jit, pool

WHATS = ("kernels", "torch", "python", "taken", "taken_bytes", "handed_bytes")
HEADS = ("calls of kernels", "of torch", "of Python", "arrays taken", "MB taken", "MB of the batch", "taken for a byte of it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--batches", type=int, default=8)
    options = parser.parse_args()
    folder = prepare("products", options.scale, parts=(1, 8))
    nodes = torch.cat([torch.from_numpy(seeds) for seeds in SeedBatches(folder).take(options.batches + 2)])
    print(f"means of {options.batches} batches of {BATCH_SIZE} seeds, fanout {FANOUT}\n")
    print(f"| partitions | expand | {' | '.join(HEADS)} |\n|---:|---|{'---:|' * len(HEADS)}")
    for parts in (1, 8):
        for expand in ("new", "all"):
            with halohop.open(f"{folder}/parts-{parts}") as graph:
                loader = halohop.NeighborLoader(graph, FANOUT, nodes, batch_size=BATCH_SIZE, run="inline", expand=expand)
                found = counts(iter(loader), options.batches)
            per = [found[what] / options.batches for what in WHATS]
            shown = [f"{value:,.0f}" for value in per[:4]] + [f"{value / 1e6:.1f}" for value in per[4:]]
            print(f"| {parts} | {expand} | {' | '.join(shown)} | {per[4] / per[5]:.2f} |", flush=True)


def counts(batches: Iterator[Any], number: int) -> Counter[str]:
    """What `number` batches cost, after two that find no memory and no query made before."""
    found: Counter[str] = Counter()
    kept = [next(batches) for _ in range(2)]
    with counted(found):
        for _ in range(number):
            kept[0] = next(batches)
            found["handed_bytes"] += sum(value.nbytes for value in kept[0].to_dict().values() if torch.is_tensor(value))
    return found


@contextmanager
def counted(found: Counter[str]) -> Iterator[None]:
    """Counts calls of kernels, of torch and of Python's functions, and what is taken from pools."""

    within: list[Any] = []

    def taking(take: Any) -> Any:
        def taken(self: Any, shape: Any, dtype: Any) -> Any:
            within.append(take)
            result = take(self, shape, dtype)
            within.pop()
            if not within:  # tensors are made of arrays
                found.update({"taken": 1, "taken_bytes": result.nbytes})
            return result

        return taken

    def calling(kernel: Any) -> Any:
        def called(*arguments: Any) -> Any:
            found["kernels"] += 1
            return kernel(*arguments)

        return called

    class Torch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found["torch"] += 1
            return func(*args, **(kwargs or {}))

    def python(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            found["python"] += 1

    patches = [mock.patch.object(pool.Pool, name, taking(getattr(pool.Pool, name))) for name in ("empty", "array")]
    for path in cpu_jit.kernel_files(Path(cpu_jit.__file__).parent):
        module = import_module(f"halohop.ops.{path.stem}")
        patches += [
            mock.patch.object(module, name, calling(value))
            for name, value in vars(module).items()
            if isinstance(value, cpu_jit._Kernel)
        ]
    for patch in patches:
        patch.start()
    before = sys.getprofile()
    try:
        with Torch():
            sys.setprofile(python)
            yield
    finally:
        sys.setprofile(before)
        for patch in patches:
            patch.stop()


if __name__ == "__main__":
    main()
