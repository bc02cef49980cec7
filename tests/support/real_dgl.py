"""DGL itself, for tests that compare; 1.1.3 can be imported beside a recent torch (`pip install --no-deps dgl==1.1.3`)."""

import os
import warnings
from typing import Any

import pytest


def real_dgl() -> Any:
    """The module; the test that calls it is skipped where it cannot be imported."""
    os.environ.setdefault("DGLBACKEND", "pytorch")  # else it writes a file into the home folder
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("dgl", reason="DGL is not installed; 1.1.3 runs beside this torch", exc_type=ImportError)
