"""The page docs/deploy/launch.md: its files and commands, on two hosts; and the same losses here."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.deadlines import within
from tests.support.sshd import Cluster

pytestmark = [pytest.mark.timeout(300), pytest.mark.full]

PAGE = (Path(__file__).parents[4] / "docs" / "deploy" / "launch.md").read_text()


def files() -> dict[str, str]:
    return dict(re.findall(r"^```\w+ (\S+\.\w+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


def commands() -> list[list[str]]:
    found = re.findall(r"^```console\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for block in found for line in block.splitlines()]


def losses(text: str) -> list[str]:
    return re.findall(r"epoch \d: loss [\d.]+", text)


def epochs(lines: list[str]) -> list[str]:
    return [line for line in lines if '"event":"epoch"' in line]


def output(cluster: Cluster, command: list[str]) -> str:
    """What a command prints on the launcher's host."""
    process = cluster.here.start("-m", *command)
    out, err = process.communicate(timeout=within(100))
    assert process.returncode == 0, err
    return out


def test_what_the_page_says_happens(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = cluster.config.read_text().replace("Host a\n", "Host a graph1\n").replace("Host b\n", "Host b graph2\n")
    (tmp_path / "cluster.config").write_text(config)
    monkeypatch.chdir(tmp_path)
    for name, text in files().items():
        text = text.replace("ann@", "").replace('"/tmp/halohop"', f'"{tmp_path}/cache-{{host}}"')
        (tmp_path / name).write_text(text)
    job = tmp_path / "job.toml"
    job.write_text(f'{job.read_text()}\n[ssh]\ncommand = "ssh -F {tmp_path}/cluster.config"\n')
    login, *given = commands()
    assert login[:2] == ["ssh", "graph1"]
    assert [command[1] for command in given] == ["partition", "launch", "launch", "launch"]
    *given, copying = given
    assert copying[:3] == ["halohop", "launch", "copy"]  # test_copying.py
    *_, printed = [output(cluster, command) for command in given]
    assert len(losses(printed)) == 2
    assert losses(output(cluster, [*given[-1], "--engine", "local", "--out", f"{tmp_path}/here"])) == losses(printed)


@pytest.mark.parametrize("servers", ["", "servers = 2\n"], ids=["hosts", "servers"])
def test_halohop_train_has_the_losses_of_one_machine(launches, parts: Path, servers: str) -> None:
    """The recipe on two hosts, with and without servers, and the same job here."""
    found = {}
    for engine in ("ssh", "local"):
        out = launches.folder / f"run-{engine}"
        job = launches.folder / "job.toml"
        job.write_text(
            f'engine = "{engine}"\nhosts = ["a", "b"]\ndata = "{parts}"\nout = "{out}"\nfolder = "{launches.folder}"\n'
            f'python = "{sys.executable}"\n{servers}[train]\nepochs = 2\nbatch_size = 64\n'
            f'[ssh]\ncommand = "ssh -F {launches.cluster.config}"\n'
        )
        process = launches.cluster.here.start("-m", "halohop", "launch", "--config", job)
        _, err = process.communicate(timeout=within(100))
        assert process.returncode == 0, err
        lines = (out / "metrics.jsonl").read_text().splitlines()
        found[engine] = [float(value) for value in re.findall(r'"(?:loss|val_accuracy)":([\d.]+)', "".join(epochs(lines)))]
        assert (out / "checkpoint").exists()
    assert found["ssh"] == pytest.approx(found["local"], rel=1e-6)  # more threads add up in another order
    assert len(found["ssh"]) == 4
