"""Damaged, half-written, foreign, outdated: every folder that is not a whole data set is refused by name."""

import os
import re
import shutil
import signal
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

from halohop.errors import CorruptDatasetError, DatasetError, IncompleteDatasetError, InputError, VersionMismatchError, WriteError
from halohop.store import disk, manifest, npy, writer
from halohop.store.part import EdgePart, NodePart, Part
from halohop.store.schema import ColumnSpec, Schema, TableSpec
from halohop.store.verify import verify_files
from tests.support.forked import run_script

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128),
    *(torch.float8_e4m3fn, torch.float8_e5m2),
]
RELATION = ("paper", "cited by", "paper")
WEIRD = ("a_", "_http:b?c#d e%2E", ".ü")


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def some(dtype: torch.dtype, *shape: int) -> Tensor:
    if dtype == torch.bool:
        return torch.rand(*shape, generator=torch.Generator().manual_seed(0)) < 0.5
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 60, (*shape, dtype.itemsize), dtype=torch.uint8, generator=generator).view(dtype).squeeze(-1)


def parts() -> list[Part]:
    """Two partitions of 3 and 0 papers, with every dtype, and a relation with odd names and columns."""
    out = []
    for rows, edges in ((3, 2), (0, 0)):
        columns = {f"c {dtype}": some(dtype, rows) for dtype in DTYPES}
        columns |= {"x": some(torch.float32, rows, 2), "wide": torch.empty(rows, 0), "deep": some(torch.bfloat16, rows, 2, 3)}
        out.append(
            Part(
                nodes={
                    "paper": NodePart(num_nodes=rows, raw_id=torch.arange(rows) * 10, columns=columns),
                    "a_": NodePart(num_nodes=0, raw_id=None, columns={}),
                    ".ü": NodePart(num_nodes=rows, raw_id=None, columns={"..": some(torch.int16, rows)}),
                },
                edges={
                    RELATION: EdgePart(
                        indptr=torch.tensor([0, 1, 2, 2])[: rows + 1],
                        indices=torch.tensor([2, 0], dtype=torch.int32)[:edges],
                        edge_id=torch.tensor([1, 0])[:edges],
                        columns={"indices": some(torch.float64, edges), "indptr": some(torch.int8, edges)},
                        halo={"raw_id": some(torch.int32, edges), "_time_": some(torch.float32, edges)},
                        ascending=frozenset(["_time_", "indptr"] if edges else ["_time_", "indptr", "indices"]),
                    ),
                    WEIRD: EdgePart(
                        indptr=torch.zeros(rows + 1, dtype=torch.int64),
                        indices=torch.empty(0, dtype=torch.int64),
                        edge_id=None,
                        columns={},
                    ),
                },
            )
        )
    return out


def write(out: Path, *, overwrite: bool = False, seed: int = 0, pieces: list[Part] | None = None) -> Path:
    pieces = pieces or parts()
    with writer.write_dataset(out, overwrite=overwrite) as dataset:
        for piece in pieces:
            dataset.add(piece)
        dataset.finish(
            schema=Schema(
                nodes={key: spec(table.columns, 3 * (key != "a_")) for key, table in pieces[0].nodes.items()},
                edges={key: spec(table.columns, table.num_edges) for key, table in pieces[0].edges.items()},
            ),
            node_bounds={"paper": (0, 3, 3), "a_": (0, 0, 0), ".ü": (0, 3, 3)},
            edge_bounds={RELATION: (0, 2, 2), WEIRD: (0, 0, 0)},
            partitioned={"method": "given", "seed": seed},
            report={"cut": 0.5, "parts": [{"nodes": {"paper": 3}}, {}]},
        )
    return out


def spec(columns: dict[str, Tensor], count: int) -> TableSpec:
    return TableSpec(count=count, columns={name: ColumnSpec.of(column) for name, column in columns.items()})


def open_all(folder: Path) -> list[Part]:
    found = disk.read_manifest(folder)
    return [disk.map_part(folder, found, part, verify=True) for part in disk.held_parts(folder, found)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "parts")


@pytest.fixture
def copied(dataset: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(dataset, tmp_path / "copied"))


