"""Processes that each have a slice of a graph divide it together: the files are those of the whole graph."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import halohop
from halohop.errors import ClusterError, HalohopError, InputError
from halohop.slices import EdgeSlice, NodeSlice
from halohop.testing.graphs import power_law
from halohop.testing.worlds import free_address
from halohop.typing import EDGE, NODE
from halohop.world import World

GRAPH = power_law(60, 4, seed=1)
OWNER = halohop.placement.place_at_random(60, 4, seed=2)


def slice_of(number: int, size: int) -> tuple[dict[str, NodeSlice], dict[tuple[str, str, str], EdgeSlice]]:
    nodes, edges = GRAPH.nodes[NODE], GRAPH.edges[EDGE]
    own, some = torch.arange(60)[number::size], torch.arange(edges.num_edges)[number::size]
    return (
        {NODE: NodeSlice(owner=OWNER, id=own, columns={name: rows[own] for name, rows in nodes.columns.items()})},
        {
            EDGE: EdgeSlice(
                edge_index=torch.stack([edges.src[some], edges.dst[some]]),
                edge_id=some,
                columns={name: rows[some] for name, rows in edges.columns.items()},
            )
        },
    )


def divided(folders: list[Path], slices: list[object], **options: object) -> list[HalohopError | None]:
    """What each process raises, or None."""
    master, size = free_address(), len(folders)

    def rank(number: int) -> HalohopError | None:
        try:
            world = World(rank=number, size=size)
            halohop.slices.partition_slices(folders[number], *slices[number], num_parts=4, world=world, master=master, **options)
        except HalohopError as error:
            return error
        return None

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size), timeout=60))


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("edge_dir", ["in", "out"])
def test_the_files_are_those_of_the_whole_graph(tmp_path: Path, size: int, edge_dir: str) -> None:
    halohop.partition(GRAPH, tmp_path / "whole", num_parts=4, method=OWNER, edge_dir=edge_dir, halo=["raw_id"])
    slices = [slice_of(number, size) for number in range(size)]
    assert divided([tmp_path / "parts"] * size, slices, edge_dir=edge_dir, halo=["raw_id"]) == [None] * size
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_a_process_may_have_nothing_of_a_type(tmp_path: Path) -> None:
    nodes, edges = slice_of(0, 1)
    nothing = EdgeSlice(edge_index=torch.empty((2, 0), dtype=torch.int64), edge_id=torch.empty(0, dtype=torch.int64))
    assert divided([tmp_path / "parts"] * 2, [(nodes, edges), ({NODE: NodeSlice(owner=OWNER)}, {EDGE: nothing})]) == [None, None]
    with halohop.open(tmp_path / "parts") as graph:
        assert graph.schema.nodes[NODE].count == 60


def test_another_folder_gets_the_partition_of_the_rank(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "a", tmp_path / "b"]
    assert divided(folders, [slice_of(number, 3) for number in range(3)]) == [None] * 3
    assert halohop.describe(tmp_path / "b").parts == (2,)
    assert files(tmp_path / "b").items() < files(tmp_path / "a").items()


def test_one_that_fails_ends_all_and_nothing_is_left(tmp_path: Path) -> None:
    nodes, edges = slice_of(1, 2)
    without = {EDGE: EdgeSlice(edge_index=edges[EDGE].edge_index)}
    other = {NODE: NodeSlice(owner=1 - OWNER.clamp(max=1), id=nodes[NODE].id, columns=nodes[NODE].columns)}
    for wrong, message in (
        ((nodes, without), "have no numbers; give EdgeSlice"),
        (({NODE: NodeSlice(owner=OWNER, columns=nodes[NODE].columns)}, edges), "rows of 'node' have no ids; give NodeSlice"),
        ((other, edges), None),
    ):
        first, second = divided([tmp_path / "parts"] * 2, [slice_of(0, 2), wrong])
        if message is None:  # found by the first process, which joins
            assert isinstance(first, InputError)
            assert "was written with other owners of nodes" in str(first)
            assert isinstance(second, ClusterError)
            assert f"process 0 of 2 failed: {first}" in str(second)
        else:
            assert message in str(second)
            assert isinstance(second, InputError)
            assert str(first) == f"process 1 of 2 failed: {second}"
        assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "mine").write_text("mine")
    errors = divided([tmp_path / "parts"] * 2, [slice_of(number, 2) for number in range(2)])
    assert all("parts exists; choose another folder" in str(error) for error in errors)
    assert files(tmp_path) == {"parts/mine": b"mine"}
