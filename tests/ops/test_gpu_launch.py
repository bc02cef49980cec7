"""How kernels are launched."""

import re
import subprocess
import threading
from pathlib import Path

import pytest
import torch

from halohop.ops.gpu_launch import launch


class Kernel:
    """Of which Triton loads the machine code when it is first launched: a thread that comes meanwhile finds half of it."""

    def __init__(self) -> None:
        self.loading, self.go_on = threading.Event(), threading.Event()
        self.overlaps = 0

    def __getitem__(self, grid):
        return self.run

    def run(self, *arguments, **options):
        if self.loading.is_set():
            self.overlaps += not self.go_on.is_set()
            return
        self.loading.set()
        self.go_on.wait(0.3)
        self.go_on.set()


def test_threads_launch_one_after_the_other():
    kernel = Kernel()
    threads = [threading.Thread(target=launch, args=(kernel, 1, torch.zeros(1))) for _ in range(2)]
    threads[0].start()
    assert kernel.loading.wait(20)
    threads[1].start()
    for thread in threads:
        thread.join(20)
    assert kernel.overlaps == 0


def test_kernels_get_no_tensors_with_gaps():
    """They know addresses, and nothing of strides."""
    with pytest.raises(AssertionError):
        launch(Kernel(), 1, torch.zeros(2, 2)[:, 0])


def test_what_runs_on_a_gpu_pretends_no_tensor():
    """`make test-gpu` runs these files with kernels that are compiled: they would be given memory of the host."""
    root = Path(__file__).parents[2]
    done = subprocess.run(["make", "--dry-run", "test-gpu"], cwd=root, capture_output=True, text=True, timeout=60, check=True)
    (line,) = re.findall(r"TRITON_INTERPRET=0 .* -m pytest (.*) -m ", done.stdout)
    files = [root / name for name in line.split() if name != f"tests/ops/{Path(__file__).name}"]
    assert len(files) > 10
    assert [path.name for path in files if re.search(r"\bpretended\(", path.read_text())] == []
