"""Data sets that a host's processes share: one fetches each, none goes while it is in use, and all stay within a limit."""

import gc
import shutil
import threading
from pathlib import Path

import pytest

import halohop
from halohop.errors import DatasetError, InputError
from halohop.store.afar.staging import Stage, Staged, staged
from halohop.store.disk import held_parts, read_manifest
from halohop.store.manifest import encode
from halohop.store.names import MANIFEST
from halohop.world import World
from tests.store.afar.conftest import Store


def other_set(far_parts: Path, folder: Path, seed: int) -> Path:
    """The same files as another data set."""
    shutil.copytree(far_parts, folder)
    manifest = read_manifest(folder)
    manifest.partitioned["seed"] = seed
    (folder / MANIFEST).write_bytes(encode(manifest))
    return folder


def size_of(folder: Path) -> int:
    return sum(record.bytes for record in read_manifest(folder).files.values())


def sets(stage: Path) -> set[str]:
    return {path.name for path in stage.iterdir() if path.is_dir()}


def url_of(folder: Path) -> str:
    return f"file://{folder}"


def test_open_and_serve_take_urls(far_parts: Path, store: Store, tmp_path: Path) -> None:
    url, stage = url_of(far_parts), tmp_path / "stage"
    with halohop.open(url, stage=stage) as graph:
        assert graph.book.num_parts == 3
    store.asked.clear()
    with halohop.serve(Path(url), stage=stage, stage_bytes="1GB", partitions=[1]) as server:
        assert server.parts == (1,)
    assert store.files == {MANIFEST}, "what is staged is not fetched again"
    with pytest.raises(InputError, match=r"file://.* is fetched before it is read; say into which folder: stage=FOLDER"):
        halohop.open(url)
    with pytest.raises(InputError, match=r"stage: s3://b/stage is a URL, which does not work here; give a folder on a disk"):
        halohop.serve(url, stage="s3://b/stage")


def test_each_host_fetches_its_share(far_parts: Path, store: Store, tmp_path: Path) -> None:
    def held(world: World) -> tuple[int, ...]:
        with staged(url_of(far_parts), Stage.of(tmp_path / f"{world.host} of {world.num_hosts}"), world=world) as found:
            assert found.parts == held_parts(found.folder, read_manifest(found.folder))
            return found.parts

    assert [held(World(rank=host, size=2, host=host, num_hosts=2)) for host in range(2)] == [(0, 2), (1,)]
    assert held(World(rank=4, size=5, host=4, num_hosts=5)) == ()
    assert held(World(rank=1, size=2)) == (0, 1, 2), "it is not known which ranks share a host"


def test_ranks_of_a_host_fetch_once(far_parts: Path, store: Store, tmp_path: Path) -> None:
    found: list[Staged | BaseException] = []

    def run() -> None:
        try:
            found.append(staged(url_of(far_parts), Stage.of(tmp_path), deadline=30))
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {one.folder for one in found if isinstance(one, Staged)} == {tmp_path / next(iter(sets(tmp_path)))}, found
    asked = [one for one in store.asked if one[0] != MANIFEST]
    assert len(asked) == len(set(asked)) > 20
    for one in found:
        assert isinstance(one, Staged)
        one.close()


def test_what_was_used_least_recently_makes_room(far_parts: Path, store: Store, tmp_path: Path) -> None:
    urls = [url_of(other_set(far_parts, tmp_path / str(seed), seed)) for seed in range(3)]
    stage, size = tmp_path / "stage", size_of(far_parts)
    two = Stage.of(stage, 2 * size)
    names = []
    for url in (urls[0], urls[1], urls[0]):
        with staged(url, two) as found:
            names.append(found.folder.name)
    assert sets(stage) == {names[0], names[1]}
    with staged(urls[2], two) as third:
        assert sets(stage) == {names[0], third.folder.name}, "the second was not used for the longest time"
        with (
            staged(urls[0], two),
            pytest.raises(InputError, match=r"stage_bytes=.* has no room for file://.*: it takes .*, and those in use take"),
        ):
            staged(urls[1], two)
        assert sets(stage) == {names[0], third.folder.name}
        with pytest.raises(InputError, match="has no room for"):
            staged(urls[1], Stage.of(stage, size - 1))
        with staged(urls[1], Stage.of(stage)):
            assert len(sets(stage)) >= 2
    with staged(urls[0], Stage.of(stage, size)):
        assert len(sets(stage)) == 1


def test_more_partitions_of_a_set_count(far_parts: Path, store: Store, tmp_path: Path) -> None:
    url, size = url_of(far_parts), size_of(far_parts)
    with staged(url, Stage.of(tmp_path, size - 1), partitions=[0]) as found:
        pass
    with pytest.raises(InputError, match="has no room for"):
        staged(url, Stage.of(tmp_path, size - 1))
    with staged(url, Stage.of(tmp_path, size)):
        assert held_parts(found.folder, read_manifest(found.folder)) == (0, 1, 2)


def test_a_graph_keeps_its_data_set(far_parts: Path, store: Store, tmp_path: Path) -> None:
    other, size, stage = url_of(other_set(far_parts, tmp_path / "other", 1)), size_of(far_parts), tmp_path / "stage"
    graph = halohop.open(url_of(far_parts), stage=stage)
    with pytest.raises(InputError, match="has no room for"):
        staged(other, Stage.of(stage, size))
    graph.close()
    del graph
    gc.collect()
    with staged(other, Stage.of(stage, size)):
        assert len(sets(stage)) == 1


def test_what_a_killed_process_was_removing_goes(far_parts: Path, store: Store, tmp_path: Path) -> None:
    with staged(url_of(far_parts), Stage.of(tmp_path)) as found:
        pass
    found.folder.rename(found.folder.with_suffix(".removed"))
    with staged(url_of(far_parts), Stage.of(tmp_path)) as again:
        assert sets(tmp_path) == {again.folder.name}


def test_a_failure_leaves_nothing_locked(far_parts: Path, store: Store, tmp_path: Path) -> None:
    def change(name: str, begin: int, data: bytes) -> bytes:
        if name.endswith("x.npy"):
            raise PermissionError(name)
        return data

    store.change = change
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(DatasetError, match="see whether the credentials"):
        staged(url_of(far_parts), Stage.of(tmp_path))
    assert len([*Path("/proc/self/fd").iterdir()]) == before
