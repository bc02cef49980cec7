"""The engine for one machine: a user's script and servers, started by one plan."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from halohop.errors import ClusterError, InputError
from halohop.launch.jobs.engine import engine_of
from halohop.launch.jobs.job import Job, Servers
from halohop.launch.processes import ends
from halohop.launch.terminal import logs
from halohop.testing.worlds import environment, free_addresses

SCRIPT = """
import json, os, sys
from pathlib import Path
import beside

names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "MINE", "HALOHOP_ENCRYPT", "HALOHOP_TOKEN")
graph, out, word = sys.argv[1:]
parts = sorted(path.name for path in Path(graph).iterdir())
about = {"env": {name: os.environ.get(name) for name in names}, "cwd": os.getcwd(), "parts": parts, "word": word}
about |= {"file": __file__, "name": __name__, "first": sys.path[0]}
Path(out, f"rank-{os.environ['RANK']}.json").write_text(json.dumps(about))
print(f"a line of rank {os.environ['RANK']}", flush=True)
print('{"event": "no event of ours"}', flush=True)
print(f"an error of rank {os.environ['RANK']}", file=sys.stderr)
"""

READER = """
import os, sys
import halohop
with halohop.connect(sys.argv[1].split(","), sampling="client") as graph:
    loader = halohop.NeighborLoader(graph, [-1], batch_size=200, num_workers=0)
    print("nodes", sum(batch.batch_size for batch in loader), flush=True)
"""


@pytest.fixture
def job(tmp_path: Path, tiny_parts: Path) -> Any:
    """A job of a script in a folder of its own, with an import beside it."""
    folder = tmp_path / "work"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "train.py").write_text(SCRIPT)
    (folder / "code" / "beside.py").write_text("")

    def with_options(**given: Any) -> Job:
        values = {"data": str(tiny_parts), "out": str(tmp_path / "run"), "folder": str(folder)}
        return Job(**{**values, "run": ("code/train.py", "{graph}", "{out}", "a word"), **given})

    return with_options


def run(job: Job) -> None:
    engine_of("local").run(job, logs.people())


@pytest.mark.timeout(60)
def test_a_script_runs_as_it_is_with_torchruns_environment(job: Any, tmp_path: Path, capfd: Any) -> None:
    run(job(hosts=("a", "b"), trainers=2, env={"MINE": "yes"}, encrypt=True))
    about = [json.loads((tmp_path / "run" / f"rank-{rank}.json").read_text()) for rank in range(4)]
    assert [each["env"]["GROUP_RANK"] for each in about] == ["0", "0", "1", "1"]
    assert [each["env"]["RANK"] for each in about] == ["0", "1", "2", "3"]
    assert {(each["env"]["MINE"], each["env"]["HALOHOP_ENCRYPT"], each["word"]) for each in about} == {("yes", "1", "a word")}
    assert len({each["env"]["HALOHOP_TOKEN"] for each in about}) == 1
    assert len(about[0]["env"]["HALOHOP_TOKEN"]) == 64
    assert about[0]["parts"] == about[1]["parts"] == ["manifest.json", "part-0000", "part-0002"]
    assert about[2]["parts"] == about[3]["parts"] == ["manifest.json", "part-0001"]
    folder = str(tmp_path / "work")
    assert {(each["cwd"], each["file"], each["name"]) for each in about} == {(folder, "code/train.py", "__main__")}
    assert {each["first"] for each in about} == {f"{folder}/code"}
    shown = capfd.readouterr()
    assert shown.out.splitlines() == ["a line of rank 0", '{"event": "no event of ours"}']
    assert "an error of rank 0" in shown.err
    assert "rank 1" not in shown.err
    written = (tmp_path / "run" / "logs" / "b-rank-3.log").read_text()
    assert "a line of rank 3" in written
    assert "an error of rank 3" in written
    assert "a line of rank 0" in (tmp_path / "run" / "logs" / "a-rank-0.log").read_text()


@pytest.mark.timeout(60)
def test_one_host_reads_the_folder_itself_and_shows_all_lines_where_asked(job: Any, tmp_path: Path, capfd: Any) -> None:
    logs.configure(logs.level_of(verbose=1, quiet=False))
    try:
        run(job(trainers=2))
    finally:
        logs.configure(logs.level_of(verbose=0, quiet=False))
    about = json.loads((tmp_path / "run" / "rank-1.json").read_text())
    assert about["parts"] == ["manifest.json", "part-0000", "part-0001", "part-0002"]
    assert not (tmp_path / "run" / "nodes").exists()
    lines = capfd.readouterr().err.splitlines()
    assert "[host-0 rank-1] a line of rank 1" in lines
    assert "[host-0 rank-0] an error of rank 0" in lines


SPAWNER = """
import os, sys, torch.distributed as dist, torch.multiprocessing as mp