def damage_bit(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)


def seal(folder: Path, old: bytes, new: bytes) -> None:
    """Changes the manifest and gives it a right checksum: what another version, or a liar, would write."""
    data = (folder / "manifest.json").read_bytes()
    assert data.count(old) >= 1
    data = data.replace(old, new, 1)
    checksum = msgspec.json.decode(data)["checksum"].encode()
    blank = data.replace(checksum, b"00000000", 1)
    (folder / "manifest.json").write_bytes(blank.replace(b"00000000", f"{manifest.zlib.crc32(blank):08x}".encode(), 1))


def test_everything_comes_back(dataset: Path) -> None:
    found = disk.read_manifest(dataset)
    assert found.num_parts == 2
    assert list(found.schema.nodes) == ["paper", "a_", ".ü"]
    assert list(found.schema.edges) == [RELATION, WEIRD]
    assert found.schema.nodes["paper"].columns["deep"] == ColumnSpec(dtype="bfloat16", shape=(2, 3))
    assert found.node_bounds["paper"] == (0, 3, 3)
    assert found.edge_bounds[RELATION] == (0, 2, 2)
    assert found.partitioned == {"method": "given", "seed": 0}
    assert found.report["parts"][0] == {"nodes": {"paper": 3}}
    assert disk.held_parts(dataset, found) == (0, 1)
    for written, read in zip(parts(), open_all(dataset), strict=True):
        assert list(read.nodes) == list(written.nodes)
        assert list(read.edges) == list(written.edges)
        for key, nodes in written.nodes.items():
            assert read.nodes[key].num_nodes == nodes.num_nodes
            same(read.nodes[key].raw_id, nodes.raw_id)
            assert list(read.nodes[key].columns) == list(nodes.columns)
            for name, column in nodes.columns.items():
                same(read.nodes[key].columns[name], column)
        for relation, edges in written.edges.items():
            for name in ("indptr", "indices", "edge_id"):
                same(getattr(read.edges[relation], name), getattr(edges, name))
            for name, column in edges.columns.items():
                same(read.edges[relation].columns[name], column)
            assert list(read.edges[relation].halo) == list(edges.halo)
            for name, column in edges.halo.items():
                same(read.edges[relation].halo[name], column)
            assert read.edges[relation].ascending == (frozenset(["_time_", "indptr"]) if edges.halo else frozenset())


def test_a_data_set_from_before_halo_columns_and_stamps_opens(copied: Path) -> None:
    """The manifest of that time lacks some keys, and nobody misses them."""
    for stamp in copied.glob("part-*/stamp"):
        stamp.unlink()
    document = msgspec.json.decode((copied / "manifest.json").read_bytes())
    del document["stamps"]
    for table in (*document["nodes"], *document["edges"]):
        del table["halo"], table["ascending"]
    document["files"] = {path: record for path, record in document["files"].items() if "/halo/" not in path}
    for record in document["files"].values():
        (record["crc32"],) = record.pop("checksums")
    document["version"], document["checksum"] = 1, "00000000"
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    (copied / "manifest.json").write_bytes(data.replace(b"00000000", f"{manifest.zlib.crc32(data):08x}".encode(), 1))
    for read, written in zip(open_all(copied), parts(), strict=True):
        assert (read.edges[RELATION].halo, read.edges[RELATION].ascending) == ({}, frozenset())
        same(read.edges[RELATION].indices, written.edges[RELATION].indices)


def same(read: Tensor | None, written: Tensor | None) -> None:
    if written is None or read is None:
        assert read is written
        return
    assert (read.dtype, read.shape, bits(read)) == (written.dtype, written.shape, bits(written))


def test_numpy_reads_the_files(dataset: Path) -> None:
    folder = dataset / "part-0000" / "nodes" / "paper"
    x = np.load(folder / "x.npy", allow_pickle=False)
    assert np.array_equal(x, parts()[0].nodes["paper"].columns["x"].numpy())
    assert np.load(folder / "deep.npy", allow_pickle=False).dtype == np.uint16
    assert np.load(folder / "wide.npy", allow_pickle=False).shape == (3, 0)


