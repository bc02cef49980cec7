"""The batch script: bash reads it, arguments arrive as they are, and every way in which a job may end is seen to."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halohop.errors import InputError
from halohop.launch.jobs.job import Job, Servers, job_of
from halohop.launch.jobs.slurm.options import Options
from halohop.launch.jobs.slurm.script import log_of, script
from halohop.world import World
from tests.support.deadlines import within
from tests.support.slurm_stubs import Stubs

RECORDER = """#!/bin/bash
printf '%s\\0' "$@" > "$STUBS/argv-${RANK-}-$SLURMD_NODENAME"
env -0 > "$STUBS/env-${RANK-}-$SLURMD_NODENAME"
"""
"""Stands for the interpreter: keeps its arguments and its environment."""

JOBS: list[dict[str, Any]] = [
    {"run": ("train.py", "{graph}")},
    {"train": {"epochs": 2}},
    {"train": {}, "servers": Servers(count=2), "cache": "/scratch/{host}"},
    {"run": ("train.py", "--graph={graph}"), "servers": Servers(count=5, replicas=2), "hosts": ("n2", "n1"), "trainers": 4},
    {"run": ("a.py",), "data": "s3://bucket/parts", "cache": "/scratch", "token_file": "/keys/a b/token", "encrypt": True},
    {"run": ("a.py", "it's", "$HOME", "two\nlines", '"', "", "-e", "%j", "#"), "env": {"A": "b c", "B": "$(x)"}},
    {"run": ("a.py",), "servers": Servers(shares=("0/3,1/3", "2/3")), "hosts": 40},
]


def job(**given: Any) -> Job:
    values = {"engine": "slurm", "name": "sage", "hosts": 2, "data": "/data/parts", "out": "/runs/a b", "folder": "/gnn"}
    return Job(**values | given)


@pytest.fixture
def stubs(tmp_path: Path) -> Stubs:
    return Stubs(tmp_path, "n1", "n2")


@pytest.mark.parametrize("wanted", JOBS, ids=range(len(JOBS)))
def test_scripts_are_what_bash_and_shellcheck_expect(wanted: dict[str, Any], tmp_path: Path) -> None:
    options = Options(time="4:00:00", cpus_per_task=4, before=("module load python",), options=("--exclusive",))
    file = tmp_path / "job.sh"
    file.write_text(script(job(**wanted), options))
    subprocess.run(["bash", "-n", file], check=True, timeout=60)
    if shutil.which("shellcheck"):
        done = subprocess.run(["shellcheck", "--severity=warning", file], capture_output=True, text=True, timeout=60, check=False)
        assert not done.stdout
    assert max(map(len, file.read_text().splitlines())) < 130


def test_what_sbatch_is_asked_for() -> None:
    options = Options(
        partition="gpu",
        account="lab",
        time="4:00:00",
        cpus_per_task=8,
        gpus_per_node="a100:4",
        mem="64G",
        signal=300,
        options=("--constraint=ib",),
    )
    asked = [
        line for line in script(job(hosts=("n1", "n2"), trainers=4, train={}), options).splitlines() if line.startswith("#SBATCH")
    ]
    assert asked == [
        "#SBATCH --job-name=sage",
        "#SBATCH --nodes=2",
        "#SBATCH --nodelist=n1,n2",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --gpus-per-node=a100:4",
        "#SBATCH --mem=64G",
        "#SBATCH --partition=gpu",
        "#SBATCH --account=lab",
        "#SBATCH --time=4:00:00",
        "#SBATCH --chdir=/gnn",
        '#SBATCH --output="/runs/a b/logs/slurm-%j.log"',
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:USR1@300",
        "#SBATCH --requeue",
        "#SBATCH --constraint=ib",
    ]
    asked = script(job(train={}), Options(signal=0, restarts=0)).splitlines()
    assert "#SBATCH --no-requeue" in asked
    assert not any("--signal" in line for line in asked if line.startswith("#SBATCH"))
    assert log_of(job(train={}, out="/runs/50%")) == "/runs/50%%/logs/slurm-%j.log"


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
awkward = st.sampled_from(
    ["", "a b", "it's", '"', "$HOME", "`x`", "a\nb", "\r\n", "\\", "\\n", "*", "~", "!!", "-n", "host-0", "#", "\x01"]
)


@settings(max_examples=8)
@given(st.lists(texts | awkward, min_size=1, max_size=20), texts | awkward)
@example(["a\nb", "it's", '"$HOME"', "\\", "$(exit 3)", "é", "${hosts[0]}", "\t\x7f"], "b\nc'")
def test_arguments_and_environment_arrive_as_they_are(arguments: list[str], value: str) -> None:
    with tempfile.TemporaryDirectory(prefix="stubs") as folder:
        stubs = Stubs(Path(folder), "n1", "n2")
        python = stubs.write("python", RECORDER)
        wanted = job(run=("train.py", *arguments), env={"VALUE": value}, out=f"{folder}/a b", python=str(python))
        code, output = stubs.run(script(wanted, Options()))
        assert (code, output) == (0, "halohop: done\n")
        for rank, host in enumerate(stubs.hosts):
            argv = (stubs.folder / f"argv-{rank}-{host}").read_bytes().decode().split("\0")[:-1]
            assert argv == ["train.py", *arguments]
            assert f"VALUE={value}" in (stubs.folder / f"env-{rank}-{host}").read_bytes().decode().split("\0")


def environment(stubs: Stubs, name: str) -> dict[str, str]:
    pairs = (stubs.folder / f"env-{name}").read_text().split("\0")[:-1]
    return dict(pair.split("=", 1) for pair in pairs)


def test_ranks_find_the_environment_of_torchrun_and_one_secret(stubs: Stubs, tmp_path: Path) -> None:
    python = stubs.write("python", RECORDER)
    text = script(job(run=("train.py",), trainers=2, out=str(tmp_path / "run"), python=str(python), encrypt=True), Options())
    code, output = stubs.run(text, {"HALOHOP_TOKEN": "of the user"})
    assert code == 0
    found = [environment(stubs, f"{rank}-n{rank // 2 + 1}") for rank in range(4)]
    for rank, env in enumerate(found):
        assert World.from_env(env) == World.detect(env) == World(
            rank=rank, size=4, host=rank // 2, num_hosts=2, local_rank=rank % 2, local_size=2
        )  # fmt: skip
        assert (env["MASTER_ADDR"], env["MASTER_PORT"], env["HALOHOP_ENCRYPT"]) == ("n1", "29500", "1")
    (token,) = {env["HALOHOP_TOKEN"] for env in found}
    assert len(token) == 64
    assert token not in text + output + "".join(file.read_text() for file in (tmp_path / "run" / "logs").iterdir())
    (tmp_path / "secret").write_text("a secret of at least some length\n")
    (tmp_path / "secret").chmod(0o600)
    text = script(
        job(run=("train.py",), token_file=str(tmp_path / "secret"), out=str(tmp_path / "run"), python=str(python)), Options()
    )
    stubs.run(text)
    assert environment(stubs, "1-n2")["HALOHOP_TOKEN"] == "a secret of at least some length"
    for mode in (0o640, 0o620, 0o604, 0o602):
        (tmp_path / "secret").chmod(mode)
        code, output = stubs.run(text)
        assert code == 2
        assert f"others can read or write the token in {tmp_path}/secret; make a new one, and chmod 600 it" in output
    stubs.write("stat", "#!/bin/bash\necho 440 0")
    assert stubs.run(text.replace("EUID", "10001"))[0] == 0  # root has given it to a group, and this is another user
    assert stubs.run(text)[0] == (2 if os.geteuid() == 0 else 0)


def test_each_host_has_its_own_value_of_the_graph_in_its_environment(stubs: Stubs, tmp_path: Path) -> None:
    python = str(stubs.write("python", RECORDER))
    given = {"run": ("train.py",), "env": {"A": "b", "DATA": "in {graph}"}, "cache": "/scratch/{host}", "python": python}
    code, output = stubs.run(script(job(out=str(tmp_path / "run"), trainers=2, **given), Options()))
    assert (code, output) == (0, "halohop: done\n")
    for rank, host in enumerate(("n1", "n1", "n2", "n2")):
        found = environment(stubs, f"{rank}-{host}")
        assert found["A"] == "b"
        assert found["DATA"].startswith(f"in /scratch/{host}/parts-")
    stubs.write("python", f"{RECORDER}if [[ $3 == serve ]]; then exec sleep 60; fi\n")
    stubs.run(script(job(out=str(tmp_path / "run"), servers=Servers(port=5600), **given), Options()))
    assert [environment(stubs, name)["DATA"] for name in ("0-n1", "1-n2")] == ["in n1:5600,n2:5600"] * 2


def test_ports_that_nobody_names_are_those_of_the_job(stubs: Stubs, tmp_path: Path) -> None:
    waits = "if [[ $3 == serve ]]; then exec sleep 60; fi\nuntil [[ -e $STUBS/env--n2 ]]; do sleep 0.01; done\n"
    python = str(stubs.write("python", RECORDER + waits))
    table = {
        "engine": "slurm",
        "hosts": 2,
        "data": "/d",
        "out": str(tmp_path / "run"),
        "run": "train.py {graph}",
        "python": python,
    }
    for number, first in (("7", 20112), ("8", 20128), ("797", 32752), ("798", 20000)):
        (stubs.folder / "env--n2").unlink(missing_ok=True)
        wanted = job_of({**table, "servers": {"count": 3}}, "job.toml")
        stubs.run(script(wanted, Options()), {"SLURM_JOB_ID": number})
        assert environment(stubs, "1-n2")["MASTER_PORT"] == str(first)
        argv = (stubs.folder / "argv-1-n2").read_text().split("\0")
        assert argv[1] == f"n1:{first + 1},n2:{first + 1},n1:{first + 2}"
        assert f"0.0.0.0:{first + 1}" in (stubs.folder / "argv--n2").read_text().split("\0")
    wanted = job_of({**table, "servers": {"port": 29400}, "master_port": 29500}, "job.toml")
    stubs.run(script(wanted, Options()))
    assert environment(stubs, "1-n2")["MASTER_PORT"] == "29500"
    assert (stubs.folder / "argv-1-n2").read_text().split("\0")[1] == "n1:29400,n2:29400"


def test_gloo_takes_the_interface_that_leads_to_another_host(stubs: Stubs, tmp_path: Path) -> None:
    python = str(
        stubs.write("python3", RECORDER.replace("\n", "\nif [[ $2 == halohop.interfaces ]]; then echo to-$3; exit; fi\n", 1))
    )
    text = script(job(run=("train.py",), out=str(tmp_path / "run"), python=python), Options())
    stubs.run(text)
    assert [environment(stubs, name)["GLOO_SOCKET_IFNAME"] for name in ("0-n1", "1-n2")] == ["to-n2", "to-n1"]
    stubs.run(text, {"GLOO_SOCKET_IFNAME": "ib0"})
    assert [environment(stubs, name)["GLOO_SOCKET_IFNAME"] for name in ("0-n1", "1-n2")] == ["ib0", "ib0"]
    stubs.run(script(job(run=("train.py",), out=str(tmp_path / "run"), python=str(stubs.write("python", RECORDER))), Options()))
    assert "GLOO_SOCKET_IFNAME" not in environment(stubs, "0-n1") or not environment(stubs, "0-n1")["GLOO_SOCKET_IFNAME"]


SERVERS = """#!/bin/bash
role=fetch
if [[ $3 == serve ]]; then role=server; fi
printf '%s\\n' "$*" > "$STUBS/argv-$SLURMD_NODENAME-${RANK-$role-$SLURM_PROCID}"
if [[ $role == server ]]; then exec sleep 60; fi
if [[ ! -v RANK ]]; then exit 0; fi
while [[ $(ls "$STUBS" | grep -c server) -lt 2 ]]; do sleep 0.01; done
"""


def test_servers_know_their_shares_and_end_with_the_trainers(stubs: Stubs, tmp_path: Path) -> None:
    python = str(stubs.write("python", SERVERS))
    given = {"servers": Servers(options={"lease": 9}), "cache": "/scratch/{host}", "python": python, "out": str(tmp_path / "run")}
    code, output = stubs.run(script(job(run=("train.py", "--graph={graph}"), **given), Options()))
    assert (code, output) == (0, "halohop: done\n")
    assert [stubs.log()[0], *sorted(stubs.log()[1:3])] == ["srun fetch 2 2", *sorted(["srun server 2 2", "srun trainer 2 2"])]
    for number, host in enumerate(stubs.hosts):
        argv = (stubs.folder / f"argv-{host}-server-{number}").read_text().split()
        assert argv[:3] == ["-m", "halohop", "serve"]
        assert argv[3].startswith(f"/scratch/{host}/parts-")
        assert argv[4:] == [
            *f"--share {number}/2 --listen 0.0.0.0:5510 --advertise {host}:5510 --peers n1:5510,n2:5510 --lease 9".split()
        ]
        assert (stubs.folder / f"argv-{host}-{number}").read_text() == "train.py --graph=n1:5510,n2:5510\n"
    assert "scancel --signal=TERM 7.0" in stubs.log()


FAILING = """#!/bin/bash
if [[ $3 == serve ]]; then [[ $* == *--share\\ 0/* ]] && exit 9; exec sleep 60; fi
case "$1 $RANK" in
  "fail 1") seq 30; exit 3 ;;
  "killed 1") echo "out of memory"; kill -KILL $$ ;;
  "serve 0") sleep 0.5 ;;
esac
[[ $1 == serve ]] || exec sleep 60
"""


def test_the_first_failure_is_named_with_the_end_of_its_log(stubs: Stubs, tmp_path: Path) -> None:
    given = {"python": str(stubs.write("python", FAILING)), "out": str(tmp_path / "run"), "trainers": 2}
    code, output = stubs.run(script(job(run=("fail",), **given), Options()))
    log = tmp_path / "run" / "logs" / "n1-rank-1.log"
    assert code in (3, 137)
    assert f"halohop: rank-1 on n1 failed with exit code 3; the end of {log}:\n    16\n" in output
    assert output.endswith("    30\n")
    code, output = stubs.run(script(job(run=("killed",), **given), Options()))
    assert code == 137
    assert f"rank-1 on n1 was killed by SIGKILL; the end of {log}" in output
    assert output.endswith("    out of memory\n")
    assert not list((tmp_path / "run" / "logs").glob("ends-*"))


def test_a_lost_server_ends_the_job_unless_it_has_a_replica(stubs: Stubs, tmp_path: Path) -> None:
    given = {"python": str(stubs.write("python", FAILING)), "out": str(tmp_path / "run")}
    code, output = stubs.run(script(job(run=("sleep",), servers=Servers(), **given), Options()))
    assert code != 0
    assert "halohop: server-0 on n1 failed with exit code 9" in output
    code, output = stubs.run(script(job(run=("serve",), servers=Servers(replicas=2), **given), Options()))
    assert (code, output) == (0, "halohop: done\n")


SAVING = """#!/bin/bash
if [[ $1 == -m ]]; then printf '%s\\n' "$*" >> "$STUBS/trains"; fi
trap 'exit 75' TERM
case $1 in
  train.py|fetch) touch "$STUBS/started-${RANK-}"; sleep 60 & wait ;;
  deaf.py) trap - TERM; touch "$STUBS/started-$RANK"; exec sleep 60 ;;
  again.py) [[ $RANK == 0 ]] && exit 75; sleep 0.3 ;;
esac
"""


def signalled(stubs: Stubs, text: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """What becomes of a job that gets Slurm's signal before its time limit, when its two ranks have begun."""
    started = [stubs.folder / f"started-{rank}" for rank in range(2)]
    for file in started:
        file.unlink(missing_ok=True)
    process = stubs.start(text, env)
    subprocess.run(["bash", "-c", "until [[ -e $0 && -e $1 ]]; do sleep 0.01; done", *started], check=True, timeout=within(20))
    os.kill(process.pid, signal.SIGUSR1)
    output, _ = process.communicate(timeout=within(20))
    return process.returncode, output


def test_before_the_time_limit_trainers_save_and_the_job_is_queued_again(stubs: Stubs, tmp_path: Path) -> None:
    given = {"python": str(stubs.write("python", SAVING)), "out": str(tmp_path / "run")}
    text = script(job(run=("train.py",), **given), Options(restarts=2))
    code, output = signalled(stubs, text)
    assert code == 0
    assert "the time is nearly over" in output
    assert stubs.log()[-1] == "scontrol requeue 7"
    code, output = signalled(stubs, text, {"SLURM_RESTART_COUNT": "2"})
    assert code == 75
    assert "has been queued again 2 times, which is its limit (restarts=2)" in output
    assert stubs.log().count("scontrol requeue 7") == 1
    code, output = stubs.run(text, {"SLURM_RESTART_COUNT": "3"})  # Slurm itself, where hosts are lost
    assert code == 1
    assert "started again more than 2 times" in output
    code, output = signalled(stubs, script(job(run=("deaf.py",), **given), Options()))
    assert code == 143, output
    assert "one that ends with exit code 75 is queued again" in output
    assert stubs.log().count("scontrol requeue 7") == 1


def test_a_rank_may_ask_for_another_turn_by_itself(stubs: Stubs, tmp_path: Path) -> None:
    """The other ranks end as they like: the first to end with 75 must not have them killed."""
    given = {"python": str(stubs.write("python", SAVING)), "out": str(tmp_path / "run")}
    code, _ = stubs.run(script(job(run=("again.py",), **given), Options()))
    assert code == 0
    assert stubs.log()[-1] == "scontrol requeue 7"


def test_where_a_host_does_not_answer_any_more_the_job_is_queued_again(stubs: Stubs, tmp_path: Path) -> None:
    """Its peers fail at once; Slurm takes minutes to see that it is lost."""
    given = {"python": str(stubs.write("python", FAILING)), "out": str(tmp_path / "run"), "trainers": 2}
    srun = (stubs.folder / "srun").read_text()
    stubs.write(
        "srun", srun.replace("mapfile", 'if [[ $* == true ]]; then echo "unable to contact n2" >&2; exit 1; fi\nmapfile', 1)
    )
    code, output = stubs.run(script(job(run=("fail",), **given), Options()))
    assert code == 0
    assert "a host of the job does not answer any more\nhalohop: the job is queued again" in output
    assert stubs.log()[-1] == "scontrol requeue 7"


def test_a_run_of_halohop_train_goes_on(stubs: Stubs, tmp_path: Path) -> None:
    out = tmp_path / "run"
    text = script(job(train={"epochs": 2}, python=str(stubs.write("python", SAVING)), out=str(out), hosts=1), Options())
    usual = f"-m halohop train /data/parts --out {out} --epochs 2"
    assert stubs.run(text)[0] == 0
    assert stubs.run(text, {"SLURM_RESTART_COUNT": "1"})[0] == 0
    (out / "resume.pt").touch()
    assert stubs.run(text, {"SLURM_RESTART_COUNT": "1"})[0] == 0
    assert stubs.run(text)[0] == 0  # of another job, which `halohop train` refuses
    again = f"{usual} --resume auto"
    assert (tmp_path / "trains").read_text().splitlines() == [usual, again, again, usual]
    assert "resume=(" not in script(job(train={"resume": "/runs/1"}), Options())


def test_lines_that_run_before(stubs: Stubs, tmp_path: Path) -> None:
    given = {"python": str(stubs.write("python", RECORDER)), "out": str(tmp_path / "run"), "run": ("train.py",)}
    code, _ = stubs.run(script(job(**given), Options(before=('export A="$unset"b',))))
    assert code == 0
    assert environment(stubs, "0-n1")["A"] == "b"
    code, _ = stubs.run(script(job(**given), Options(before=("module-that-is-missing",))))
    assert code == 127


def test_values_that_sbatch_cannot_read() -> None:
    with pytest.raises(InputError, match=r"--output=.* holds a line break"):
        script(job(run=("a.py",), out="/runs/a\nb"), Options())
    with pytest.raises(InputError, match=r"--chdir=.* holds a line break"):
        script(job(run=("a.py",), folder="/a\tb"), Options())
    with pytest.raises(InputError, match="zero byte"):
        script(job(run=("a.py", "\0")), Options())
    with pytest.raises(InputError, match="replicas=3"):
        script(
            job_of({"engine": "slurm", "hosts": 2, "data": "p", "out": "o", "run": "a.py", "servers": {"replicas": 3}}, "x"),
            Options(),
        )
