"""The command line of DGL's launcher, read as a job. tests/launch/jobs/ssh/test_dgl_hosts.py runs it on hosts."""

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halohop.cores import usable_cores
from halohop.errors import InputError
from halohop.launch.cli import app
from halohop.launch.jobs.dgl_file import DglOptions
from halohop.launch.jobs.job import Job, Servers, read_job
from halohop.launch.jobs.plan import plan
from halohop.launch.options.dgl import one_each

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")

LINE = "--workspace work --num_trainers 2 --num_servers 1 --part_config data/graph.json --ip_config ip_config.txt"
COMMAND = "python3 train.py --lr 0.01"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workspace: two hosts, two partitions."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work" / "data").mkdir(parents=True)
    (tmp_path / "work" / "ip_config.txt").write_text("10.0.0.7\nfd00::8 30050\n")
    (tmp_path / "work" / "data" / "graph.json").write_text(json.dumps({"num_parts": 2}))
    return tmp_path


def read(command: str = COMMAND, *, config: Path | None = None, **changed: object) -> Job:
    values = {"workspace": "work", "num_trainers": 2, "part_config": "data/graph.json", "ip_config": "ip_config.txt", **changed}
    return read_job(config, {"run": [command], "env": None}, out="run", of_dgl=DglOptions(**values))  # type: ignore[arg-type]


def test_a_command_line_becomes_a_job_over_ssh(here: Path) -> None:
    job = read(num_samplers=3, num_servers=2, num_server_threads=4, ssh_username="ann", ssh_port=2222, num_omp_threads=5)
    assert (job.engine, job.start, job.trainers, job.master_port) == ("ssh", "torchrun", 2, 0)
    assert (job.hosts, job.run) == (("10.0.0.7", "fd00::8"), ("train.py", "--lr", "0.01"))
    assert (job.folder, job.data) == (str(here / "work"), str(here / "work" / "data"))
    assert job.servers == Servers(count=2, port=0, options={"threads": 8})
    own = {"user": "ann", "port": 2222}
    assert job.options == {"hosts": {"10.0.0.7": own, "fd00::8": {**own, "server_port": 30050}}, "same": ["data/graph.json"]}
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
    }


@pytest.mark.parametrize(
    ("given", "threads"),
    [
        ({}, 4),
        ({"num_servers": 3}, 4),
        ({"num_servers": 5}, 5),
        ({"num_trainers": 16}, 1),
        ({"num_servers": 3, "num_server_threads": 1}, 3),
    ],
    ids=str,
)
def test_a_server_answers_as_many_requests_as_its_host_has_cores_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, int], threads: int
) -> None:
    monkeypatch.setattr("halohop.launch.jobs.dgl_file.usable_cores", lambda: list(range(8)))
    job = read(**given)
    assert job.servers is not None
    assert job.servers.options == {"threads": threads}


def test_trainers_learn_where_servers_answer(here: Path) -> None:
    made = plan(read(num_server_threads=1), ["a", "b"], ["10.0.0.7", "fd00::8"], ports={"a": [21000], "b": range(30050, 30060)})
    assert made.trainers[1].env["HALOHOP_SERVERS"] == "10.0.0.7:21000,[fd00::8]:30050"
    assert made.servers[1].argv[3:] == (
        str(here / "work" / "data"),
        *("--share", "1/2", "--listen", "[::]:30050", "--advertise", "[fd00::8]:30050"),
        *("--peers", "10.0.0.7:21000,[fd00::8]:30050", "--threads", "1"),
    )


def test_without_servers_the_hosts_of_the_trainers_hold_the_graph(here: Path) -> None:
    job = read(num_servers=0)
    assert job.servers is None
    assert "HALOHOP_SERVERS" not in job.env
    assert [trainer.data.folder for trainer in plan(job, ["a", "b"]).trainers if trainer.data] == [
        str(here / "work" / "data")
    ] * 2


