"""The benchmark of tables that train: kernels of sparse optimisers, a step over two servers, rows read ahead, two hosts."""

from benchmarks.entries import Benchmark, Entry, versus


def tables(threads: list[int]) -> Benchmark:
    """Steps of sparse optimisers, against gathers of the same rows and torch's optimisers."""
    ways = ("gather", *(f"halohop {name}" for name in ("SGD", "Adagrad", "row-wise Adagrad", "Adam")))
    theirs = tuple(f"torch {name}" for name in ("SGD", "Adagrad", "SparseAdam"))
    entries = [Entry(name=how, module="rules", options={"how": how}, group="kernels") for how in (*ways, *theirs)]
    steps = [f"{how}, {named}" for how in ("step", "transfers") for named in ("gids", "ids")]
    for number, how in enumerate(steps):
        entries.append(Entry(name=how, module="table_step", options={"how": how, "number": number}, group="servers"))
    for number, how in enumerate(("model", "data", "in turn", "ahead")):
        entries.append(Entry(name=how, module="table_ahead", options={"how": how, "number": number}, group="ahead"))
    hosts: dict[str, tuple[str, str]] = {
        "halohop, 2 hosts": ("table_trainers", "ours"),
        "DGL, 2 hosts": ("dgl_trainers", "dgl"),
        "dense copies, 2 hosts": ("dense_trainers", "ours"),
    }
    for name, (module, environment) in hosts.items():
        entries.append(Entry(name=name, module=module, options={"hosts": 2}, group="hosts", environment=environment))
    return Benchmark(
        title="Tables that train",
        graph=None,
        measure="rows",
        unit=2,
        entries=entries,
        comparisons=[
            versus("halohop Adam", "gather", 1 / 3),
            versus("halohop Adagrad", "gather"),
            versus("halohop row-wise Adagrad", "gather", 1 / 1.5),
            versus("halohop SGD", "gather"),
            versus("halohop Adam", "torch SparseAdam", 2.0),
            versus("halohop Adagrad", "torch Adagrad"),
            versus("halohop SGD", "torch SGD"),
            versus("step, gids", "transfers, ids", 4.0),
            versus("step, gids", "transfers, gids"),
            versus("ahead", "model", 1 / 1.15),  # the slower one of what a step has to do
            versus("ahead", "data"),
            versus("ahead", "in turn"),
            versus("halohop, 2 hosts", "DGL, 2 hosts", 3.0),
            versus("halohop, 2 hosts", "dense copies, 2 hosts", 10.0),
        ],
        tests=("tests/ops/test_rules.py", "tests/ops/test_sums.py", "tests/ops/test_beginnings.py", "tests/tables"),
        remarks=[
            "Kernels: 50,000 distinct rows of 64 float32, of 1,000,000, in one thread; gradients are there, one for each row. "
            '"gather" copies these rows into a buffer that is used again. torch gets its gradients coalesced.',
            "Steps and transfers: Adam on 20,000 of these rows, at two servers on this machine; one trainer, which reads rows in "
            "the servers' memory, as trainers beside their servers do. Rows are named by gids, which a batch has, or by ids of "
            "the user, which are located whenever they are named.",
            "Ahead: a trainer whose model has one thread, and two servers on this machine, on two cores. The model's time has "
            "the steps of its optimisers in it, that of the table, too; the data's is a loader's, with the lookups.",
            "Hosts are network namespaces on one machine and share its cores; each has a server with half of the rows, and a "
            "trainer that looks up 10,000 rows a step, with gradients that are there. Dense copies have no servers: "
            "`nn.Embedding`, DDP (gloo) and Adam.",
        ],
    )
