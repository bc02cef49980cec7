"""What `halohop launch copy` would send, without hosts."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import halohop
from halohop.errors import HalohopError
from halohop.launch.jobs.dgl_copy import CopyOptions, hosts_job, parcels
from halohop.launch.jobs.host import copying
from halohop.launch.jobs.host.messages import Copied, Piece
from halohop.launch.jobs.ip_config import Entry
from halohop.store.disk import map_part, read_manifest
from halohop.testing.graphs import ring


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dgl") / "parts"
    halohop.partition(ring(40), path, num_parts=3, method="random")
    (path / "graph.json").write_text(json.dumps({"num_parts": 3}))
    return path


@pytest.fixture
def options(tmp_path: Path, parts: Path) -> CopyOptions:
    scripts = tmp_path / "sage"
    for name in ("train.py", "models/sage.py", "models/empty", "__pycache__/x.pyc", ".git/HEAD"):
        (scripts / name).parent.mkdir(parents=True, exist_ok=True)
        (scripts / name).write_text(name.replace("models/empty", ""))
    shutil.copytree(parts, scripts / "data")
    (scripts / "link.py").symlink_to("train.py")
    (tmp_path / "ip_config.txt").write_text("a\nfd00::8 30050\n")
    return CopyOptions(
        ip_config=str(tmp_path / "ip_config.txt"),
        workspace="/ws",
        rel_data_path="data/of/mine",
        part_config=str(scripts / "data" / "graph.json"),
        script_folder=str(scripts),
    )


def begins(copied: Copied) -> set[str]:
    return {path.partition("/")[0] for path in copied.files}


def test_each_host_gets_its_partitions_and_the_scripts(options: CopyOptions) -> None:
    found = parcels(options)
    assert [*found] == [Entry(host="a"), Entry(host="fd00::8", port=30050)]
    first, second = found.values()
    assert [one.copied.folder for one in first] == ["/ws/data/of/mine", "/ws"]
    assert (begins(first[0].copied), begins(second[0].copied)) == ({"part-0000", "part-0002"}, {"part-0001"})
    assert {"graph.json", "part-0001/stamp"} == {*second[0].copied.small}
    assert second[0].copied.manifest is not None
    assert first[1] == second[1]
    assert {*first[1].copied.files} == {f"sage/{name}" for name in ("train.py", "models/sage.py", "models/empty", "link.py")}
    assert first[1].copied.small == {"ip_config.txt": b"a\nfd00::8 30050\n"}
    assert all((first[1].source / path).is_file() for path in first[1].copied.files)


def test_what_a_host_writes_is_what_is_here(options: CopyOptions, tmp_path: Path) -> None:
    options = replace(options, workspace=str(tmp_path / "there"))
    for one in parcels(options)[Entry(host="a")]:
        missing = copying.wanted(one.copied)
        sent = iter([Piece(path=path, data=(one.source / path).read_bytes(), last=True) for path in missing])
        copying.write(one.copied, missing, sent.__next__)
        assert copying.wanted(one.copied) == ()
    folder = tmp_path / "there" / "data" / "of" / "mine"
    for part in (0, 2):
        map_part(folder, read_manifest(folder), part, verify=True)
    assert (tmp_path / "there" / "sage" / "models" / "sage.py").read_text() == "models/sage.py"
    assert (tmp_path / "there" / "sage" / "models" / "empty").read_bytes() == b""
    assert not (tmp_path / "there" / "manifest.json").exists()
    script = tmp_path / "there" / "sage" / "train.py"
    script.write_text("trayn.py")
    assert copying.wanted(parcels(options)[Entry(host="a")][1].copied) == ("sage/train.py",)


def test_programs_stay_programs(options: CopyOptions, tmp_path: Path) -> None:
    """Also those that are there already, from before they were programs here."""
    options = replace(options, workspace=str(tmp_path / "there"))
    script, there = Path(options.script_folder) / "train.py", tmp_path / "there" / "sage" / "train.py"
    for program in (False, True, True):
        script.chmod(0o755 if program else 0o644)
        scripts = parcels(options)[Entry(host="a")][1]
        missing = copying.wanted(scripts.copied)
        sent = iter([Piece(path=path, data=(scripts.source / path).read_bytes(), last=True) for path in missing])
        copying.write(scripts.copied, missing, sent.__next__)
        mode = there.stat().st_mode
        assert bool(mode & 0o100) == program
        assert not program or (mode & 0o111) << 2 == mode & 0o444
        assert not (there.parent / "models" / "sage.py").stat().st_mode & 0o111


def test_the_folder_of_the_partitions_may_be_named_itself(options: CopyOptions) -> None:
    found = parcels(options)
    bare = parcels(replace(options, part_config=str(Path(options.part_config).parent)))
    for entry, (own, scripts) in bare.items():
        assert scripts == found[entry][1]
        assert {**own.copied.small, "graph.json": b'{"num_parts": 3}'} == found[entry][0].copied.small


def test_a_folder_that_is_the_workspace_is_not_put_into_itself(options: CopyOptions) -> None:
    own = replace(options, workspace=options.script_folder)
    first = parcels(own)[Entry(host="a")][1]
    assert "models/sage.py" in first.copied.files
    assert str(first.source) == options.script_folder == first.copied.folder


def test_a_folder_without_a_name_is_what_it_holds(options: CopyOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(options.script_folder)
    for spelled in (".", "./", f"{options.script_folder}/."):
        scripts = parcels(replace(options, script_folder=spelled))[Entry(host="a")][1]
        assert (scripts.copied.folder, scripts.what) == ("/ws", "sage")
        assert {*scripts.copied.files} == {"train.py", "models/sage.py", "models/empty", "link.py"}


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"rel_data_path": "/data"}, "rel_data_path='/data' must be a folder below the workspace"),
        ({"rel_data_path": "../data"}, r"rel_data_path='\.\./data' must be a folder below"),
        ({"script_folder": "/no/folder"}, "script_folder='/no/folder' is no folder here"),
        ({"ip_config": "/no/ip_config.txt"}, "there is no file /no/ip_config.txt; name the one that lists the hosts"),
        ({"part_config": "/no/graph.json"}, "there is no file /no/graph.json; name the one that partition_graph wrote"),
        (
            {"part_config": "{here}/dgl/graph.json"},
            "dgl has no manifest.json: .* `halohop partition dgl:.*/graph.json FOLDER`",
        ),
        ({"part_config": "{here}/sage/data/two.json"}, "two.json says 2 partitions, but the data set beside it has 3"),
        ({"ip_config": "{here}/four.txt"}, "ip_config names 4 hosts, but part_config has 3 partitions"),
    ],
)
def test_what_cannot_work_is_refused(options: CopyOptions, tmp_path: Path, changed: dict[str, str], complaint: str) -> None:
    (tmp_path / "dgl").mkdir()
    (tmp_path / "dgl" / "graph.json").write_text('{"num_parts": 2}')
    (tmp_path / "sage" / "data" / "two.json").write_text('{"num_parts": 2}')
    (tmp_path / "four.txt").write_text("a\nb\nc\nd\n")
    with pytest.raises(HalohopError, match=complaint):
        parcels(replace(options, **{name: value.replace("{here}", str(tmp_path)) for name, value in changed.items()}))


def test_hosts_are_reached_as_ssh_and_the_options_say() -> None:
    job = hosts_job([Entry(host="a"), Entry(host="b", port=7)], python="/p", user="ann", port=None)
    assert (job.hosts, job.python) == (("a", "b"), "/p")
    assert job.options == {"hosts": {"a": {"user": "ann"}, "b": {"user": "ann"}}}
