"""Makes the environment that DGL needs: its last release wants a torch and a NumPy of its time.

    python -m benchmarks.peers

An environment that has them already can be named instead: HALOHOP_BENCH_DGL=/path/of/venv.
"""

import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.paths import DGL_VARIABLE, dgl_environment

REQUIREMENTS = ("torch==2.2.1", "numpy<2", "torchdata==0.7.1", "dgl==2.1.0", "pydantic", "pyyaml", "pandas")
CHECK = "import dgl, dgl.graphbolt; print('dgl', dgl.__version__)"


def dgl_python() -> str | None:
    """The interpreter of DGL's environment, or None if there is none."""
    python = dgl_environment() / "bin" / "python"
    return str(python) if python.exists() else None


def make(folder: Path) -> None:
    if sys.version_info >= (3, 13):
        raise SystemExit("torch 2.2.1 has no build for this Python: run this with Python 3.11 or 3.12")
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check", *REQUIREMENTS], check=True)
    subprocess.run([python, "-c", CHECK], check=True)


if __name__ == "__main__":
    if dgl_python() is None:
        make(dgl_environment())
    print(f"DGL's environment: {dgl_environment()} (another one: {DGL_VARIABLE})")
