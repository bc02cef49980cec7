"""What `halohop launch copy` would send, without hosts."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import halohop
from halohop.errors import HalohopError, InputError
from halohop.launch.jobs.host import copying
from halohop.launch.jobs.host.messages import Copied, Piece
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.jobs.ssh.copying import Parcel, copy, parcels_of
from halohop.launch.jobs.ssh.hosts import Host
from halohop.launch.terminal.console import Console
from halohop.store.disk import map_part, read_manifest
from halohop.testing.graphs import ring

SEND = {".": ("sage", "ip_config.txt"), "data/of/mine": ("sage/data/graph.json",)}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ring") / "parts"
    halohop.partition(ring(40), path, num_parts=3, method="random")
    (path / "graph.json").write_text("{}")
    return path


@pytest.fixture
def here(tmp_path: Path, parts: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with scripts and the partitions among them."""
    for name in ("train.py", "models/sage.py", "models/empty", "__pycache__/x.pyc", ".git/HEAD"):
        (tmp_path / "sage" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sage" / name).write_text(name.replace("models/empty", ""))
    shutil.copytree(parts, tmp_path / "sage" / "data")
    (tmp_path / "sage" / "link.py").symlink_to("train.py")
    (tmp_path / "ip_config.txt").write_text("a\nb\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job_of(workspace: object = "/ws", **changed: object) -> Job:
    values = {"engine": "ssh", "hosts": ("a", "b"), "run": ("train.py",), "out": "/out", "folder": str(workspace)}
    return Job(**{**values, "data": f"{workspace}/data/of/mine", **changed})  # type: ignore[arg-type]


def parcels(job: Job, source: str | None = "sage/data", send: dict[str, tuple[str, ...]] = SEND) -> dict[str, tuple[Parcel, ...]]:
    hosts = [
        Host(name=name, target=(name,), address=name, python="p", folder=job.folder, data=job.data, env={}) for name in ("a", "b")
    ]
    return parcels_of(job, source, hosts, send)


def begins(copied: Copied) -> set[str]:
    return {path.partition("/")[0] for path in copied.files}


def ignore(work: int) -> None:
    pass


def write(one: Parcel) -> tuple[str, ...]:
    """Writes what is missing, as a host does; returns it."""
    missing = copying.wanted(one.copied, ignore)
    sent = iter([Piece(path=path, data=(one.source / path).read_bytes(), last=True) for path in missing])
    copying.write(one.copied, missing, sent.__next__, ignore)
    return missing


def test_each_host_gets_its_partitions_and_all_of_them_the_rest(here: Path) -> None:
    first, second = parcels(job_of()).values()
    assert [one.copied.folder for one in first] == ["/ws/data/of/mine", "/ws", "/ws", "/ws/data/of/mine"]
    assert [one.what for one in first] == ["partitions 0/2", "sage", "ip_config.txt", "graph.json"]
    assert (begins(first[0].copied), begins(second[0].copied)) == ({"part-0000", "part-0002"}, {"part-0001"})
    assert second[0].copied.manifest is not None
    assert first[1:] == second[1:]
    assert {*first[1].copied.files} == {f"sage/{name}" for name in ("train.py", "models/sage.py", "models/empty", "link.py")}
    assert all((one.source / path).is_file() for one in first[1:] for path in one.copied.files)


def test_a_job_with_a_cache_says_where_partitions_come_from_and_go(here: Path) -> None:
    job = job_of(data=str(here / "sage" / "data"), cache="/cache/{host}", servers=Servers(count=2, replicas=2))
    first, second = parcels(job, source=None, send={}).values()
    assert [len(first), len(second)] == [1, 1]
    assert first[0].copied.folder.startswith("/cache/a/data-")
    assert begins(second[0].copied) == {"part-0000", "part-0001", "part-0002"}


def test_what_a_host_writes_is_what_is_here(here: Path) -> None:
    job = job_of(here / "there")
    for one in parcels(job)["a"]:
        write(one)
        assert copying.wanted(one.copied, ignore) == ()
    folder = here / "there" / "data" / "of" / "mine"
    for part in (0, 2):
        map_part(folder, read_manifest(folder), part, verify=True)
    assert (folder / "graph.json").read_text() == "{}"
    assert (here / "there" / "sage" / "models" / "empty").read_bytes() == b""
    assert not (here / "there" / "manifest.json").exists()
    (here / "there" / "sage" / "train.py").write_text("trayn.py")
    assert copying.wanted(parcels(job)["a"][1].copied, ignore) == ("sage/train.py",)


def test_programs_stay_programs(here: Path) -> None:
    """Also those that are there already, from before they were programs here."""
    script, there = here / "sage" / "train.py", here / "there" / "sage" / "train.py"
    for program in (False, True, True):
        script.chmod(0o755 if program else 0o644)
        write(parcels(job_of(here / "there"))["a"][1])
        mode = there.stat().st_mode
        assert bool(mode & 0o100) == program
        assert not program or (mode & 0o111) << 2 == mode & 0o444
        assert not (there.parent / "models" / "sage.py").stat().st_mode & 0o111


@pytest.mark.parametrize("path", [".", "./", "../sage/."])
def test_a_folder_without_a_name_is_what_it_holds(here: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.chdir(here / "sage")
    _, scripts = parcels(job_of(), source="data", send={".": (path,)})["a"]
    assert (scripts.copied.folder, scripts.what) == ("/ws", "sage")
    assert {*scripts.copied.files} == {"train.py", "models/sage.py", "models/empty", "link.py"}


@pytest.mark.parametrize(
    ("source", "send", "complaint"),
    [
        (None, {}, "there is nothing to copy; set cache to a folder of the hosts, or --source"),
        ("none", {}, "there is no data set|none"),
        ("sage/data", {".": ("none.py",)}, r"there is no file or folder none.py; name another one \(\[ssh.send\]\)"),
    ],
)
def test_what_cannot_work_is_refused(here: Path, source: str | None, send: dict[str, tuple[str, ...]], complaint: str) -> None:
    with pytest.raises(HalohopError, match=complaint):
        parcels(job_of(), source=source, send=send)


def test_other_engines_and_more_hosts_than_partitions_are_refused(here: Path) -> None:
    with pytest.raises(InputError, match="engine='slurm' copies what it needs when it starts; use the engine ssh"):
        copy(replace(job_of(), engine="slurm"), None, Console())
    halohop.partition(ring(40), here / "one", num_parts=1, method="random")
    with pytest.raises(InputError, match=r"trainers-1 on b: .*; or take fewer hosts"):
        parcels(job_of(), source="one")
