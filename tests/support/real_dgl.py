"""DGL itself, for tests that compare; 1.1.3 can be imported beside a recent torch (`pip install --no-deps dgl==1.1.3`)."""

import os
import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest


def real_dgl() -> Any:
    """The module; the test that calls it is skipped where it cannot be imported."""
    try:
        version("dgl")  # a folder of this name can be imported, too
    except PackageNotFoundError:
        pytest.skip("DGL is not installed: pip install --no-deps dgl==1.1.3, Python 3.11", allow_module_level=True)
    os.environ.setdefault("DGLBACKEND", "pytorch")  # else it writes a file into the home folder
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("dgl", reason="DGL cannot be imported", exc_type=ImportError)
