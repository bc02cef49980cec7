import errno
import itertools
import os
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch_geometric.data import Data

import halohop
from halohop import ops
from halohop.errors import WriteError
from halohop.ops import cpu_jit, cpu_kept, variants, warmup
from tests.support.forked import Forked, run_script

SCRIPT = """
import numba, sys, torch
from halohop import ops
from halohop.ops import cpu_index, cpu_kept, variants
numba.config.reload_config()
cpu_kept.PATIENCE = 600  # whatever else this machine computes
if sys.argv[1] == "one kernel":
    variants.common = lambda: [lambda: ops.repeat_positions(torch.tensor([1]), 0, torch.empty(1, dtype=torch.int64))]
lines = []
ops.warm_up(lines.append)
print(sum(cpu_index.repeat_positions.stats.cache_misses.values()), *lines)
"""


TIMES = (torch.int32, torch.int64, torch.float32, torch.float64)


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    """As if this process had not used any kernel."""
    monkeypatch.setattr(warmup, "_READY", threading.Event())
    monkeypatch.setattr(warmup, "_NEAR_READY", threading.Event())
    monkeypatch.setattr(warmup, "_TABLES_READY", threading.Event())
    monkeypatch.setattr(warmup, "_ANNOUNCED", threading.Event())


def kernels():
    """Those of all modules that have some, by module and name."""
    files = cpu_jit.kernel_files(Path(cpu_jit.__file__).parent)
    modules = [import_module(f"halohop.ops.{path.stem}") for path in files]
    return {
        (module.__name__, name): value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, cpu_jit._Kernel)
    }


def start(cache, kernels):
    return Forked("-c", [SCRIPT, kernels], os.environ | {"NUMBA_CACHE_DIR": str(cache)})


def test_kernels_of_all_modules_are_known():
    assert {"race_by_source", "keep_between", "gather"} <= {name for _, name in kernels()}


def finish(process):
    """How often a process compiled a kernel, and what it announced."""
    ended = process.finish()
    assert ended.returncode == 0, ended.stderr
    compiled, *words = ended.stdout.split()
    return int(compiled), " ".join(words)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kernels", "processes"), [("one kernel", 2), pytest.param("all kernels", 3, marks=pytest.mark.full)])
def test_one_of_several_processes_compiles(tmp_path, kernels, processes):
    """All would, without the lock; and none may find half-written machine code."""
    started = [start(tmp_path, kernels) for _ in range(processes)]
    results = sorted(finish(process) for process in started)
    assert results[:-1] == [(0, "")] * (processes - 1)
    compiled, announced = results[-1]
    assert compiled == (kernels == "one kernel") or compiled == 1  # of several, another process may have compiled this one
    assert announced.startswith("compiling kernels, once per machine: machine code goes to")
    assert finish(start(tmp_path, kernels)) == (0, "")


def test_the_first_batch_of_a_loader_compiles_nothing():
    """What warm_up forgets, the first batch pays for: features, labels, masks, of a graph in memory."""
    around = torch.arange(6)
    data = Data(x=torch.ones(6, 3), y=around, edge_index=torch.stack([around, around.roll(1)]), edge_attr=torch.ones(6, 2))
    data.train_mask = around > 1
    ops.warm_up_near()
    before = compiled()
    loader = halohop.NeighborLoader(data, [3, 2], data.train_mask, batch_size=2, shuffle=True, num_workers=0)
    assert [len(batch.n_id) > 2 for batch in loader] == [True, True]
    assert compiled() == before


