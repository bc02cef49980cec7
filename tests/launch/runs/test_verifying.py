import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from halohop.errors import ClusterError, CorruptDatasetError, InputError
from halohop.launch.runs import runs
from halohop.launch.runs.source import SourceOptions
from halohop.launch.runs.verifying import check_still_whole, verify
from halohop.recipes.config import InferConfig, TrainConfig

QUIET = Console(quiet=True)
SOURCE = SourceOptions(num_parts=2, method="random")


@pytest.fixture
def copied(tiny_parts: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_parts, tmp_path / "copied"))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def test_a_flipped_bit_is_found_before_anything_starts(copied: Path, tmp_path: Path) -> None:
    verify(str(copied), QUIET)
    flip(copied / "part-0001/nodes/node/x.npy")
    train = TrainConfig(parts=str(copied), out=str(tmp_path / "run"))
    infer = InferConfig(parts=str(copied), checkpoint="none", out=str(tmp_path / "results"))
    with pytest.raises(CorruptDatasetError, match=r"part-0001/nodes/node/x\.npy has checksum"):
        runs.train(train, SOURCE, nodes=1, trainers=1, console=QUIET, check=True)
    with pytest.raises(CorruptDatasetError, match=r"x\.npy has checksum"):
        runs.infer(infer, nodes=1, trainers=1, console=QUIET, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["copied"]


def test_servers_verify_what_they_hold() -> None:
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1 are servers, .*halohop serve PARTS --verify"):
        verify("127.0.0.1:1", QUIET)


def test_a_run_is_refused_before_its_source_is_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("hours of work")
    config = TrainConfig(parts="synthetic:tiny", out=str(tmp_path))
    with pytest.raises(InputError, match="would be lost"):
        runs.train(config, SOURCE, nodes=2, trainers=1, console=QUIET)
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_file_that_was_cut_while_it_was_in_use_is_named(copied: Path) -> None:
    failure = ClusterError("rank 0 was killed by SIGBUS")
    check_still_whole([copied], failure)
    os.truncate(copied / "part-0002/nodes/node/x.npy", 1000)
    with pytest.raises(CorruptDatasetError, match=r"part-0002/nodes/node/x\.npy has 1000 bytes, .*while it was in use") as raised:
        check_still_whole([copied], failure)
    assert raised.value.__cause__ is failure
