"""The benchmark of tables that train: kernels of sparse optimisers."""

from benchmarks.entries import Benchmark, Entry, versus


def tables(threads: list[int]) -> Benchmark:
    """Steps of sparse optimisers, against gathers of the same rows and torch's optimisers."""
    ways = ("gather", *(f"halohop {name}" for name in ("SGD", "Adagrad", "row-wise Adagrad", "Adam")))
    theirs = tuple(f"torch {name}" for name in ("SGD", "Adagrad", "SparseAdam"))
    entries = [Entry(name=how, module="rules", options={"how": how}, group="kernels") for how in (*ways, *theirs)]
    return Benchmark(
        title="Tables that train",
        graph=None,
        measure="rows",
        unit=8,
        entries=entries,
        comparisons=[
            versus("halohop Adam", "gather", 1 / 3),
            versus("halohop Adagrad", "gather"),
            versus("halohop row-wise Adagrad", "gather", 1 / 1.5),
            versus("halohop SGD", "gather"),
            versus("halohop Adam", "torch SparseAdam", 2.0),
            versus("halohop Adagrad", "torch Adagrad"),
            versus("halohop SGD", "torch SGD"),
        ],
        tests=("tests/ops/test_rules.py", "tests/ops/test_sums.py", "tests/ops/test_beginnings.py", "tests/tables"),
        remarks=[
            "Kernels: 50,000 distinct rows of 64 float32, of 1,000,000, in one thread; gradients are there, one for each row. "
            '"gather" copies these rows into a buffer that is used again. torch gets its gradients coalesced.',
        ],
    )