def test_what_is_not_given(here: Path) -> None:
    job = read(num_trainers=1)
    assert job.env["OMP_NUM_THREADS"] == str(max(len(usable_cores()) // 2, 1))
    assert job.options["hosts"]["10.0.0.7"] == {}
    assert job.servers == Servers(count=2, port=0, options={"threads": len(usable_cores())})
    assert read("/opt/python train.py").python == "/opt/python"
    assert read("env/bin/python train.py").python == str(here / "work" / "env" / "bin" / "python")


def test_the_folder_of_the_partitions_may_be_named_itself(here: Path) -> None:
    (here / "work" / "data" / "manifest.json").write_text('{"nodes": [{"bounds": [0, 4]}]}')
    with pytest.raises(InputError, match="ip_config names 2 hosts, but part_config has 1 partitions"):
        read(part_config="data")
    (here / "work" / "data" / "manifest.json").write_text('{"nodes": [{"bounds": [0, 4, 9]}]}')
    job = read(part_config="data/")
    assert (job.data, job.options["same"]) == (str(here / "work" / "data"), [])
    with pytest.raises(InputError, match=r"work has no manifest\.json; name the JSON file .*, or its folder"):
        read(part_config=".")


def test_files_are_found_in_the_workspace_first_then_here(here: Path) -> None:
    (here / "ip_config.txt").write_text("10.0.0.1\n10.0.0.2\n10.0.0.3\n")
    assert len(read().hosts) == 2  # type: ignore[arg-type]
    (here / "work" / "ip_config.txt").unlink()
    with pytest.raises(InputError, match=r"ip_config names 3 hosts, but part_config has 2 partitions, too few .* into 3"):
        read()
    shutil.rmtree(here / "work")  # it is on the hosts only
    assert read().hosts == ("10.0.0.1", "10.0.0.2", "10.0.0.3")
    assert read(workspace="/abs").folder == "/abs"
    assert read(part_config="/abs/graph.json").data == "/abs"


def test_a_job_file_may_say_what_the_options_do_not(here: Path) -> None:
    config = here / "job.toml"
    ssh = '[ssh]\ncommand = "ssh -F x"\n[ssh.hosts."10.0.0.7"]\npython = "/p"\n'
    config.write_text(f'encrypt = true\n[env]\nA = "file"\nDGL_ROLE = "file"\n{ssh}')
    job = read(config=config, extra_envs=(("A", "own"),))
    assert job.encrypt
    assert (job.env["A"], job.env["DGL_ROLE"]) == ("own", "client")
    assert (job.options["command"], job.options["hosts"]["10.0.0.7"]) == ("ssh -F x", {"python": "/p"})


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"num_trainers": 0}, "num_trainers=0 must be at least 1"),
        ({"num_samplers": -1}, "num_samplers=-1 must be at least 0"),
        ({"num_servers": -1}, "num_servers=-1 must be at least 0"),
        ({"num_server_threads": 0}, "num_server_threads=0 must be at least 1"),
        ({"num_omp_threads": 0}, "num_omp_threads=0 must be at least 1"),
        ({"graph_format": "csc,dense"}, "graph_format='csc,dense': 'dense' is none of csc, csr, coo"),
        ({"workspace": ""}, "workspace is empty"),
        ({"ip_config": "none.txt"}, "there is no file none.txt; name the one that lists the hosts"),
        ({"part_config": "text.json"}, "text.json cannot be read as JSON"),
        ({"part_config": "ip_config.txt"}, "ip_config.txt has no manifest.json; name the JSON file"),
        ({"part_config": "bad.json"}, "bad.json does not say how many partitions there are; name the file that partition_graph"),
        ({"extra_envs": (("HALOHOP_TOKEN", "x"),)}, "the token is not given in env"),
        ({"extra_envs": (("A-B", "x"),)}, "'A-B' is not a name of an environment variable"),
    ],
)
def test_what_cannot_work_is_refused(here: Path, changed: dict[str, object], complaint: str) -> None:
    (here / "work" / "text.json").write_text("text")
    (here / "work" / "bad.json").write_text('{"num_parts": "2"}')
    with pytest.raises(Exception, match=complaint):
        read(**changed)  # type: ignore[arg-type]


def invoked(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["launch", *words])
    return done.exit_code, done.output


@needs_ssh
def test_the_command_prints_the_plan(here: Path) -> None:
    extra = ["--extra_envs", "A=x y", "B=$HOME=1", "--graph_format", "csc,coo", "--num_samplers", "1", "--server_name", "s"]
    code, text = invoked(*LINE.split(), *extra, "--out", "run", "--dry-run", "python3 train.py --name 'a b'")
    assert code == 0, text
    made = json.loads(text)
    trainers = made["processes"][-1]
    assert (trainers["name"], trainers["ranks"], trainers["python"]) == ("trainers-1", 2, read().python)
    assert trainers["argv"] == ["train.py", "--name", "a b"]
    assert trainers["env"].items() >= {"A": "x y", "B": "$HOME=1", "DGL_CONF_PATH": "data/graph.json"}.items()
    assert made["master"] == "10.0.0.7:0"
    before = invoked("python3 train.py --name 'a b'", "--dry-run", *extra, "--out", "run", *LINE.split())
    assert before == (0, text)
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--num_servers", "1", COMMAND], "--num_servers is an option of DGL's launcher, which needs"),
        ([*LINE.split()], "the command stands at the end, in quotes, as one string"),
        ([*LINE.split(), "--hosts", "a,b", COMMAND], "--hosts a,b contradicts --ip_config"),
        ([*LINE.split(), "--trainers", "2", COMMAND], "--trainers 2 contradicts --num_trainers"),
        ([*LINE.split(), "--servers", "2", COMMAND], "--servers 2 contradicts --num_servers"),
        ([*LINE.split(), "--engine", "slurm", COMMAND], "--engine slurm contradicts --ip_config"),
        ([*LINE.split(), "--extra_envs", "A=1", "A=2", COMMAND], "--extra_envs A is given twice"),
        ([*LINE.split(), "--extra_envs", "A-B=1", COMMAND], "'A-B' is not a name of an environment variable"),
        ([*LINE.split(), "--epochs", "3", COMMAND], "--epochs 3 is for configuration files of GLT's launcher"),
    ],
)
def test_options_that_do_not_fit_are_named(here: Path, words: list[str], complaint: str) -> None:
    code, text = invoked(*words)
    assert code == 2
    assert complaint in " ".join(text.split()), text


def test_settings_end_where_another_word_begins() -> None:
    assert [*one_each(["--extra_envs=A=1", "B=2", "C", "D=3"])] == ["--extra_envs=A=1", "--extra_envs", "B=2", "C", "D=3"]
    assert [*one_each(["--extra_envs", "A=", "python3 a.py --x=1"])] == ["--extra_envs", "A=", "python3 a.py --x=1"]
    assert [*one_each(["--", "train.py", "A=1"])] == ["--", "train.py", "A=1"]


def test_environment_of_this_process_is_not_sent(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "x")
    assert "SECRET_OF_MINE" in os.environ
    assert "SECRET_OF_MINE" not in read().env
