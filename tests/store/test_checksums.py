"""Sums of chunks: the same whether a file is written at once or read back, and damage is found in the chunk where it is."""

import zlib
from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import CorruptDatasetError
from halohop.store import checksums, npy
from halohop.store.verify import verify_files


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "CHUNK", 200)


@pytest.mark.parametrize("rows", [0, 1, 9, 18, 19, 1000])  # the header has 128 bytes: 18 rows fill the first chunk
def test_an_array_has_a_checksum_for_each_chunk(tmp_path: Path, rows: int) -> None:
    file, array = tmp_path / "x.npy", torch.arange(rows, dtype=torch.int32)
    record = npy.write_array(file, array)
    data = file.read_bytes()
    pieces = [data[begin : begin + 200] for begin in range(0, len(data), 200)]
    assert record.checksums == tuple(f"{zlib.crc32(piece):08x}" for piece in pieces)
    assert [data[begin:end] for begin, end, _ in record.chunks()] == pieces
    assert record == npy.record_of(array.dtype, (rows,), npy.sum_array(file))
    assert npy.num_sums(array.dtype, (rows,)) == len(pieces)
    assert torch.equal(npy.map_array(file, record, torch.int32), array)
    verify_files(tmp_path, {"x.npy": record})


def test_damage_is_found_in_every_chunk(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    record = npy.write_array(file, torch.arange(100))
    whole = file.read_bytes()
    for position in (130, 199, 200, 555, len(whole) - 1):
        file.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        begin = position // 200 * 200
        with pytest.raises(CorruptDatasetError, match=rf"x\.npy has checksum \w+ in the bytes {begin} to "):
            verify_files(tmp_path, {"x.npy": record})


def test_a_single_checksum_is_of_the_whole_file(tmp_path: Path) -> None:
    """As version 1 has it, of files of any size."""
    file = tmp_path / "x.npy"
    npy.write_array(file, torch.arange(100))
    data = file.read_bytes()
    record = checksums.FileRecord(
        dtype="<i8", shape=(100,), bytes=len(data), checksums=(checksums.hexadecimal(zlib.crc32(data)),)
    )
    verify_files(tmp_path, {"x.npy": record})
    file.write_bytes(data[:-8] + bytes(8))
    with pytest.raises(CorruptDatasetError, match=f"in the bytes 0 to {len(data)}"):
        verify_files(tmp_path, {"x.npy": record})


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=12), st.randoms(use_true_random=False), st.sampled_from([8, 64]))
def test_pieces_in_any_order_have_the_checksums_of_the_file(pieces: list[bytes], random: Random, chunk: int) -> None:
    """As several steps write them: each takes some pieces that follow each other, and some that do not."""
    data = b"".join(pieces)
    places = [(sum(map(len, pieces[:number])), piece) for number, piece in enumerate(pieces)]
    random.shuffle(places)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "CHUNK", chunk)
        sums = [checksums.ExtentSums(), checksums.ExtentSums()]
        for number, (begin, piece) in enumerate(places):
            sums[number % 2].add(begin, piece)
        extents = [extent for half in sums for extent in half.extents]
        expected = [zlib.crc32(data[begin : begin + chunk]) for begin in range(0, max(len(data), 1), chunk)]
        assert list(checksums.joined(extents, len(data))) == expected
        if extents:
            with pytest.raises(AssertionError, match=r"have no checksum, or two|have a checksum"):
                checksums.joined([*extents, extents[0]], len(data))
            with pytest.raises(AssertionError, match=r"have no checksum, or two|have a checksum"):
                checksums.joined(extents[1:], len(data))
