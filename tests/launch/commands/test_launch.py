import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import halohop
from halohop.errors import InputError
from halohop.launch.cli import app
from halohop.launch.jobs.job import Job
from halohop.launch.jobs.lock import alone_in
from halohop.launch.jobs.plan import FORMAT
from halohop.launch.jobs.secret import secret_of

JOB = """
hosts = 2
trainers = 2
data = "parts"
out = "run"
[servers]
count = 3
options = { grace = 5, cache = "1GB" }
[train]
epochs = 3
exclude-seed-edges = false
[ssh]
user = "me"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_parts: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").symlink_to(tiny_parts)
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "glt.yml").write_text("nodes: [a]\nports: [22]\ndst_paths: [/x]\n")
    (tmp_path / "train.py").write_text("print('here')")
    return tmp_path


def outcome(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["launch", *words])
    return done.exit_code, " ".join(done.output.split())


def test_a_dry_run_prints_the_plan_and_starts_nothing(folder: Path) -> None:
    code, text = outcome("--config", "job.toml", "--dry-run", "--engine", "slurm", "--hosts", "a,b", "--env", "X=1")
    assert code == 0
    made = json.loads(text)
    assert (made["format"], made["version"]) == (FORMAT, halohop.__version__)
    assert (made["job"]["engine"], made["hosts"], made["master"]) == ("slurm", ["a", "b"], "a:0")
    server, *_, trainers = made["processes"]
    assert [process["name"] for process in made["processes"]] == ["server-0", "server-1", "server-2", "trainers-0", "trainers-1"]
    serve = f"serve {folder}/parts --share 0/3 --listen 0.0.0.0:0 --advertise a:0 --peers a:0,b:0,a:0"  # the job chooses ports
    assert " ".join(server["argv"]) == f"-m halohop {serve} --grace 5 --cache 1GB"
    assert server["env"] == {"X": "1"}
    assert server["data"] == {
        "source": f"{folder}/parts",
        "folder": f"{folder}/parts",
        "shares": [{"index": 0, "count": 3}],
        "copied": False,
    }
    assert (trainers["ranks"], trainers["python"]) == (2, sys.executable)
    assert " ".join(trainers["argv"]).startswith("-m halohop train a:0,b:0,a:0 ")
    assert " ".join(trainers["argv"]).endswith("--epochs 3 --no-exclude-seed-edges")
    assert trainers["needs"] == ["server-0", "server-1", "server-2"]
    assert not (folder / "run").exists()


def test_a_script_on_the_command_line_takes_the_place_of_the_files_train(folder: Path) -> None:
    code, text = outcome("--config", "job.toml", "--dry-run", "--", "train.py", "{graph}", "--epochs", "5")
    assert code == 0
    graph = "127.0.0.1:5510,127.0.0.1:5511,127.0.0.1:5512"
    assert json.loads(text)["processes"][-1]["argv"] == ["train.py", graph, "--epochs", "5"]
    code, text = outcome("--data", "parts", "--hosts", "2", "--out", "r", "--print", "--", "train.py", "{graph}", "{out}")
    assert code == 0
    data = json.loads(text)["processes"][-1]["data"]
    assert (data["source"], data["shares"], data["copied"]) == (f"{folder}/parts", [{"index": 1, "count": 2}], True)
    assert data["folder"].startswith(f"{folder}/r/nodes/host-1/parts-")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="OpenSSH's client is not installed")
def test_a_plain_program_and_the_port_where_ranks_meet_are_options(folder: Path) -> None:
    words = ["--engine", "ssh", "--hosts", "10.0.0.7,10.0.0.8", "--data", "parts", "--start", "plain", "--master-port", "4711"]
    code, text = outcome(*words, "--dry-run", "--", "train.py", "--rank={rank}", "{master_addr}:{master_port}")
    assert code == 0
    made = json.loads(text)
    assert (made["job"]["start"], made["master"]) == ("plain", "10.0.0.7:4711")
    assert made["processes"][1]["argv"] == ["train.py", "--rank=1", "10.0.0.7:4711"]


def test_what_is_printed_has_no_secret(folder: Path) -> None:
    (folder / "secret").write_text("a secret of some length")
    (folder / "secret").chmod(0o600)
    for words in (["--print"], ["--dry-run"], ["--dry-run", "--engine", "slurm"]):
        code, text = outcome("--config", "job.toml", "--token-file", "secret", *words)
        assert code == 0
        assert "halohop" in text
        assert "serve" in text
        assert "a secret" not in text


@pytest.mark.timeout(60)
def test_it_runs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert outcome("--data", "parts", "--", "train.py")[0] == 0
    (run,) = (folder / "runs").iterdir()
    assert (run / "logs" / "host-0-rank-0.log").read_text() == "here\n"
    assert json.loads((run / "plan.json").read_text())["processes"][0]["argv"] == ["train.py"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "--data is missing"),
        (["--data", "parts"], "give either a script to run"),
        (["--data", "parts", "--train", "epochs=1", "--", "train.py"], "not both"),
        (["--data", "parts", "--train", "epoch=1"], "options of halohop train: unknown option 'epoch'; did you mean 'epochs'"),
        (["--data", "parts", "--train", "nodes=2"], "options of halohop train: unknown option 'nodes'"),
        (["--data", "parts", "--train", "epochs"], "'--train': 'epochs' is not like NAME=VALUE"),
        (["--data", "parts", "--env", "A=1", "--env", "A=2", "--", "train.py"], "'--env': A is given twice"),
        (["--config", "absent.toml"], "there is no configuration file absent.toml"),
        (["--config", "glt.yml"], "a file of GLT's launcher; run `python -m halohop.glt.launch --config glt.yml`"),
        (["--workspace", "w", "python3 t.py"], "--workspace is an option of DGL's launcher; run `python -m halohop.dgl.launch`"),
        (["--data", "parts", "--", "trian.py", "--workspace", "w"], "there is no script trian.py"),
        (["--config", "job.toml", "--engine", "sge"], "unknown engine 'sge'; use one of local, ssh, slurm, k8s, ray"),
        (["--config", "job.toml", "--hosts", "a,a"], "host 'a' is named twice"),
        (["--config", "job.toml", "--replicas", "4"], "--replicas 4 of each partition need as many servers, but there are 3"),
        (["--data", "parts", "--", "trian.py"], "there is no script trian.py"),
    ],
)
def test_what_cannot_work_is_refused(folder: Path, words: list[str], complaint: str) -> None:
    code, text = outcome(*words)
    assert code == 2
    assert complaint in text


def test_an_unknown_option_of_servers_names_the_nearest(folder: Path) -> None:
    (folder / "job.toml").write_text(JOB.replace("grace = 5", "grcae = 5"))
    assert "options of halohop serve: unknown option 'grcae'; did you mean 'grace'" in outcome("--config", "job.toml")[1]
    (folder / "job.toml").write_text(JOB.replace("grace = 5", 'listen = "x:1"'))
    assert "options of halohop serve: unknown option 'listen'" in outcome("--config", "job.toml")[1]


@pytest.mark.parametrize(
    "env",
    [
        {"RANK": "1", "WORLD_SIZE": "2"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_LOCALID": "1"},
    ],
)
def test_a_rank_of_a_launcher_launches_nothing(folder: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    code, text = outcome("--data", "parts", "--out", "run", "--", "train.py")
    assert code == 2
    assert "a launcher has started this process as rank 1 of 2" in text
    assert not (folder / "run").exists()


def test_two_launches_do_not_share_a_run_folder(folder: Path) -> None:
    with alone_in(folder / "run"):
        code, text = outcome("--data", "parts", "--out", "run", "--", "train.py")
        assert code == 2
        assert f"another launch is running in {folder}/run" in text
    with alone_in(folder / "run"):
        pass


def test_a_token_is_one_that_nobody_else_reads(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("a secret of some length\n")
    job = Job(data="d", out="o", run=("x",), token_file=str(file))
    file.chmod(0o640)
    with pytest.raises(InputError, match=rf"others can read the token in {file} \(mode 640\); .*chmod 600"):
        secret_of(job)
    file.chmod(0o600)
    assert secret_of(job) == "a secret of some length"
    file.write_text("short")
    with pytest.raises(InputError, match=f"{file}: a token of 5 bytes can be guessed"):
        secret_of(job)
    for other in (b"a secret of two\nlines and more", b"sixteen bytes\xff\xff\xff", b"a zero \0 in the middle"):
        file.write_bytes(other)
        with pytest.raises(InputError, match=f"{file}: a token of a job must be one line of text"):
            secret_of(job)
    file.unlink()
    with pytest.raises(InputError, match=f"cannot read the token file {file}: No such file"):
        secret_of(job)
    first, second = (secret_of(Job(data="d", out="o", run=("x",))) for _ in range(2))
    assert first != second
    assert first not in os.environ.values()
