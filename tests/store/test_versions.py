"""Version 2 has blocks, hotness and checksums of chunks; version 1, kept as it was written then, has none of them and opens."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import halohop
from halohop.errors import CorruptDatasetError
from halohop.store import disk, manifest, writer
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from tests.support.archives import unpack

CITES = ("paper", "cites", "paper")


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    """Written by the last halohop that wrote it: papers and authors in two partitions, sparse, split and halo columns, and
    columns that are called "block" and "hotness"."""
    unpack(Path(__file__).with_name("version1.tar.xz"), tmp_path / "parts")
    return tmp_path / "parts"


def test_version_1_opens_and_verifies(version_1: Path) -> None:
    found = disk.read_manifest(version_1)
    assert b'"version": 1' in (version_1 / "manifest.json").read_bytes()
    assert (found.num_parts, found.num_blocks, found.partitioned["method"]) == (2, 0, "given")
    disk.verify_parts(version_1)
    papers = [disk.map_part(version_1, found, part).nodes["paper"] for part in range(2)]
    assert [part.raw_id.tolist() for part in papers if part.raw_id is not None] == [[0, 2, 4], [1, 3]]
    assert [(part.block, part.hotness) for part in papers] == [(None, None)] * 2
    assert [part.columns["block"].tolist() for part in papers] == [[0, 2, 4], [1, 3]]
    assert [part.columns["hotness"].tolist() for part in papers] == [[0.0, 0.5, 1.0], [0.25, 0.75]]
    with halohop.open(version_1) as graph:
        assert graph.rows("x", torch.tensor([4, 1]), node_type="paper").tolist() == [[8.0, 9.0], [2.0, 3.0]]


def test_damage_in_version_1_is_found(version_1: Path) -> None:
    file = version_1 / "part-0001" / "nodes" / "paper" / "x.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptDatasetError, match=r"part-0001/nodes/paper/x\.npy has checksum"):
        disk.verify_parts(version_1)


def blocked(block: Tensor | None, hotness: Tensor | None) -> Part:
    columns = {"block": torch.arange(3.0), "hotness": torch.arange(3)}
    nodes = {
        "paper": NodePart(num_nodes=3, raw_id=None, columns=columns, block=block, hotness=hotness),
        "author": NodePart(num_nodes=0, raw_id=None, columns={}, block=torch.empty(0, dtype=torch.uint8)),
    }
    no_edges = EdgePart(indptr=torch.zeros(4, dtype=torch.int64), indices=torch.empty(0).int(), edge_id=None, columns={})
    return Part(nodes=nodes, edges={CITES: no_edges})


def write(out: Path, part: Part, num_blocks: int) -> None:
    specs = {name: ColumnSpec.of(column) for name, column in part.nodes["paper"].columns.items()}
    with writer.write_dataset(out) as dataset:
        dataset.add(part)
        dataset.finish(
            schema=Schema(
                nodes={"paper": TableSpec(count=3, columns=specs), "author": TableSpec(count=0, columns={})},
                edges={CITES: TableSpec(count=0, columns={})},
            ),
            node_bounds={"paper": (0, 3), "author": (0, 0)},
            edge_bounds={CITES: (0, 0)},
            partitioned={},
            report={},
            num_blocks=num_blocks,
        )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
@pytest.mark.parametrize("hotness", [None, torch.tensor([0.5, 0.0, 2.5])], ids=["cold", "hot"])
def test_blocks_and_hotness_come_back_beside_columns_of_their_name(
    tmp_path: Path, dtype: torch.dtype, hotness: Tensor | None
) -> None:
    write(tmp_path / "parts", blocked(torch.tensor([0, 2, 3], dtype=dtype), hotness), num_blocks=4)
    found = disk.read_manifest(tmp_path / "parts")
    assert found.num_blocks == 4
    papers = disk.map_part(tmp_path / "parts", found, 0, verify=True).nodes["paper"]
    assert papers.block is not None
    assert (papers.block.dtype, papers.block.tolist()) == (dtype, [0, 2, 3])
    assert (papers.hotness is None) == (hotness is None)
    assert papers.hotness is None or torch.equal(papers.hotness, torch.tensor([0.5, 0.0, 2.5]))
    assert papers.columns["block"].tolist() == [0.0, 1.0, 2.0]
    assert papers.columns["hotness"].tolist() == [0, 1, 2]


def test_blocks_that_the_manifest_promises_must_be_there(tmp_path: Path) -> None:
    write(tmp_path / "parts", blocked(None, None), num_blocks=4)
    with pytest.raises(CorruptDatasetError, match=r"paper/block_\.npy should be torch\.uint8 .*does not list it"):
        disk.map_part(tmp_path / "parts", disk.read_manifest(tmp_path / "parts"), 0)


def test_a_manifest_with_impossible_checksums_or_blocks_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "parts", blocked(torch.zeros(3, dtype=torch.uint8), None), num_blocks=1)
    found = disk.read_manifest(tmp_path / "parts")
    path, record = next(iter(found.files.items()))
    torn = replace(found, files={path: replace(record, checksums=record.checksums * 3)})
    with pytest.raises(CorruptDatasetError, match=r"contradicts itself: .* bytes and 3 checksums"):
        manifest.decode(manifest.encode(torn), "manifest.json")
    with pytest.raises(CorruptDatasetError, match="there are -1 blocks"):
        manifest.decode(manifest.encode(replace(found, num_blocks=-1)), "manifest.json")
