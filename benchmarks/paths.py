"""Where things lie. Everything that a benchmark makes goes into ``.bench``, which git ignores."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCH = ROOT / ".bench"
GRAPHS = BENCH / "graphs"
LOGS = BENCH / "logs"
RESULTS = BENCH / "results"
DOCS = ROOT / "docs" / "benchmarks"

DGL_VARIABLE = "HALOHOP_BENCH_DGL"
"""Names another environment with DGL in it than the one that ``python -m benchmarks.peers`` makes."""

PYG_VARIABLE = "HALOHOP_BENCH_PYG"
"""Names a folder with a build of pyg-lib or torch-sparse (``pip install --target``), where they are not installed."""


def pyg_folder() -> str:
    """That folder; empty if none is named."""
    return os.environ.get(PYG_VARIABLE, "")


def dgl_environment() -> Path:
    return Path(os.environ.get(DGL_VARIABLE, BENCH / "dgl"))
