"""Real DGL, where it can be imported: tests compare with it."""

import os
import warnings
from typing import Any

import pytest


def real_dgl() -> Any:
    """DGL 1.1.3 or whatever is installed; skips the test where there is none."""
    os.environ.setdefault("DGLBACKEND", "pytorch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("dgl", reason="DGL is not installed: pip install --no-deps dgl==1.1.3, Python 3.11")