def test_tensors_are_unusual_but_written(tmp_path: Path) -> None:
    """Strided, conjugated, expanded, or part of an autograd graph."""
    for number, tensor in enumerate(
        [
            torch.arange(12.0).view(3, 4).T,
            torch.tensor([1 + 2j, 3 - 1j]).conj(),
            torch.tensor(7).expand(5),
            torch.arange(2)[1::2],
            torch.ones(3, requires_grad=True) * 2,
        ]
    ):
        file = tmp_path / f"{number}.npy"
        record = npy.write_array(file, tensor)
        verify_files(tmp_path, {file.name: record})
        back = npy.map_array(file, record, tensor.dtype)
        assert torch.equal(back, tensor.detach().resolve_conj())


@pytest.mark.parametrize("tensor", [torch.eye(2).to_sparse(), torch.empty(2, device="meta")])
def test_tensors_without_memory_are_refused(tmp_path: Path, tensor: Tensor) -> None:
    with pytest.raises(InputError, match="dense one on the CPU"):
        npy.write_array(tmp_path / "x.npy", tensor)


def test_writing_to_a_mapped_tensor_stays_private(copied: Path) -> None:
    before = (copied / "part-0000/nodes/paper/x.npy").read_bytes()
    found = disk.read_manifest(copied)
    first, second = (disk.map_part(copied, found, 0).nodes["paper"].columns["x"] for _ in range(2))
    first.fill_(-1)
    assert (first == -1).all()
    assert not (second == -1).any()
    assert (copied / "part-0000/nodes/paper/x.npy").read_bytes() == before


def test_mapping_is_released_with_its_last_tensor_and_keeps_no_descriptor(dataset: Path) -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(str(dataset))

    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    part = disk.map_part(dataset, disk.read_manifest(dataset), 0)
    row = part.nodes["paper"].columns["x"][1]
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert mapped() > 10
    del part
    assert mapped() == 1
    assert row.sum() == row.sum()
    del row
    assert mapped() == 0


def test_a_file_larger_than_memory_is_mapped(tmp_path: Path) -> None:
    """A private writable mapping with a reservation would be refused."""
    rows = 1 << 40
    header = npy._header("|u1", (rows,))
    file = tmp_path / "huge.npy"
    with file.open("wb") as stream:
        stream.write(header)
        try:
            stream.truncate(len(header) + rows)
        except OSError as error:
            pytest.skip(f"no sparse file of 1 TiB here: {error}")
    record = disk.FileRecord(dtype="|u1", shape=(rows,), bytes=len(header) + rows, checksums=("",))
    huge = npy.map_array(file, record, torch.uint8)
    assert int(huge[-1]) == 0


def test_a_host_may_hold_some_partitions(copied: Path) -> None:
    shutil.rmtree(copied / "part-0000")
    found = disk.read_manifest(copied)
    assert disk.held_parts(copied, found) == (1,)
    disk.map_part(copied, found, 1, verify=True)
    with pytest.raises(IncompleteDatasetError, match="part-0000"):
        disk.map_part(copied, found, 0)
    with pytest.raises(InputError, match="part=2"):
        disk.map_part(copied, found, 2)


def test_partitions_of_another_data_set_are_refused(copied: Path, tmp_path: Path) -> None:
    """Of the same schema, counts and shapes: only the values differ."""
    other = tmp_path / "other"
    pieces = parts()
    pieces[0].nodes["paper"].columns["x"].add_(1)
    write(other, pieces=pieces)
    same_data = write(tmp_path / "again")
    shutil.rmtree(other / "part-0000")
    shutil.copytree(copied / "part-0000", other / "part-0000")
    found = disk.read_manifest(other)
    disk.map_part(other, found, 1)  # no value of this one is another
    with pytest.raises(CorruptDatasetError, match=r"part-0000 belongs to another data set .*stamp \w{8}.*; copy the manifest"):
        disk.map_part(other, found, 0)
    shutil.copy(other / "manifest.json", copied / "manifest.json")
    with pytest.raises(CorruptDatasetError, match="part-0000 belongs to another data set"):
        open_all(copied)
    shutil.copy(same_data / "manifest.json", copied / "manifest.json")
    open_all(copied)  # partitioning again gives the same data set
    (copied / "part-0000" / "stamp").unlink()
    with pytest.raises(CorruptDatasetError, match="no stamp"):
        open_all(copied)


