"""What cannot work on a host is said before anything starts there."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import halohop
from halohop.launch.jobs.host import lacking
from halohop.launch.jobs.host.messages import Copied, Order
from halohop.store.checksums import FileRecord
from halohop.testing.graphs import ring


def copied(folder: Path, size: int) -> Copied:
    record = FileRecord(dtype="u1", shape=(size,), bytes=size, checksums=("00000000",))
    return Copied(folder=str(folder), files={"part-0000/a.npy": record}, small={}, manifest=b"{}")


def test_storage_that_hangs_is_named(tmp_path: Path) -> None:
    """A pipe in place of a file lets its reader wait, as a file on such storage does."""
    manifest = tmp_path / "manifest.json"
    os.mkfifo(manifest)
    order = Order(programs=(), folder="/", reads=(str(tmp_path),))
    found = lacking.checked_in_time(order, 0.2)
    end = os.open(manifest, os.O_RDWR)
    manifest.unlink()
    os.close(end)  # lets the reader go
    assert found.problems == (f"/, {tmp_path} did not answer within 0.2 s; see whether the storage of this host works",)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_nothing_is_lacking(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "manifest.json").touch()
    with socket.create_server(("", 0)) as server:
        free = server.getsockname()[1]
    fine = Order(
        programs=(),
        folder=str(tmp_path),
        scripts=("train.py", str(tmp_path / "train.py")),
        reads=(str(tmp_path),),
        ports=(free,),
        copied=(copied(tmp_path / "new" / "parts", 10),),
    )
    assert lacking.problems(fine) == ()
    assert not (tmp_path / "new").exists()  # looked at, not made


def test_everything_that_lacks_is_named_with_a_remedy(tmp_path: Path, taken: int) -> None:
    order = Order(
        programs=(),
        folder=str(tmp_path),
        scripts=("train.py",),
        reads=(str(tmp_path / "parts"),),
        ports=(taken,),
        copied=(copied(tmp_path / "cache", 1 << 45),),
    )
    script, data, room, port = lacking.problems(order)
    assert script == f"there is no script {tmp_path}/train.py; copy it there, or name a folder that all hosts see (folder)"
    assert data.startswith(f"{tmp_path}/parts has no manifest.json: this host does not see the data set")
    assert room.startswith(f"{tmp_path}/cache needs 32 TiB more for its partitions, but ")
    assert room.endswith("make room, or name another folder (cache, workspace)")
    assert port.startswith(f"port {taken} cannot be used: Address already in use; end what listens there")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    (problem,) = lacking.problems(Order(programs=(), folder=str(tmp_path / "job"), scripts=("train.py",)))
    assert problem == f"there is no folder {tmp_path}/job, where the processes are to work; make it, or name another one (folder)"


def test_a_cache_below_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (problem,) = lacking.problems(Order(programs=(), folder=str(tmp_path), copied=(copied(tmp_path / "file" / "cache", 1),)))
    assert "cannot be written" in problem


def test_what_is_there_in_its_size_needs_no_room(tmp_path: Path) -> None:
    folder = copied(tmp_path, 3)
    (tmp_path / "part-0000").mkdir()
    assert lacking.misses(folder) == ["part-0000/a.npy"]
    (tmp_path / "part-0000" / "a.npy").write_bytes(b"abc")
    assert lacking.misses(folder) == []


def test_what_hosts_must_have_alike_is_known_by_its_bytes(tmp_path: Path) -> None:
    for host in "ab":
        (tmp_path / host / "parts").mkdir(parents=True)
        (tmp_path / host / "train.py").write_text("train")
        (tmp_path / host / "label.pt").write_text("labels")
        (tmp_path / host / "parts" / "manifest.json").write_text(f"of {host}")

    def found(host: str) -> dict[str, str]:
        folder = str(tmp_path / host)
        checked = lacking.checked(
            Order(programs=(), folder=folder, scripts=("train.py",), same=("label.pt",), reads=(f"{folder}/parts",))
        )
        assert checked.problems == ()
        return {seen.path.removeprefix(f"{folder}/"): seen.digest for seen in checked.seen}

    a, b = found("a"), found("b")
    assert [*a] == ["train.py", "label.pt", "parts/manifest.json"]
    assert [name for name in a if a[name] != b[name]] == ["parts/manifest.json"]
    lacks = lacking.checked(Order(programs=(), folder=str(tmp_path / "a"), same=("labels.pt",)))
    assert lacks.seen == ()
    (problem,) = lacks.problems
    assert problem == f"there is no file {tmp_path}/a/labels.pt, which all hosts need; copy it there, or share the folder"


def test_partitions_that_are_there_are_counted(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    halohop.partition(ring(40), parts, num_parts=3, method="random")
    shutil.rmtree(parts / "part-0001")
    (parts / "part-0000" / "part-0007").mkdir()
    for name in ("part-of-mine", "part-0001.old"):
        (parts / name).mkdir()
    order = Order(programs=(), folder=str(tmp_path), reads=(str(parts),))
    assert (lacking.checked(order).parts, lacking.checked(order).num_parts) == ((0, 2), 3)
    assert lacking.checked(Order(programs=(), folder=str(tmp_path))).num_parts == 0
    for damaged in ('{"nodes": []}', "{}", '{"nodes": [{"bounds": "x"}]}', "\x00"):
        (parts / "manifest.json").write_text(damaged)
        assert lacking.checked(order).num_parts == 0  # who opens it says what is wrong


def test_free_ports_are_free_and_below_those_of_connections(taken: int) -> None:
    ports = lacking.free_ports(50)
    assert len({*ports}) == 50
    assert all(20000 <= port < 32768 for port in ports)
    assert ports != lacking.free_ports(50)
    with socket.create_server(("", ports[0])):
        assert ports[0] not in lacking.free_ports(12768)


def test_a_run_folder_is_known_by_its_text(tmp_path: Path) -> None:
    (tmp_path / "mark").write_text("this one")
    assert lacking.sees(str(tmp_path / "mark"), "this one")
    assert not lacking.sees(str(tmp_path / "mark"), "another")
    assert not lacking.sees(str(tmp_path / "nothing"), "this one")


def test_the_machine_is_the_same_for_all_processes_of_a_network() -> None:
    assert lacking.hello().machine == lacking.hello().machine
    assert str(Path("/proc/self/ns/net").stat().st_ino) in lacking.hello().machine