def test_everything_can_be_compiled_beforehand():
    """Every variant that the other tests of the door use must be there: what an image has not, each of its processes compiles."""
    for call in itertools.chain(variants.near(), variants.common(), variants.others()):
        call()
    before = compiled()
    for ids in (np.zeros(3, np.int32), np.zeros(3, np.int64)):
        typed = torch.from_numpy(ids)
        ops.bucket(typed, [0, 5], [0])
        ops.build_csc(typed, 4)
        for fanout in (0, 5, 64, 65, -1):
            ops.sample_neighbors(torch.tensor([0, 200]), typed, typed, fanout, 2**64 - 1, replace=fanout == 5)
            for weights in (torch.ones(200), torch.ones(200, dtype=torch.float64)):
                ops.sample_neighbors(torch.tensor([0, 200]), typed, typed, fanout, 0, replace=fanout == 5, weights=weights)
            for weights in (None, torch.ones(200), torch.ones(200, dtype=torch.float64)):
                by_source = ops.Sources(ids=torch.zeros(200, dtype=typed.dtype), shift=torch.zeros(3, dtype=torch.int64))
                ops.sample_neighbors(torch.tensor([0, 200]), typed, typed, fanout, 0, weights=weights, sources=by_source)
        for dtype, via, promise in itertools.product(TIMES, (None, torch.zeros(200, dtype=typed.dtype)), (False, True)):
            times = torch.zeros(200, dtype=dtype)
            for last, excluded in itertools.product((False, True), (None, torch.tensor([3]))):
                past = {"times": times, "via": via, "latest": times[:3], "earliest": times[:3], "times_sorted": promise}
                eligible = ops.Eligible(**past, last=last, excluded=excluded)
                ops.sample_neighbors(torch.tensor([0, 200]), typed, typed, 5, 0, eligible=eligible)
        for dtype in (torch.bool, torch.bfloat16, torch.float32, torch.float64, torch.complex128):
            for width in (1, 3, 4):
                source = torch.zeros(4, width, dtype=dtype)
                ops.scatter_rows(ops.gather_rows(source[:1], typed), typed, source)
        ops.stitch(torch.tensor([1, 0]), torch.tensor([1, 0], dtype=typed.dtype))
        for num_nodes in (10, 2**40):
            relabeler = ops.Relabeler(num_nodes)
            relabeler.start(typed)
            relabeler.add(torch.arange(0, 10, dtype=typed.dtype))
    assert compiled() == before


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Machine code goes to a folder that is empty, but nothing takes long to compile."""
    monkeypatch.setattr(cpu_kept, "folders", lambda: cpu_kept.Folders(written=tmp_path, read=(tmp_path,)))
    monkeypatch.setattr(variants, "common", list)
    return tmp_path


def test_processes_wait_for_a_compiler_no_longer_than_their_patience(elsewhere, monkeypatch):
    """A process that stopped while compiling must not stop the others for ever."""
    monkeypatch.setattr(cpu_kept, "PATIENCE", 0.1)
    lines = []
    with FileLock(elsewhere / f"halohop-{cpu_jit.fingerprint()}.lock"):
        ops.warm_up(lines.append)
    assert len(lines) == 1
    assert "beside another process" in lines[0]
    assert not list(elsewhere.glob("*.warm"))


def test_what_older_versions_left_in_numbas_own_cache_is_removed(elsewhere):
    for name in ("cpu_sample.draw_few-120.py311.nbi", "cpu_sample.draw_few-120.py311.1.nbc", "another.nbi"):
        (elsewhere / name).touch()
    ops.warm_up(lambda line: None)
    assert [path.name for path in elsewhere.iterdir() if path.suffix != ".warm"] == ["another.nbi"]


FIRST_USE = """
import logging, numba, torch
numba.config.reload_config()
logging.basicConfig(format="%(name)s: %(message)s")
logging.getLogger("halohop").setLevel("INFO")
from halohop import ops
ids = torch.tensor([1, 0])
ops.repeat_positions(ids, 0, torch.empty(1, dtype=torch.int64))
ops.Relabeler(2).start(ids)
"""


def test_compiling_at_the_first_use_is_logged_once(tmp_path):
    """Whoever waits for it wants to know why; a process that finds the machine code has nothing to say."""
    for lines in (1, 0):
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        result = run_script(FIRST_USE, env=env)
        assert result.returncode == 0, result.stderr
        assert result.stderr.count("halohop.ops.cpu_kept: compiling cpu_index.repeat_positions and what else") == lines
        assert len(result.stderr.splitlines()) == lines


LOADING = """
import torch
from numba.core.runtime import rtsys
from halohop import ops
from halohop.ops import variants
for call in (*variants.near(), *variants.common(), *variants.of_tables()):
    call()
