"""Kernels of a GPU compile for the GPUs that they are written for, without one, and what runs for every row fits registers."""

import json
import os
import subprocess
import sys

import pytest
import triton.language as tl

from tests.support.gpu_compile import TARGETS, Compiled, kernels
from tests.support.gpu_signatures import LAUNCHES


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    """What a process says that compiles all of them; Triton keeps what it has compiled."""
    variables = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tests.support.gpu_compile"]
    done = subprocess.run(command, capture_output=True, text=True, env=variables | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr[-3000:]
    return [Compiled(**json.loads(line)) for line in done.stdout.splitlines()]


def test_every_kernel_has_its_launches_in_the_table():
    assert set(kernels()) == set(LAUNCHES), "tests/support/gpu_signatures.py differs from the kernels of ops/gpu_*.py"
    assert all(LAUNCHES.values())


def test_no_kernel_is_compiled_anew_for_another_number_of_rows():
    """Of an argument that is annotated so Triton makes no constant, and looks neither at its size nor at what divides it."""
    sizes = ("count", "num_out", "num_rows", "num_nodes", "num_src", "step", "last")
    kinds = {
        f"{name}: {argument}": kind
        for name, kernel in kernels().items()
        for argument, kind in kernel.fn.__annotations__.items()
        if argument in sizes
    }
    assert len(kinds) > 30
    assert [argument for argument, kind in kinds.items() if kind is not tl.int64] == []


@pytest.mark.full
def test_every_kernel_compiles_for_every_target(compiled):
    assert len(compiled) == sum(map(len, LAUNCHES.values())) * len(TARGETS)
    assert [f"{one.kernel}[{one.launch}], {one.target}: {one.error}" for one in compiled if one.error] == []
    assert all(one.registers > 0 for one in compiled)


@pytest.mark.full
def test_what_runs_for_every_row_spills_no_registers(compiled):
    hot = [one for one in compiled if LAUNCHES[one.kernel][one.launch].hot and not one.error]
    assert hot
    assert [f"{one.kernel}[{one.launch}], {one.target}: {one.spills} bytes" for one in hot if one.spills] == []


@pytest.mark.full
def test_what_changes_numbers_rounds_as_the_cpu_does(compiled):
    exact = ("gpu_sums.", "gpu_labor.", "gpu_weight_lists.", "gpu_weighted.")
    rounded = [one for one in compiled if one.kernel.startswith(exact) and not one.error]
    assert rounded
    assert [f"{one.kernel}[{one.launch}], {one.target}: {one.loose}" for one in rounded if one.loose] == []