def test_a_pipe_is_refused_and_not_waited_for(copied: Path) -> None:
    for name, says in (
        ("part-0000/nodes/paper/x.npy", r"x\.npy"),
        ("part-0000/stamp", "stamp"),
        ("manifest.json", r"manifest\.json"),
    ):
        kept = (copied / name).read_bytes()
        (copied / name).unlink()
        os.mkfifo(copied / name)
        with pytest.raises(CorruptDatasetError, match=rf"{says} is no regular file"):
            open_all(copied)
        (copied / name).unlink()
        (copied / name).write_bytes(kept)
    open_all(copied)


@pytest.mark.parametrize("data", [b"[" * 200_000, b'{"format": "halohop", "version": 1, "checksum": "0", "x": ' + b"[" * 200_000])
def test_a_manifest_that_is_nested_without_end(copied: Path, data: bytes) -> None:
    (copied / "manifest.json").write_bytes(data)
    with pytest.raises(CorruptDatasetError, match=r"manifest\.json cannot be read as JSON"):
        disk.read_manifest(copied)


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, no_more_than: Any) -> None:
    with no_more_than(100), pytest.raises(WriteError, match=r"^cannot write .*\.npy: File too large; make room there"):
        write(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk")
    disk_of_its_own = tmp_path / "disk"
    disk_of_its_own.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk_of_its_own], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no small disk here: {mounted.stderr.strip()}")
    try:
        with pytest.raises(WriteError, match=r"^cannot write .*(npy|part-0000|stamp): No space left on device; make room there"):
            write(disk_of_its_own / "out")
        assert list(disk_of_its_own.iterdir()) == []
    finally:
        subprocess.run(["umount", disk_of_its_own], check=True)


def test_verifying_reads_everything(copied: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    disk.verify_parts(copied, lambda *step: steps.append(step))
    size = sum(file.stat().st_size for file in copied.rglob("*.npy"))
    assert (steps[0], steps[-1]) == (("verify", 0, size), ("verify", size, size))
    assert [done for _, done, _ in steps] == sorted({done for _, done, _ in steps})
    damage_bit(copied / "part-0000/nodes/paper/x.npy", 140)
    disk.map_part(copied, disk.read_manifest(copied), 0)  # not read
    with pytest.raises(CorruptDatasetError, match=r"x\.npy has checksum"):
        disk.verify_parts(copied)


def test_a_flipped_bit_is_found_in_every_file(copied: Path) -> None:
    files = sorted(copied.rglob("*.npy"))
    assert len(files) == len(disk.read_manifest(copied).files)
    for number, file in enumerate(files):
        for position in {(0, 40, 100)[number % 3], file.stat().st_size - 1}:
            damage_bit(file, position)
            with pytest.raises(CorruptDatasetError, match=re.escape(file.name)):
                open_all(copied)
            damage_bit(file, position)
    open_all(copied)


def test_a_changed_manifest_is_found(copied: Path) -> None:
    size = (copied / "manifest.json").stat().st_size
    for position in range(0, size, 97):
        damage_bit(copied / "manifest.json", position)
        with pytest.raises(DatasetError, match=r"manifest\.json"):
            disk.read_manifest(copied)
        damage_bit(copied / "manifest.json", position)
    disk.read_manifest(copied)


@pytest.mark.parametrize("keep", [0, 5, 130])
def test_a_cut_file_is_found_without_reading_it(copied: Path, keep: int) -> None:
    file = copied / "part-0000/nodes/paper/x.npy"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(CorruptDatasetError, match=rf"x\.npy has {keep} bytes"):
        disk.map_part(copied, disk.read_manifest(copied), 0)


def test_a_cut_manifest(copied: Path) -> None:
    file = copied / "manifest.json"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CorruptDatasetError, match=r"manifest\.json"):
        disk.read_manifest(copied)


