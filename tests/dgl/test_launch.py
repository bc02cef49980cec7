"""DGL's launcher as a job for `halohop launch`. tests/launch/jobs/ssh/test_dgl_hosts.py runs it on hosts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from halohop.cores import usable_cores
from halohop.dgl import launch
from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers, read_job
from halohop.launch.jobs.plan import plan
from tests.support.forked import Forked

LINE = "--workspace work --num_trainers 2 --part_config data/graph.json --ip_config ip_config.txt --out run"
COMMAND = "python3 train.py --lr 0.01"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workspace of two hosts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "ip_config.txt").write_text("10.0.0.7\nfd00::8 30050\n")
    return tmp_path


def started(monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The words of the process that the command becomes."""
    found: list[str] = []
    monkeypatch.setattr(sys, "argv", ["launch.py", *words])
    monkeypatch.setattr(os, "execv", lambda _, argv: found.extend(argv))
    launch.main()
    return found


def read(monkeypatch: pytest.MonkeyPatch, *more: str, command: str = COMMAND) -> Job:
    """The job that a command line writes."""
    started(monkeypatch, *LINE.split(), *more, command)
    return read_job(Path("run/job.toml"), {})


def test_the_token_goes_into_no_file(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        started(monkeypatch, *LINE.split(), "--extra_envs", f"HALOHOP_TOKEN={'5e' * 16}", COMMAND)
    assert "write the token to a file (--token-file)" in capsys.readouterr().err
    assert not (here / "run" / "job.toml").exists()


def test_a_command_line_becomes_a_job_over_ssh(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "--num_samplers 3 --num_servers 2 --num_server_threads 4 --ssh_username ann --ssh_port 2222 --num_omp_threads 5"
    job = read(monkeypatch, *words.split(), "--extra_envs", "A=x y", 'B="$HOME"=1\\')
    assert (job.engine, job.start, job.hosts, job.master_port) == ("ssh", "plain", ("10.0.0.7", "fd00::8"), 0)
    assert (job.folder, job.data, job.out) == (str(here / "work"), str(here / "work" / "data"), str(here / "run"))
    assert job.servers == Servers(count=2, port=0, options={"threads": 8})
    own = {"user": "ann", "port": 2222}
    assert job.options["hosts"] == {"10.0.0.7": own, "fd00::8": {**own, "server_port": 30050}}
    assert job.options["same"] == ["data/graph.json", "train.py"]
    assert job.env == {
        "DGL_DIST_MODE": "distributed",
        "DGL_ROLE": "client",
        "DGL_NUM_SAMPLER": "3",
        "DGL_NUM_SERVER": "2",
        "DGL_NUM_CLIENT": "16",
        "DGL_CONF_PATH": "data/graph.json",
        "DGL_IP_CONFIG": "ip_config.txt",
        "DGL_GRAPH_FORMAT": "csc",
        "DGL_GROUP_ID": "0",
        "OMP_NUM_THREADS": "5",
        "HALOHOP_SERVERS": "{graph}",
        "A": "x y",
        "B": '"$HOME"=1\\',
    }


def test_each_host_starts_its_ranks_and_knows_the_servers(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = read(monkeypatch, "--num_server_threads", "1")
    made = plan(job, ["a", "b"], ["10.0.0.7", "fd00::8"], ports={"a": [21000], "b": range(30050, 30060)})
    assert made.trainers[1].argv[2] == (
        "python3 -m torch.distributed.run --nproc_per_node=2 --nnodes=2 --node_rank=1 --master_addr=10.0.0.7 --master_port=0 "
        "train.py --lr 0.01"
    )
    assert made.trainers[1].env["HALOHOP_SERVERS"] == "10.0.0.7:21000,[fd00::8]:30050"
    assert made.servers[1].argv[3:8] == (str(here / "work" / "data"), "--share", "1/2", "--listen", "[::]:30050")


def test_bash_runs_the_command_with_the_python_of_the_job_first(here: Path) -> None:
    own = here / "env" / "bin"
    own.mkdir(parents=True)
    (own / "python3").symlink_to(sys.executable)
    command = "A='x y'; command -v python3; python3 -c 'import sys; sys.stdout.write(sys.argv[1])' \"$A\" && exit 3"
    done = subprocess.run([own / "python3", "-c", launch._BASH, command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split("\n")) == (3, [str(own / "python3"), "x y"]), done.stderr


@pytest.mark.parametrize(
    ("given", "threads"),
    [("", 4), ("--num_servers 3", 4), ("--num_servers 5", 5), ("--num_servers 3 --num_server_threads 1", 3)],
)
def test_a_server_answers_as_many_requests_as_its_host_has_cores_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, given: str, threads: int
) -> None:
    monkeypatch.setattr(launch, "usable_cores", lambda: list(range(8)))
    servers = read(monkeypatch, *given.split()).servers
    assert servers is not None
    assert servers.options == {"threads": threads}


def test_what_is_not_given(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = read(monkeypatch, "--num_servers", "0")
    assert (job.servers, "HALOHOP_SERVERS" in job.env) == (None, False)
    assert job.env["OMP_NUM_THREADS"] == str(max(len(usable_cores()) // 4, 1))
    assert job.options["hosts"]["10.0.0.7"] == {}
    job = read(monkeypatch, "--part_config", "/abs/parts", command="cd src && python3 train.py")
    assert (job.data, job.options["same"]) == ("/abs/parts", [])


def test_ip_config_is_found_in_the_workspace_first_then_here(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "ip_config.txt").write_text("10.0.0.1\n10.0.0.2\n10.0.0.3\n")
    assert read(monkeypatch).hosts == ("10.0.0.7", "fd00::8")
    (here / "work" / "ip_config.txt").unlink()
    assert read(monkeypatch).hosts == ("10.0.0.1", "10.0.0.2", "10.0.0.3")


def test_other_options_go_to_halohop_launch(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = ["--python", "/opt/python", "--dry-run", "--graph_format", "csc,coo", "--server_name", "s"]
    words = started(monkeypatch, *LINE.split(), *more, COMMAND)
    assert words == [
        sys.executable,
        "-m",
        "halohop",
        "launch",
        "--python",
        "/opt/python",
        "--dry-run",
        "--config",
        "run/job.toml",
    ]


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")
def test_the_command_prints_the_plan(here: Path) -> None:
    done = Forked("halohop.dgl.launch", [*LINE.split(), "--dry-run", COMMAND], os.environ, cwd=here).finish()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hosts"] == ["10.0.0.7", "fd00::8"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--num_trainers", "0", COMMAND], "num_trainers must be at least 1"),
        (["--num_servers", "-1", COMMAND], "num_servers at least 0"),
        (["--ip_config", "none.txt", COMMAND], "No such file or directory: 'none.txt'"),
        (["--ip_config", "bad.txt", COMMAND], "bad.txt, line 2: 'b x' is not a host; write 10.0.0.7, or 10.0.0.7 30050"),
        (["./train.sh"], "the command './train.sh' must start Python, and no launcher; write 'python3 train.py"),
        (["python3 -m torch.distributed.run train.py"], "must start Python, and no launcher"),
    ],
)
def test_what_cannot_work_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], complaint: str
) -> None:
    (here / "bad.txt").write_text("a\nb x\n")
    with pytest.raises(SystemExit, match="2"):
        read(monkeypatch, *words[:-1], command=words[-1])
    assert complaint in " ".join(capsys.readouterr().err.split())
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        ("python train.py", "python", " train.py"),
        ("python3.12 -u train.py 'a b'", "python3.12 -u", " train.py 'a b'"),
        ("A=1 /opt/env/bin/python3 -m package.train", "A=1 /opt/env/bin/python3", " -m package.train"),
        ("mkdir -p my_python;python3 train.py && python3 more.py", "mkdir -p my_python;python3", " train.py && python3 more.py"),
    ],
)
def test_torchs_launcher_follows_the_first_python(command: str, before: str, after: str) -> None:
    assert launch.with_ranks(command, 4) == f"{before} -m torch.distributed.run --nproc_per_node=4 {launch._RANKS}{after}"


