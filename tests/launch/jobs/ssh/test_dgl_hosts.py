"""DGL's launcher and `copy_files`, by their own options, against real ssh servers."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.deadlines import within

pytestmark = pytest.mark.timeout(240)

PROGRAM = """
import json, os, sys, time
from pathlib import Path
what, word = sys.argv[1:3]
rank = int(os.environ["RANK"])
Path(f"rank-{rank}").write_text(json.dumps({**os.environ, "WORD": word, "CWD": os.getcwd()}))
if what == "look":
    sys.exit()
if what == "exit" and rank == 3:
    sys.exit(3)
if what != "run":
    time.sleep(1000)
import torch, halohop
world = halohop.World.detect()
folder, servers = Path(os.environ["DGL_CONF_PATH"]).parent, os.environ.get("HALOHOP_SERVERS")
torch.distributed.init_process_group("gloo")
with halohop.connect(servers.split(","), sampling="client") if servers else halohop.open(folder) as graph:
    loader = halohop.NeighborLoader(graph, [5, 5], torch.arange(40), batch_size=10, seed=0, world=world)
    seen = torch.tensor([int(batch.n_id.sum()) + int(batch.x.sum()) for batch in loader]).sum()
    torch.distributed.all_reduce(seen)
sys.stdout.write(f"rank {rank} saw {seen}\\n")
torch.distributed.destroy_process_group()
"""


class Hosts:
    """Two hosts of an ip_config.txt, whose workspace each has for itself, and a launcher with the folder that is copied there."""

    def __init__(self, launches, parts: Path) -> None:
        self.launches, self.parts = launches, parts
        self.addresses = [host.address for host in launches.cluster.hosts]
        self.workspace = launches.cluster.private / "work"
        self.scripts = launches.folder / "scripts"
        self.scripts.mkdir()
        (self.scripts / "train.py").write_text(PROGRAM)
        (self.scripts / "ip_config.txt").write_text("".join(f"{address}\n" for address in self.addresses))
        (parts / "graph.json").write_text(json.dumps({"graph_name": "graph", "num_parts": 2}))
        client = launches.folder / "bin" / "ssh"
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {launches.cluster.config} "$@"\n')
        client.chmod(0o755)

    def copy(self, *more: object) -> subprocess.Popen[str]:
        words = ["--ip_config", self.scripts / "ip_config.txt", "--workspace", self.workspace, "--rel_data_path", "data"]
        words += ["--part_config", self.parts / "graph.json", "--script_folder", self.scripts]
        return self._start("launch", "copy", *words, *more)

    def launch(self, command: str, *more: object, workspace: Path | None = None, out: str = "run") -> subprocess.Popen[str]:
        words = ["--workspace", workspace or self.workspace, "--part_config", "data/graph.json", "--num_trainers", 2]
        words += ["--ip_config", self.scripts / "ip_config.txt", "--out", self.launches.folder / out, *more, command]
        return self._start("launch", *words)

    def _start(self, *words: object) -> subprocess.Popen[str]:
        path = {"PATH": f"{self.launches.folder}/bin:{os.environ['PATH']}"}
        return self.launches.command("-m", "halohop", *words, env=path)

    def on(self, host: int, *command: object) -> str:
        """What a command prints on a host, in its own workspace's file system."""
        config = self.launches.cluster.config
        run = ["ip", "netns", "exec", self.launches.cluster.here.name, "ssh", "-F", config, "ab"[host], *command]
        return subprocess.run([*map(str, run)], capture_output=True, text=True, timeout=20, check=True).stdout

    def environment(self, rank: int) -> dict[str, str]:
        return json.loads(self.on(rank // 2, "cat", self.workspace / f"rank-{rank}"))


def ended(launcher: subprocess.Popen[str], seconds: float = 100) -> tuple[int, str, str]:
    out, err = launcher.communicate(timeout=within(seconds))
    return launcher.returncode, out, err


@pytest.fixture
def hosts(launches, parts: Path) -> Hosts:
    found = Hosts(launches, parts)
    yield found
    for host in (0, 1):
        found.on(host, "rm", "-rf", found.workspace)


def test_files_are_copied_and_the_command_runs(hosts: Hosts) -> None:
    """The hosts do not see the launcher's folders, and each has its own partition only."""
    code, _, err = ended(hosts.copy())
    assert code == 0, err
    for host, other in ((0, 1), (1, 0)):
        assert f"{hosts.addresses[host]}: partitions {host}/2 in {hosts.workspace}/data: " in err
        files = hosts.on(host, "find", hosts.workspace, "-type", "f").split()
        assert {f"{hosts.workspace}/{name}" for name in ("ip_config.txt", "data/graph.json", "scripts/train.py")} < {*files}
        assert f"part-000{host}" in str(files)
        assert f"part-000{other}" not in str(files)
    more = ["--num_servers", 0, "--num_samplers", 1, "--extra_envs", "A=x y", "B='$(id)", "--num_omp_threads", 1]
    code, _, err = ended(hosts.launch("python3 scripts/train.py look 'a \"b\"'", *more))
    assert code == 0, err
    last = hosts.environment(3)
    assert (last["RANK"], last["WORLD_SIZE"], last["LOCAL_RANK"], last["GROUP_RANK"]) == ("3", "4", "1", "1")
    assert (last["WORD"], last["A"], last["B"], last["OMP_NUM_THREADS"]) == ('a "b"', "x y", "'$(id)", "1")
    assert (last["DGL_NUM_SERVER"], last["DGL_NUM_SAMPLER"], last["DGL_NUM_CLIENT"]) == ("0", "1", "8")
    assert (last["DGL_ROLE"], last["DGL_CONF_PATH"], last["CWD"]) == ("client", "data/graph.json", str(hosts.workspace))
    assert "HALOHOP_SERVERS" not in last
    assert hosts.launches.gone_within() == []


@pytest.mark.full
def test_trainers_see_the_same_graph_with_servers_and_without(hosts: Hosts) -> None:
    assert hosts.copy().wait(within(60)) == 0
    saw = []
    for servers in (0, 2):
        code, out, err = ended(hosts.launch("python3 scripts/train.py run x", "--num_servers", servers))
        assert code == 0, err
        saw.append(sorted(line for line in out.splitlines() if " saw " in line))
    assert [line.split(" saw ")[0] for line in saw[0]] == ["rank 0", "rank 1"]
    assert saw[0] == saw[1]
    last = hosts.environment(3)
    assert [address.rpartition(":")[0] for address in last["HALOHOP_SERVERS"].split(",")] == hosts.addresses
    logs = hosts.launches.folder / "run" / "logs"
    assert f"serving partitions 1 of {hosts.workspace}/data" in (logs / f"{hosts.addresses[1]}-server-1.log").read_text()
    assert hosts.launches.gone_within() == []