def test_a_missing_file(copied: Path) -> None:
    (copied / "part-0000/edges/paper__cited%20by__paper/indptr.npy").unlink()
    with pytest.raises(IncompleteDatasetError, match=r"indptr\.npy"):
        disk.map_part(copied, disk.read_manifest(copied), 0)


def test_another_array_of_the_same_size(copied: Path) -> None:
    file = copied / "part-0000/nodes/paper/x.npy"
    size = file.stat().st_size
    np.save(file, np.zeros((3, 2), np.int32))
    assert file.stat().st_size == size
    with pytest.raises(CorruptDatasetError, match=r"x\.npy is not a <f4 array of shape \(3, 2\)"):
        disk.map_part(copied, disk.read_manifest(copied), 0)


def test_missing_manifest_folder_and_leftover(copied: Path, tmp_path: Path) -> None:
    leftover = Path(shutil.copytree(copied, tmp_path / "parts.partial-0123abcd"))
    with pytest.raises(IncompleteDatasetError, match="not written to its end"):
        disk.read_manifest(leftover)
    (copied / "manifest.json").unlink()
    with pytest.raises(IncompleteDatasetError, match=r"manifest\.json"):
        disk.read_manifest(copied)
    with pytest.raises(DatasetError, match="there is no folder"):
        disk.read_manifest(tmp_path / "nowhere" / "at all")
    (tmp_path / "parts.replaced-0123abcd").mkdir()
    with pytest.raises(DatasetError, match=r"the old data set is .*parts\.replaced-0123abcd"):
        disk.read_manifest(tmp_path / "parts")


def test_a_leftover_is_named_when_the_data_set_is_opened(copied: Path, caplog: pytest.LogCaptureFixture) -> None:
    left = copied.with_name(f"{copied.name}.partial-00000001-00000002-00000003")
    left.write_bytes(bytes(3 << 20))
    disk.read_manifest(copied)
    disk.read_manifest(copied)
    (message,) = caplog.messages
    assert message.startswith(f"{left} takes 3 MiB: ")
    assert message.endswith(f"remove it: rm -r {left}")


@pytest.mark.parametrize(("version", "remedy"), [(b"99", "upgrade"), (b"0", "partition")])
def test_another_version_names_both_and_the_remedy(copied: Path, version: bytes, remedy: str) -> None:
    seal(copied, b'"version": 2', b'"version": ' + version)
    with pytest.raises(VersionMismatchError, match=rf"version {version.decode()}, .* versions 1 to 2; .*{remedy}"):
        disk.read_manifest(copied)
    write(copied, overwrite=True)  # the remedy works
    open_all(copied)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"format": "halohop"', b'"format": "parquet"', "parquet"),
        (b'"nodes": [', b'"nudes": [', "nodes"),
        (b'"cited by"', b'"cited by", "x"', "three"),
        (b'"key": [\n        "a_"\n      ]', b'"key": [\n        "paper"\n      ]', "twice"),
        (b'"key": [\n        "a_"\n      ]', b'"key": [\n        "b"\n      ]', "unknown node type"),
        (b'"bounds": [\n        0,\n        3,', b'"bounds": [\n        0,\n        4,', "fall"),
        (b'"bounds": [\n        0,\n        3,', b'"bounds": [\n        1,\n        3,', "bounds"),
        (b'"bounds": [\n        0,\n        3,\n', b'"bounds": [\n        0,\n', "bounds"),
        (b'"bounds": [\n        0,\n        3,', b'"bounds": [\n        0,\n        "3",', "int"),
    ],
)
def test_a_manifest_that_contradicts_itself(copied: Path, old: bytes, new: bytes, says: str) -> None:
    seal(copied, old, new)
    with pytest.raises(CorruptDatasetError, match=says):
        disk.read_manifest(copied)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"dtype": "bfloat16"', b'"dtype": "float7"'),
        (b'"dtype": "bfloat16"', b'"dtype": "float32"'),
        (b'"bounds": [\n        0,\n        3,', b'"bounds": [\n        0,\n        2,'),
        (b"paper/x.npy", b"paper/y.npy"),
        (b'indices.npy": {\n      "dtype": "<i4"', b'indices.npy": {\n      "dtype": "<f4"'),
    ],
)
def test_a_manifest_that_contradicts_its_records(copied: Path, old: bytes, new: bytes) -> None:
    seal(copied, old, new)
    found = disk.read_manifest(copied)
    with pytest.raises(CorruptDatasetError, match=r"manifest\.json"):
        disk.map_part(copied, found, 0)


