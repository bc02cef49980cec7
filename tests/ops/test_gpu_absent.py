"""Triton is an extra: where torch is built for CPUs, `pip install halohop` brings none."""

import subprocess
import sys

import pytest

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # an import of it fails
import halohop
from halohop.datasets import synthetic
halohop.partition(synthetic("tiny"), "parts", num_parts=2)
with halohop.open("parts") as graph:
    loader = halohop.NeighborLoader(graph, [5, 5], input_nodes="train", batch_size=256)
    assert sum(len(batch.input_id) for batch in loader) > 0
assert not [name for name in sys.modules if name.startswith("halohop.ops.gpu_")]
"""


@pytest.mark.full
def test_without_triton_batches_are_made_on_the_cpu(tmp_path):
    done = subprocess.run([sys.executable, "-c", WITHOUT_TRITON], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
