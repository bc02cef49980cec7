"""The same bytes of every file, in whatever budget and by however many workers, as halohop has always written them."""

import errno
import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halohop.errors import InputError, WriteError
from halohop.store.disk import map_part, read_manifest
from tests.support.small_builds import build, ended, in_little_memory, plain_json, started

# What halohop wrote of `featured_tables` before builds went in passes: see `digest`.
_DIGESTS = """
916b95e8569bcf7a e96eeb81c9586816 dd1e7d240ccd38de 90b4656fe10cb3af 13e1411968deda34 7b6b5244d97cc8bd 155ae0852f7c4906
5c88806fec42f15a fa51ae0fd6fd626b 1920ab2120b21181 337c86accd898500 25b86f7eff237ee8 3c87fe7f0a0dd9b1 fb3de7d0e7c90687
b9fcd1a563e05daf b787231386084823 32d54ff838ce9923 83047588db615519 3529917a87046c30 68375cec3a4bc43b 717c6bf1039bc173
2aca35a39c302aab 4ecf16a969ed7b0c 88fd8dd4334a9ac6 e4dc6fd26115dbef 067a73f94ed9e1ea 364c1cbe3a8266ad fc7e6d032c15ceb7
0e587869bbdb0f79 747b56135d7f0d13 02b05595ecb2d178 e7eb885c4728951d 4b4ee09046c0c35e 02067f54e5a51dbb 8b3625f312d93b60
5ab5c172624f5692 ce22470b15473104 776468b29c0620ee 432bd50e7a725308 016908b66e97b934 f5772ee4d9465ca8 7d3e745848f49dcc
005edb827434c0c4 7d2018aeba844864 dc12e7ad8993b736 65c1f85a6c186e92 cf2d5e2cbb970aab 021ad1588880c998 59f42ad5e30ea031
78ccfd6b9add4a40 f28e7bb62296a2d0 e64c725b61d81250 3c40dbc87b8b8e03 a36ac1fc801e1ad7 722a9afd9b032b27 259a112f2cfe5b87
97654222fe57a59f 916b12bb50e65818 997e8bea7a81ad02 5732042526ee7008
"""
GOLDEN = _DIGESTS.split()
SEEDS = [5, 10, 18, 31, 33, 47]
"""Graphs of several types, with sparse columns, raw ids in any order, empty partitions and edges in order already."""


def digest(out: Path) -> str:
    """Of every file by its checksums, and of all that the manifest says of the graph."""
    manifest = read_manifest(out)
    tables = (*manifest.schema.nodes.items(), *manifest.schema.edges.items())
    plain = {
        "files": manifest.files,
        "bounds": [[repr(key), bounds] for key, bounds in (*manifest.node_bounds.items(), *manifest.edge_bounds.items())],
        "asc": [[repr(key), names] for key, names in manifest.ascending.items()],
        "halo": [[repr(key), [[n, c.dtype, c.shape] for n, c in specs.items()]] for key, specs in manifest.halo.items()],
        "report": manifest.report,
        "schema": [
            [repr(key), spec.count, [[n, c.dtype, c.shape, c.sparse, c.names] for n, c in spec.columns.items()]]
            for key, spec in tables
        ],
    }
    return hashlib.blake2b(plain_json(plain), digest_size=8).hexdigest()


def check(out: Path, seed: int) -> None:
    """Whether a data set is whole, and as it has always been."""
    manifest = read_manifest(out)
    for part in range(manifest.num_parts):
        map_part(out, manifest, part, verify=True)
    assert digest(out) == GOLDEN[seed]
    assert not out.with_name(f"{out.name}.build").exists()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """See `in_little_memory`."""
    return lambda *sizes: in_little_memory(monkeypatch.setattr, *sizes)


def test_in_memory_the_bytes_are_what_they_were(tmp_path: Path) -> None:
    for seed in range(0, 25, 2):
        build(seed, tmp_path / "out", overwrite=seed > 0)
        assert digest(tmp_path / "out") == GOLDEN[seed], seed


@pytest.mark.parametrize(("room", "step_bytes", "threads"), [(300, 400, 2), (3000, 2000, 1), (100_000, 10_000, 2)])
@pytest.mark.parametrize("seed", SEEDS)
def test_in_any_budget_the_bytes_are_the_same(
    tmp_path: Path, small: Callable[..., None], seed: int, room: int, step_bytes: int, threads: int
) -> None:
    small(room, step_bytes, threads)
    build(seed, tmp_path / "out")
    check(tmp_path / "out", seed)


@given(st.integers(0, 10**6), st.sampled_from([200, 1000, 5000]), st.sampled_from([300, 3000]))
@settings(max_examples=5)
def test_any_graph_is_the_same_in_chunks_as_in_memory(
    tmp_path_factory: pytest.TempPathFactory, seed: int, room: int, step_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    build(seed, folder / "whole")
    with pytest.MonkeyPatch.context() as patch:
        in_little_memory(patch.setattr, room, step_bytes, 2)
        build(seed, folder / "chunks")
    assert digest(folder / "chunks") == digest(folder / "whole")


def test_workers_share_a_build(tmp_path: Path) -> None:
    """Three processes begin at once; all end well, whichever was the last."""
    workers = [started(31, tmp_path / "out", worker=True) for _ in range(3)]
    assert [ended(worker) for worker in workers] == [0, 0, 0]
    check(tmp_path / "out", 31)


def test_a_killed_build_goes_on(tmp_path: Path, small: Callable[..., None]) -> None:
    """Killed three times at later and later writes; what was there before is there until the end."""
    build(5, tmp_path / "out")
    for writes in (3, 60, 100):
        assert ended(started(31, tmp_path / "out", writes=writes)) == -signal.SIGKILL
        assert digest(tmp_path / "out") == GOLDEN[5]
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out.build"}
    small(3000, 2000, 2)
    build(31, tmp_path / "out", overwrite=True)
    check(tmp_path / "out", 31)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_another_graph_or_option_does_not_go_on_with_a_killed_build(tmp_path: Path, small: Callable[..., None]) -> None:
    assert ended(started(31, tmp_path / "out", writes=40)) == -signal.SIGKILL
    small(3000, 2000, 2)
    with pytest.raises(InputError, match=r"unfinished build of something else \(.*table a '0 rows, .*', now '1 rows, "):
        build(5, tmp_path / "out")
    build(31, tmp_path / "out")
    check(tmp_path / "out", 31)


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite"])
def test_a_full_disk_loses_nothing(
    tmp_path: Path, small: Callable[..., None], monkeypatch: pytest.MonkeyPatch, call: str, quick: bool
) -> None:
    """The error names the file; the old data set stays, and beside it only what goes on when there is room again."""
    build(5, tmp_path / "out")
    if not quick:
        small(3000, 2000, 1)
    real, left = getattr(os, call), [30]

    def full(*given: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*given)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(WriteError, match=r"\.npy.*[Nn]o space left"):
            build(31, tmp_path / "out", overwrite=True)
    assert digest(tmp_path / "out") == GOLDEN[5]
    assert {path.name for path in tmp_path.iterdir()} == ({"out"} if quick else {"out", "out.build"})
    build(31, tmp_path / "out", overwrite=True)
    check(tmp_path / "out", 31)