def test_existing_folders_are_not_touched(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    write(out)  # an empty folder is as good as none
    with pytest.raises(InputError, match="overwrite=True"):
        write(out, seed=1)
    assert disk.read_manifest(out).partitioned["seed"] == 0
    write(out, overwrite=True, seed=2)
    assert disk.read_manifest(out).partitioned["seed"] == 2
    (out / "thesis.tex").write_text("three years")
    with pytest.raises(InputError, match=r"thesis\.tex"):
        write(out, overwrite=True)
    (out / "manifest.json").unlink()
    with pytest.raises(InputError, match="not a halohop data set"):
        write(out, overwrite=True)
    assert (out / "thesis.tex").exists()
    (tmp_path / "file").write_text("")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="file"):
            write(tmp_path / "file", overwrite=overwrite)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "out"]


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with writer.write_dataset(tmp_path / "new" / "out") as dataset:
            dataset.add(parts()[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list((tmp_path / "new").iterdir()) == []


def test_what_came_meanwhile_is_respected(tmp_path: Path) -> None:
    def overtaken() -> None:
        with writer.write_dataset(tmp_path / "out") as dataset:
            write(tmp_path / "out", seed=7)
            dataset.add(Part(nodes={}, edges={}))
            dataset.finish(
                schema=Schema(nodes={"paper": spec({}, 0)}, edges={}),
                node_bounds={"paper": (0, 0)},
                edge_bounds={},
                partitioned={},
                report={},
            )

    with pytest.raises(InputError, match="exists"):
        overtaken()
    assert disk.read_manifest(tmp_path / "out").partitioned["seed"] == 7
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_old_data_set_comes_back_if_the_new_one_cannot_take_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write(tmp_path / "out")
    original = Path.rename

    def full(path: Path, target: Path) -> Path:
        if ".partial-" in path.name:
            raise OSError(28, "No space left on device")
        return original(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        write(out, overwrite=True, seed=1)
    assert disk.read_manifest(out).partitioned["seed"] == 0
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("moment", ["writer.write_array", "writer.encode", "whole._take_place", "whole.sync_tree"])
def test_a_killed_writer_leaves_the_old_data_set_and_a_refused_folder(dataset: Path, tmp_path: Path, moment: str) -> None:
    out = Path(shutil.copytree(dataset, tmp_path / "out"))
    script = f"""
        import importlib.util, os, signal, sys
        spec = importlib.util.spec_from_file_location("test_disk", {str(Path(__file__))!r})
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        from pathlib import Path
        from halohop.files import whole
        from halohop.store import writer
        original, calls = {moment}, []
        def deadly(*args, **options):
            calls.append(args)
            if len(calls) == (20 if {moment!r} == "writer.write_array" else 1):
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **options)
        {moment} = deadly
        module.write(Path({str(out)!r}), overwrite=True, seed=5)
    """
    ended = run_script(textwrap.dedent(script))
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert disk.read_manifest(out).partitioned["seed"] == 0
    open_all(out)
    (left,) = (path for path in tmp_path.iterdir() if path != out)
    with pytest.raises(IncompleteDatasetError, match="partial"):
        disk.read_manifest(left)
    write(out, overwrite=True, seed=6)  # and the next run is not in its way
    assert disk.read_manifest(out).partitioned["seed"] == 6
    assert list(tmp_path.iterdir()) == [out]  # and removes what the killed one left


def test_partitions_of_glt_name_the_command_that_converts_them(tmp_path: Path) -> None:
    (tmp_path / "META").write_bytes(b"\x80\x05}\x94.")
    with pytest.raises(DatasetError, match=f"convert them: halohop partition 'glt:{tmp_path}' OUT --edge-dir out"):
        disk.read_manifest(tmp_path)