def test_lines_of_ip_config(tmp_path: Path) -> None:
    file = tmp_path / "ip_config.txt"
    file.write_text(
        "\ufeff10.0.0.7 30050\r\n\n   # all of it\n\t10.0.0.8\t\nfd00::9 # IPv6\n[fd00:0::A] 22\ngraph_4.example\nfe80::1%eth0"
    )
    assert launch.read_ip_config(file) == {
        "10.0.0.7": 30050,
        "10.0.0.8": 0,
        "fd00::9": 0,
        "fd00:0::A": 22,
        "graph_4.example": 0,
        "fe80::1%eth0": 0,
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a\n10.0.0.8 30050 1\n", "line 2: '10.0.0.8 30050 1' is not a host; write 10.0.0.7, or 10.0.0.7 30050"),
        ("a 0\n", "line 1: 'a 0' is not a host"),
        ("a 65536\n", "line 1: 'a 65536' is not a host"),
        ("10.0.0.7:30050\n", "line 1: '10.0.0.7:30050' is not a host"),
        ("ann@a\n", "line 1: 'ann@a' is not a host"),
        ("a\nb\na 30050\n", "line 3: a is named twice; set num_trainers to start several on a host"),
    ],
)
def test_a_line_that_cannot_work_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "ip_config.txt").write_text(text)
    with pytest.raises(InputError, match=complaint.replace(".", r"\.")):
        launch.read_ip_config(tmp_path / "ip_config.txt")
