"""Which arrays of a data set stay in memory, and how the others are mapped."""

from pathlib import Path

import pytest
import torch

import halohop
from halohop.cluster.holding import Holding
from halohop.errors import InputError
from halohop.store.residency import residency_of
from halohop.store.tables import EdgeTable, GraphTables, NodeTable

RELATION = ("paper", "cites", "paper")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 papers with 8 KB of features each and words of which few are stored, and 300 edges, in two partitions."""
    words = torch.zeros(100, 50)
    words[torch.arange(100), torch.arange(100) % 50] = torch.arange(100.0)
    columns = {"x": torch.rand(100, 2000), "y": torch.arange(100), "words": words.to_sparse()}
    ends = torch.randint(100, (2, 300))
    tables = GraphTables(
        nodes={"paper": NodeTable(num_nodes=100, columns=columns)},
        edges={RELATION: EdgeTable(src=ends[0], dst=ends[1], columns={"edge_attr": torch.rand(300, 40)})},
    )
    path = tmp_path_factory.mktemp("residency") / "parts"
    halohop.partition(tables, path, num_parts=2, method="random")
    return path


def names_on_disk(holding: Holding, memory: int) -> set[str]:
    """Columns and other arrays that do not fit, those of both partitions named once."""
    found = residency_of(holding.parts, memory).disk_arrays
    names: set[str] = set()
    for part in holding.parts.values():
        nodes, edges = part.nodes["paper"], part.edges[RELATION]
        arrays = {**nodes.columns, **edges.columns, "indptr": edges.indptr, "indices": edges.indices}
        arrays |= {"words": nodes.sparse["words"].values, "raw_id": nodes.raw_id}
        of_part = {name for name, array in arrays.items() if array is not None and array.data_ptr() in found}
        assert not names or names == of_part
        names = of_part
    return names


def test_small_arrays_stay_in_memory(parts):
    holding = Holding.of(parts)
    assert names_on_disk(holding, 10**7) == set()
    assert names_on_disk(holding, 100_000) == {"x"}
    assert names_on_disk(holding, 40_000) == {"x", "edge_attr"}
    assert names_on_disk(holding, 0) == {"x", "edge_attr", "y", "words", "raw_id", "indptr", "indices"}


def test_the_default_is_what_is_available(parts, monkeypatch):
    monkeypatch.setattr("halohop.cluster.holding.available_bytes", lambda: 200_000)
    assert Holding.of(parts, memory="1MB").residency.disk_arrays == frozenset()
    holding = Holding.of(parts)
    assert holding.parts[0].nodes["paper"].columns["x"].data_ptr() in holding.residency.disk_arrays
    assert len(holding.residency.disk_arrays) == 2


def test_only_what_does_not_fit_is_read_at_random(parts):
    if not Path("/proc/self/smaps").exists():
        pytest.skip("this system does not list advice on mappings")
    part = Holding.of(parts, memory=100_000).parts[1]
    assert "rr" in flags_of(part.nodes["paper"].columns["x"])
    assert "hg" not in flags_of(part.nodes["paper"].columns["x"])
    assert "rr" not in flags_of(part.nodes["paper"].columns["y"])


def test_a_size_that_is_none(parts):
    with pytest.raises(InputError, match="'much' is no size"):
        halohop.open(parts, memory="much")


def flags_of(array: torch.Tensor) -> set[str]:
    """What the system was advised of the mapping of an array."""
    inside = False
    for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            begin, end = (int(address, 16) for address in first.split("-"))
            inside = begin <= array.data_ptr() < end
        if inside and first == "VmFlags:":
            return set(line.split()[1:])
    raise AssertionError("the array is not mapped")
