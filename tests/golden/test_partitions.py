"""Partitions have the bytes that are kept, and the same bytes by all ways that lead to them."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.golden import kept, sources
from tests.golden.parts import batches, partitions

pytestmark = pytest.mark.xdist_group("golden partitions")


def check(name: str, made: Mapping[str, str]) -> None:
    """Compares files with those kept of a case.

    Args:
        name: of the case.
        made: by file, the hash.
    """
    if "random" in name and batches.permutation() != kept.load("batches")[batches.PERMUTATION]:
        pytest.skip("this version of torch shuffles in another way")
    among = [case for case in kept.load("partitions") if case.partition(" > ")[0] == name]
    kept.check("partitions", made, among=among)


@pytest.mark.parametrize("name", partitions.CASES)
def test_partitions_are_those_kept(name: str) -> None:
    if "CSV" in name or "OGB" in name:
        pytest.importorskip("pyarrow")
    check(name, partitions.hashed(name, partitions.CASES[name]))


@pytest.mark.parametrize("way", partitions.SAME)
def test_other_ways_make_the_same_partitions(way: str) -> None:
    if "graph." in way:
        pytest.importorskip("pyarrow")
    name, write = partitions.SAME[way]
    check(name, partitions.hashed(name, write))


@pytest.mark.full  # a process takes five seconds to import what it needs
def test_the_command_line_makes_the_same_partitions() -> None:
    pytest.importorskip("pyarrow")

    def write(folder: Path) -> None:
        source = sources.write_tables(folder / "source", "csv")
        command = [sys.executable, "-m", "halohop", "partition", source, folder / "parts", "--parts", "2", "--method", "range"]
        subprocess.run(command, check=True, capture_output=True, timeout=120)

    check("graph.toml, CSV", partitions.hashed("graph.toml, CSV", write))