def work(rank, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    dist.barrier()
    os.write(1, f"met {rank} {'RANK' in os.environ}\\n".encode())  # at once: both ranks have the script's stdout

if __name__ == "__main__":
    print("host", *sys.argv[2:], flush=True)
    mp.spawn(work, args=(sys.argv[1],), nprocs=2)
"""


@pytest.mark.timeout(120)
def test_a_script_that_starts_its_own_ranks_runs_once_on_each_host_without_data(tmp_path: Path, job: Any, capfd: Any) -> None:
    """As DGL's tutorial of several GPUs does, whose ranks meet at an address of their own."""
    (tmp_path / "work" / "multi.py").write_text(SPAWNER)
    port = free_addresses(1)[0].rpartition(":")[2]
    run(job(data="", start="plain", run=("multi.py", port, "{rank}", "{hosts}"), out=str(tmp_path / "run")))
    out = capfd.readouterr().out.splitlines()
    assert out[0] == "[host-0] host 0 1"
    assert sorted(out[1:]) == ["[host-0] met 0 False", "[host-0] met 1 False"]
    assert (tmp_path / "run" / "logs" / "host-0-trainers-0.log").exists()
    (tmp_path / "work" / "bad.py").write_text("import sys; sys.exit(int(sys.argv[1]) * 3)")
    with pytest.raises(ClusterError, match=r"trainers 1 \(host-1, process \d+\) failed with exit code 3"):
        run(job(hosts=2, start="plain", run=("bad.py", "{rank}")))


@pytest.mark.timeout(60)
def test_data_from_afar_are_fetched_once_for_all_hosts(job: Any, tmp_path: Path, tiny_parts: Path) -> None:
    run(job(data=f"file://{tiny_parts}", cache=str(tmp_path / "cache"), hosts=3))
    for rank in range(3):
        about = json.loads((tmp_path / "run" / f"rank-{rank}.json").read_text())
        assert about["parts"] == ["manifest.json", f"part-000{rank}"]
    (fetched,) = (path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    assert (fetched / "manifest.json").read_bytes() == (tiny_parts / "manifest.json").read_bytes()


@pytest.mark.full
@pytest.mark.timeout(120)
def test_servers_serve_the_trainers_and_end_with_them(job: Any, tmp_path: Path) -> None:
    (tmp_path / "work" / "read.py").write_text(READER)
    port = int(free_addresses(2)[0].rpartition(":")[2])
    run(job(hosts=2, servers=Servers(port=port), run=("read.py", "{graph}")))
    for rank in range(2):
        assert "nodes 1000" in (tmp_path / "run" / "logs" / f"host-{rank}-rank-{rank}.log").read_text()
    for number in range(2):
        said = (tmp_path / "run" / "logs" / f"host-{number}-server-{number}.log").read_text()
        assert f"at tcp://127.0.0.1:{port + number}" in said
        with socket.create_server(("127.0.0.1", port + number)):
            pass  # it is free again


@pytest.mark.timeout(120)
def test_a_server_that_ends_early_is_named(job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "SETTLE_S", 0.1)
    (tmp_path / "work" / "wait.py").write_text("import time\ntime.sleep(600)")
    port = int(free_addresses(1)[0].rpartition(":")[2])
    said = r"(?s)server 0 \(host-0, process \d+\) failed with exit code 2.*Invalid value for '--lease'"
    with pytest.raises(ClusterError, match=said):
        run(job(servers=Servers(port=port, options={"lease": "soon"}), run=("wait.py",)))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"run": ("code/trian.py",)}, "there is no script code/trian.py in .*work; run begins with a script, or with -m"),
        ({"python": "/no/python"}, "there is no interpreter /no/python"),
        ({"hosts": 4}, "trainers-3 on host-3: share 3/4 has no partition, because the data set has 3"),
        ({"options": {"user": "me"}}, r"the engine local has no options of its own, but the file has \['user'\]"),
        ({"hosts": 2, "servers": Servers(count=2, replicas=3)}, "replicas=3 of each partition need as many servers"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    job: Any, given: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=complaint):
        run(job(**given))
    assert not (tmp_path / "run" / "logs").exists()


@pytest.mark.full
@pytest.mark.timeout(240)
def test_halohop_train_comes_to_the_same_as_without_a_job(tiny_parts: Path, tmp_path: Path) -> None:
    options = {"epochs": 2, "fanout": "5,5", "batch_size": 64}
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    train = ["train", str(tiny_parts), "--nodes", "2", "--trainers", "2", *words, "--out", "plain"]
    launched = ["launch", "--hosts", "2", "--trainers", "2", "--data", str(tiny_parts), "--out", "launched"]
    launched += [word for name, value in options.items() for word in ("--train", f"{name}={value}")]
    losses = []
    for command, out in ((train, "plain"), (launched, "launched")):
        done = subprocess.run(
            [sys.executable, "-m", "halohop", *command],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in (tmp_path / out / "metrics.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if line["event"] == "epoch"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert len(losses[0]) == 2
    assert not [*(tmp_path / "launched" / "logs").glob("*.json")]
