"""The files of inference as docs/guide/training.md describes them."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "training.md"


def described(*, several: bool) -> dict[str, tuple[str, str]]:
    """The dtype and the shape of each file, if a node has one class or `several`."""
    rows = re.findall(r"^\| `(\w+)\.npy` \| (\w+) `\[(.+?)\]` \| (\w+) `\[(.+?)\]` \|", PAGE.read_text(), re.MULTILINE)
    return {row[0]: (row[3], row[4]) if several else (row[1], row[2]) for row in rows}


def check_described(found: Mapping[str, np.ndarray], sizes: Mapping[str, int], *, several: bool = False) -> None:
    """Compares arrays by the name of their file with the page.

    Args:
        found: the arrays.
        sizes: what the page calls n, k and width.
        several: whether a node may belong to several classes.
    """
    page = described(several=several)
    for name, array in found.items():
        dtype, shape = page[name]
        assert ("text" if array.dtype.kind == "U" else str(array.dtype)) == dtype, name
        assert array.shape == tuple(sizes[size] for size in shape.split(", ")), name
