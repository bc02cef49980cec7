"""Machine code that was compiled beforehand, as in an image of a container: nothing can be written where it runs."""

import os
import platform
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import halohop
from halohop.errors import InputError
from halohop.ops import cpu_kept, warmup

SCRIPT = """
import sys, torch
from halohop import ops
from halohop.ops import cpu_index, cpu_jit, cpu_sample, variants
if sys.argv[1] == "one kernel":
    variants.common = lambda: [lambda: ops.repeat_positions(torch.tensor([1]), 0, torch.empty(1, dtype=torch.int64))]
lines = []
ops.warm_up(lines.append)
known = [*vars(cpu_index).values(), *vars(cpu_sample).values()]
stats = [value.stats for value in known if isinstance(value, cpu_jit._Kernel)]
print(*(sum(sum(counts.values()) for counts in kind) for kind in zip(*((each[2], each[1]) for each in stats))), *lines)
"""
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
LEVEL = "x86-64-v2"

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="names a level of x86-64")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder with the package, an empty home, and a folder for machine code."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a folder that cannot be written, by anyone, needs root and unshare")
    shutil.copytree(Path(halohop.__file__).parent, tmp_path / "image/site/halohop", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("home", "kernels"):
        (tmp_path / "image" / folder).mkdir()
    return tmp_path / "image"


def run(image: Path, kernels: str, *, read_only: bool, **env: str) -> tuple[int, int, str]:
    """How many kernels a process compiled and how many it found, and what it announced."""
    named = {"NUMBA_CACHE_DIR": str(image / "kernels"), "NUMBA_CPU_NAME": LEVEL, "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-c", SCRIPT, kernels]
    before = ["unshare", "--mount", "sh", "-c", READ_ONLY, str(image)] if read_only else []
    result = subprocess.run(
        [*before, *command],
        env=os.environ | {"PYTHONPATH": str(image / "site"), "HOME": str(image / "home")} | named | env,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert result.returncode == 0, result.stderr
    compiled, found, *words = result.stdout.split()
    return int(compiled), int(found), " ".join(words)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kernels", ["one kernel", "all kernels"])
def test_what_was_compiled_for_a_named_processor_is_used_where_nothing_can_be_written(image, kernels):
    compiled, _, announced = run(image, kernels, read_only=False)
    assert compiled > 0
    assert announced.startswith("compiling kernels, once per machine")
    again, found, announced = run(image, kernels, read_only=True)
    assert (again, announced) == (0, "")
    assert found > 0  # fewer than were compiled: a kernel that another calls is a part of its machine code
    assert not list((image / "home").iterdir())


@pytest.mark.full
@pytest.mark.timeout(300)
def test_another_processor_than_the_named_one_compiles_for_itself_and_says_so(image):
    run(image, "one kernel", read_only=False)
    compiled, _, announced = run(image, "one kernel", read_only=True, NUMBA_CPU_NAME="generic")
    assert compiled > 0
    assert "in every process: NUMBA_CACHE_DIR=" in announced
    assert "has none for processor generic" in announced


def test_a_processor_that_can_do_less_than_the_named_one_is_refused(monkeypatch):
    has = dict.fromkeys([*cpu_kept._LEVELS["x86-64-v2"], *cpu_kept._LEVELS["x86-64-v3"]], True)
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", lambda: {**has, "avx512f": False})
    monkeypatch.setattr("numba.config.CPU_NAME", "x86-64-v3")
    cpu_kept.check_processor()
    monkeypatch.setattr("numba.config.CPU_NAME", "x86-64-v4")
    monkeypatch.setattr(warmup, "_READY", threading.Event())  # as in a process that has used no kernel
    with pytest.raises(InputError, match=r"NUMBA_CPU_NAME=x86-64-v4, but .* has no avx512bw, avx512cd, avx512dq, avx512f"):
        halohop.ops.warm_up(print)
