"""What the benchmark of GPUs says without one, and its arithmetic."""

import pytest
import torch

from benchmarks import gpu, gpu_model
from benchmarks.gpu_figures import Figure, cached_limit, table
from benchmarks.gpu_model import A100, H100, Cost, Shape


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    gpu.main([])
    assert capsys.readouterr().out.startswith("no GPU: ")


@pytest.mark.parametrize(
    ("value", "bars", "verdict"),
    [
        (0.8, {"at_least": 0.8}, "yes: at least 0.8"),
        (0.79, {"at_least": 0.8}, "no: at least 0.8"),
        (1.2, {"at_most": 1.2}, "yes: at most 1.2"),
        (1.3, {"at_most": 1.2}, "no: at most 1.2"),
        (3.1e7, {"at_least": 3.2e7}, "no: at least 32,000,000"),
        (1, {}, ""),
    ],
)
def test_bars(value, bars, verdict):
    assert Figure(name="x", value=value, unit="", **bars).verdict == verdict


def test_the_table_has_a_line_for_each_figure():
    lines = list(table([Figure(name="a", value=1234.5, unit="GB/s"), Figure(name="b", value=0.5, unit="", at_least=0.8)]))
    assert lines[2:] == ["| a | 1,234 GB/s | |", "| b | 0.5 | no: at least 0.8 |"]


def test_the_limit_of_rows_is_that_of_the_slower_way():
    assert cached_limit(100, 1.0, within=10, across=1) == 20  # read and written
    assert cached_limit(100, 0.0, within=10, across=1) == 100
    assert cached_limit(100, 0.5, within=10, across=1) == 50
    assert cached_limit(100, 0.99, within=10, across=1) == pytest.approx(19.9)


def test_costs_on_paper_add_up():
    one = Cost(memory=2_000_000, bus=25_000, launches=2, waits=1)
    assert one.seconds(A100) == pytest.approx(1e-6 + 1e-6 + 1e-5 + 2e-5)
    assert (one + one).seconds(A100) == pytest.approx(2 * one.seconds(A100))
    small = Shape(rows=(1,), edges=(2,), nodes=3, row_bytes=33, graph_nodes=5)
    assert gpu_model.rows(small, 0.0) == Cost(memory=3 * 41, bus=3 * 64, launches=gpu_model.ROW_LAUNCHES)
    assert gpu_model.rows(small, 1.0).memory == 3 * 41 + 3 * 64
    near, far = (gpu_model.structure(small, mode) for mode in ("cuda", "zero_copy"))
    assert near.memory - far.memory == far.bus == 4 * 32  # the ends of a list, and two neighbours
    assert gpu_model.structure(small, "cpu").bus == (3 * 2 + 3) * 8
    assert H100.memory > A100.memory