print(rtsys._init)
"""


def test_loading_machine_code_compiles_nothing_of_numbas_either():
    """Not even what kernels allocate arrays with, which is a part of each; what they call is there."""
    ops.warm_up(lambda line: None)
    ops.warm_up_near(lambda line: None)
    for call in variants.of_tables():
        call()
    result = run_script(LOADING)
    assert (result.returncode, result.stdout, result.stderr) == (0, "False\n", "")


@pytest.mark.full
def test_loaders_import_no_more_than_they_use():
    """What divides graphs and what layers need takes longer to import than a small graph's first batches do to make."""
    script = "import sys, halohop; halohop.NeighborLoader; print(*sorted(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    imported = set(result.stdout.split())
    assert "halohop.pyg.neighbor_loader" in imported
    assert not imported & {"halohop.ops.segments", "halohop.ops.segment_ops", "halohop.partitioning.building.build"}


def test_a_process_that_is_ready_does_nothing(elsewhere, monkeypatch):
    """Every sampler and loader asks for it."""
    calls = []
    monkeypatch.setattr(variants, "common", lambda: calls.append("asked") or [])
    for _ in range(3):
        ops.warm_up(print)
    assert len(calls) == 1


def test_what_other_processes_could_not_compile_is_compiled_here(elsewhere, monkeypatch):
    """A process that is forked to compile ends without a word, so the failure has to be seen where it can be raised."""
    asked = []
    monkeypatch.setattr(warmup, "call_all", lambda calls, *, processes, deadline: asked.append(processes) or len(asked) > 1)
    ops.warm_up(lambda line: None)
    assert asked[1:] == [1]
    assert list(elsewhere.glob("*.warm"))


def test_machine_without_a_cache_directory(monkeypatch):
    monkeypatch.setattr(cpu_kept, "folders", lambda: cpu_kept.Folders(written=None, read=()))
    lines = []
    ops.warm_up(lines.append)
    assert len(lines) == 1
    assert "NUMBA_CACHE_DIR" in lines[0]


@pytest.mark.parametrize("kept", [True, False])
def test_compiling_kernels_of_several_kinds_is_announced_once(elsewhere, monkeypatch, kept):
    """A run compiles several kinds one after the other, with the same line for each."""
    monkeypatch.setattr(variants, "near", list)
    monkeypatch.setattr(variants, "of_tables", list)
    if not kept:
        monkeypatch.setattr(cpu_kept, "folders", lambda: cpu_kept.Folders(written=None, read=()))
    lines = []
    for ready in (ops.warm_up, ops.warm_up_near, ops.warm_up_tables):
        ready(lines.append)
    assert [line.partition(",")[0] for line in lines] == ["compiling kernels"]
    assert len(list(elsewhere.glob("*.warm"))) == 3 * kept


def test_who_names_no_other_place_reads_in_the_log_that_kernels_are_compiled(elsewhere, monkeypatch, caplog):
    monkeypatch.setattr(cpu_kept, "folders", lambda: cpu_kept.Folders(written=None, read=()))
    ops.warm_up()
    assert [(record.name, record.levelname) for record in caplog.records] == [("halohop.ops.warmup", "WARNING")]
    assert "compiling kernels, in every process" in caplog.text


@pytest.mark.parametrize("change", ["numba", "processor"])
def test_fingerprint_follows_what_machine_code_depends_on(change, monkeypatch):
    before = cpu_jit.fingerprint()
    if change == "numba":
        monkeypatch.setattr("numba.__version__", "0.0")
    else:
        monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda: "another")
    assert cpu_jit.fingerprint() != before


def test_a_disk_that_is_full_is_named(elsewhere, monkeypatch):
    """What helps is another folder."""

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(variants, "common", lambda: [full])
    with pytest.raises(
        WriteError, match=rf"cannot write machine code to {elsewhere} .*NUMBA_CACHE_DIR.*: No space left on device"
    ):
        ops.warm_up(print)


def test_a_change_of_any_kernel_module_makes_machine_code_stale(tmp_path, monkeypatch):
    """Also of one that comes new: the list of modules is that of the folder."""
    for path in cpu_jit.kernel_files(Path(cpu_jit.__file__).parent):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(cpu_jit, "__file__", str(tmp_path / "cpu_jit.py"))
    known = [cpu_jit.fingerprint()]
    for path in [*cpu_jit.kernel_files(tmp_path), tmp_path / "cpu_new.py"]:
        with path.open("a") as stream:
            stream.write("# changed\n")
        known.append(cpu_jit.fingerprint())
    assert len(set(known)) == len(known)


def test_nothing_is_compiled_after_warming_up_for_tables():
    for call in variants.of_tables():
        call()
    before = compiled()
    for dtype, shape in itertools.product(ops.FLOATS, [(), (3,), (2, 4)]):
        kept, lid = ops.gradient_dtype(dtype), torch.tensor([3, 0])
        rows, grads = torch.zeros(5, *shape, dtype=dtype), torch.zeros(2, *shape, dtype=kept)
        state = torch.zeros(5, *shape, dtype=kept)
        ops.fill_normal(rows, 2**64 - 1, torch.arange(5), 0.0, 1.0)
        ops.fill_uniform(rows, 0, torch.arange(5), -1.0, 1.0)
        ops.step_sgd(rows, lid, grads, lr=0.1, scale=-1.0)
        ops.step_adagrad(rows, state, lid, grads, lr=0.1, eps=1e-10)
        ops.step_rowwise_adagrad(rows, torch.zeros(5, dtype=kept), lid, grads, lr=0.1, eps=1e-10)
        for steps in (None, torch.zeros(5, dtype=torch.int32)):
            constants = {"lr": 0.1, "eps": 1e-8, "beta1": 0.9, "beta2": 0.999}
            ops.step_adam(rows, state, state.clone(), lid, grads, **constants, step=3, row_steps=steps)
        ids = torch.tensor([2**40, 1])
        ops.sum_of_squares(ops.sum_by_id(ids, grads, mean=True)[1])
        ops.all_finite(ops.sum_by_id([ids, ids], [grads, grads])[1])
        ops.unite([ids, ids], [grads, grads], mean=True)[1].sum_of_squares()
    assert compiled() == before


EVERY = """
from halohop import ops
from halohop.ops import warmup
from tests.ops.test_warmup import kernels
warmup._compile = lambda kind, calls, announce: [call() for call in calls]
ops.compile_kernels()
print(*(name for (_, name), kernel in kernels().items() if not (kernel.signatures or name.startswith("_"))))
"""


def test_every_kernel_is_among_what_is_compiled_beforehand():
    """But for those that other kernels call, which have no machine code of their own."""
    result = run_script(EVERY)
    assert (result.returncode, result.stdout, result.stderr) == (0, "\n", "")


def test_nothing_is_compiled_for_layers_after_everything_was():
    for call in variants.of_layers():
        call()
    before = compiled()
    begins = torch.tensor([0, 1, 3])
    for dtype, ids in itertools.product(ops.SEGMENT_DTYPES, (torch.int32, torch.int64)):
        src, x = torch.tensor([2, 0, 1], dtype=ids), torch.randn(3, 2, 4, dtype=dtype, requires_grad=True)
        scores = ops.segment_add(x[..., 0], x[:2, :, 0], src, begins) + ops.segment_dot(x, x[:2], src, begins)
        share = ops.segment_softmax(scores + ops.segment_gatv2(x, x[:2], x[0], src, begins), begins)
        for reduce, weight in itertools.product(("sum", "mean", "max"), (None, share, share[:, 0])):
            ops.segment_spmm(x, src, begins, reduce=reduce, weight=weight).sum().backward(retain_graph=True)
    assert compiled() == before


def compiled():
    """For which types of arguments this process has each kernel."""
    return {name: sorted(map(str, kernel.signatures)) for name, kernel in kernels().items()}
