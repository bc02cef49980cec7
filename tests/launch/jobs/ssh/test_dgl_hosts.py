"""DGL's launcher and `copy_files`, by their own options, against real ssh servers."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from tempfile import mkdtemp

import pytest

import halohop
from halohop.datasets import PartConfig
from tests.support.deadlines import within
from tests.support.hosts import ip

pytestmark = pytest.mark.timeout(400)

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
    """Two hosts of an ip_config.txt, whose workspace each has for itself, and a launcher with the folder that is copied there.

    Args:
        launches: on the cluster.
        parts: folder of two partitions with their graph.json.
        scripts: what is copied; None: a program that says what it sees.
    """

    def __init__(self, launches, parts: Path, scripts: Path | None = None) -> None:
        self.launches, self.parts = launches, parts
        self.addresses = [host.address for host in launches.cluster.hosts]
        self.workspace = launches.cluster.private / "work"
        self.scripts = launches.folder / "scripts"
        if scripts is not None:
            shutil.copytree(scripts, self.scripts)
        else:
            self.scripts.mkdir()
            (self.scripts / "train.py").write_text(PROGRAM)
        (self.scripts / "ip_config.txt").write_text("".join(f"{address}\n" for address in self.addresses))
        client = launches.folder / "bin" / "ssh"
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {launches.cluster.config} "$@"\n')
        client.chmod(0o755)

    def copy(self, *more: object) -> subprocess.Popen[str]:
        words = ["--ip_config", self.scripts / "ip_config.txt", "--workspace", self.workspace, "--rel_data_path", "data"]
        words += ["--part_config", self.parts / "graph.json", "--script_folder", self.scripts]
        return self.start("halohop.dgl.copy_files", *words, "--out", mkdtemp(dir=self.launches.folder), *more)

    def launch(self, command: str, *more: object, workspace: Path | None = None, out: str = "run") -> subprocess.Popen[str]:
        words = ["--workspace", workspace or self.workspace, "--part_config", "data/graph.json", "--num_trainers", 2]
        words += ["--ip_config", self.scripts / "ip_config.txt", "--out", self.launches.folder / out, *more, command]
        return self.start("halohop.dgl.launch", *words)

    def start(self, *words: object) -> subprocess.Popen[str]:
        """A module of the face on the launcher's host."""
        path = {"PATH": f"{self.launches.folder}/bin:{os.environ['PATH']}"}
        return self.launches.command("-m", *words, env=path)

    def on(self, host: int, *command: object) -> str:
        """What a command prints on a host, in its own workspace's file system."""
        config = self.launches.cluster.config
        run = ["ip", "netns", "exec", self.launches.cluster.here.name, "ssh", "-F", config, "ab"[host], *command]
        return subprocess.run([*map(str, run)], capture_output=True, text=True, timeout=20, check=True).stdout

    def files(self, host: int) -> list[str]:
        """The names of all files in the workspace of a host."""
        found = self.on(host, "mkdir", "-p", self.workspace, "&&", "find", self.workspace, "-type", "f")
        return [Path(file).name for file in found.split()]

    def environment(self, rank: int) -> dict[str, str]:
        return json.loads(self.on(rank // 2, "cat", self.workspace / f"rank-{rank}"))

    def clear(self) -> None:
        """Removes the workspaces."""
        for host in (0, 1):
            self.on(host, "rm", "-rf", self.workspace)


def ended(launcher: subprocess.Popen[str], seconds: float = 100) -> tuple[int, str, str]:
    out, err = launcher.communicate(timeout=within(seconds))
    return launcher.returncode, out, err


@pytest.fixture
def hosts(launches, parts: Path) -> Hosts:
    config = PartConfig(name="graph", description=halohop.describe(parts))
    (parts / "graph.json").write_text(json.dumps(config.document("random")))
    found = Hosts(launches, parts)
    yield found
    found.clear()


@pytest.mark.full
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
        saw.append(sorted(re.findall(r"rank \d saw \S+", out)))
    assert [line.split(" saw ")[0] for line in saw[0]] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert saw[0] == saw[1]
    last = hosts.environment(3)
    assert [address.rpartition(":")[0] for address in last["HALOHOP_SERVERS"].split(",")] == hosts.addresses
    logs = hosts.launches.folder / "run" / "logs"
    assert f"serving partitions 1 of {hosts.workspace}/data" in (logs / f"{hosts.addresses[1]}-server-1.log").read_text()
    assert hosts.launches.gone_within() == []


def are_running(hosts: Hosts) -> bool:
    """Whether all four ranks have begun."""
    found = [hosts.on(host, "ls", hosts.workspace).split() for host in (0, 1)]
    return {f"rank-{rank}" for rank in range(4)} <= {*found[0], *found[1]}


@pytest.mark.full
@pytest.mark.parametrize("servers", [0, 1])
def test_a_script_that_fails_on_one_host_ends_all_and_is_named(hosts: Hosts, servers: int) -> None:
    assert hosts.copy().wait(within(60)) == 0
    code, _, err = ended(hosts.launch("python3 scripts/train.py exit x", "--num_servers", servers))
    assert code == 1
    assert re.search(rf"trainers 1 \({hosts.addresses[1]}, process \d+\) failed with exit code 1; the end of", err), err
    assert re.search(r"rank +: 3 .*\n +exitcode +: 3", err), err
    assert f"trainers 0 ({hosts.addresses[0]}, process " in err
    assert hosts.launches.gone_within() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_launcher_that_ends_ends_servers_and_trainers(hosts: Hosts, kind: signal.Signals) -> None:
    assert hosts.copy().wait(within(60)) == 0
    launcher = hosts.launch("python3 scripts/train.py wait x", "--num_servers", 1)
    hosts.launches.wait_for(lambda: are_running(hosts), launcher)
    assert sum("halohop serve" in command for command in hosts.launches.cluster.left().values()) == 2
    launcher.send_signal(kind)
    launcher.communicate(timeout=within(15))
    assert launcher.returncode == (130 if kind == signal.SIGINT else -9)
    assert hosts.launches.gone_within() == []


@pytest.mark.full
def test_a_host_that_is_cut_off_is_named_and_all_end(hosts: Hosts) -> None:
    assert hosts.copy().wait(within(60)) == 0
    launcher = hosts.launch("python3 scripts/train.py wait x", "--num_servers", 1)
    hosts.launches.wait_for(lambda: are_running(hosts), launcher)
    host = hosts.launches.cluster.hosts[1]
    host.cut()
    try:
        code, _, err = ended(launcher, 25)
        assert code == 1
        assert f"host {hosts.addresses[1]}: the connection is lost" in err
        assert hosts.launches.gone_within() == []
    finally:
        host.heal()


@pytest.mark.full
def test_two_jobs_run_on_the_same_hosts(hosts: Hosts) -> None:
    assert hosts.copy().wait(within(60)) == 0
    jobs = [hosts.launch("python3 scripts/train.py run x", "--num_servers", 1, out=out) for out in ("one", "two")]
    for job in jobs:
        code, out, err = ended(job, 200)
        assert code == 0, err
        assert "rank 0 saw" in out
    assert hosts.launches.gone_within() == []


@pytest.mark.full
def test_what_was_cut_short_is_sent_again_and_nothing_else(hosts: Hosts) -> None:
    assert hosts.copy().wait(within(60)) == 0
    code, _, err = ended(hosts.copy())
    assert (code, err.count("nothing to copy")) == (0, 8), err
    manifest = hosts.workspace / "data" / "manifest.json"
    hosts.on(1, "rm", manifest, hosts.workspace / "data" / "part-0001" / "stamp")
    hosts.on(1, "truncate", "-s", "1", hosts.workspace / "scripts" / "train.py")
    code, _, err = ended(hosts.copy())
    assert (code, err.count("nothing to copy")) == (0, 7), err
    assert f"{hosts.addresses[1]}: scripts in {hosts.workspace}: {len(PROGRAM)} B" in err
    assert hosts.on(1, "cat", hosts.workspace / "scripts" / "train.py") == PROGRAM
    assert hosts.on(1, "cat", manifest) == (hosts.parts / "manifest.json").read_text()


@pytest.mark.full
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_copy_that_is_interrupted_goes_on(hosts: Hosts, kind: signal.Signals) -> None:
    here, count = hosts.launches.cluster.here, 40
    names = [f"{number:02}.bin" for number in range(count)]
    for name in names:
        (hosts.scripts / name).write_bytes(os.urandom(1 << 20))
    here.limit_rate(1e8)
    try:
        copying = hosts.copy()
        hosts.launches.wait_for(lambda: all(names[3] in hosts.files(host) for host in (0, 1)), copying)
        copying.send_signal(kind)
        copying.communicate(timeout=within(15))
        assert copying.returncode == (130 if kind == signal.SIGINT else -9)
        assert hosts.launches.gone_within() == []
    finally:
        ip("netns", "exec", here.name, "tc", "qdisc", "del", "dev", "eth0", "root")
    kept = [{*names} & {*hosts.files(host)} for host in (0, 1)]
    assert all(4 <= len(some) < count for some in kept)
    code, _, err = ended(hosts.copy())
    assert code == 0, err
    for host, some in enumerate(kept):
        assert f"{hosts.addresses[host]}: scripts in {hosts.workspace}: {count - len(some)}" in err
        assert {*hosts.files(host)} >= {*names, "train.py"}
        sums = hosts.on(host, "md5sum", *(hosts.workspace / "scripts" / name for name in names)).splitlines()
        assert [line.split()[0] for line in sums] == [
            hashlib.md5((hosts.scripts / name).read_bytes()).hexdigest() for name in names
        ]


@pytest.mark.full
def test_what_cannot_run_is_said_before_anything_starts(hosts: Hosts) -> None:
    command = "python3 scripts/train.py look x"
    for launcher, words in (
        (hosts.launch(command), f"there is no folder {hosts.workspace}"),
        (hosts.copy("--ssh_username", "eve"), f"{hosts.addresses[1]} refuses our key"),
        (hosts.copy("--ssh_port", 2222), f"{hosts.addresses[1]} has no ssh server that answers"),
    ):
        code, out, err = ended(launcher)
        assert (code, out) == (2, "")
        assert words in err, err
    assert hosts.copy().wait(within(60)) == 0
    (hosts.scripts / "ip_config.txt").write_text(f"{hosts.addresses[0]}\n10.99.0.77\n")
    for launcher in (hosts.launch(command), hosts.copy()):
        assert "host 10.99.0.77 is not reached" in ended(launcher)[2]
    (hosts.scripts / "ip_config.txt").write_text(f"{hosts.addresses[0]}\n")
    for servers, words in (
        (0, "partitions 1 of 2 are on none of the 1 hosts"),
        (1, f"server-0 on {hosts.addresses[0]} is to hold partitions 1, which are not in {hosts.workspace}/data there"),
    ):
        code, out, err = ended(hosts.launch(command, "--num_servers", servers))
        assert (code, words in err) == (2, True), err
    assert not [name for host in (0, 1) for name in hosts.on(host, "ls", hosts.workspace).split() if name.startswith("rank-")]


@pytest.mark.full
def test_hosts_may_have_ipv6_addresses(hosts: Hosts) -> None:
    cluster = hosts.launches.cluster
    named = [cluster.here, *cluster.hosts]
    for number, host in enumerate(named):
        ip("-n", host.name, "addr", "add", f"fd00:99::{number + 1}/64", "dev", "eth0", "nodad")
    key = (cluster.folder / "host.pub").read_text().strip()
    known = cluster.folder / "known_hosts"
    before = known.read_text()
    hosts.addresses = [f"fd00:99::{number + 2}" for number in range(2)]
    try:
        known.write_text(before + "".join(f"{address} {key}\n" for address in hosts.addresses))
        (hosts.scripts / "ip_config.txt").write_text(f"[{hosts.addresses[0]}] 30050\n{hosts.addresses[1]}\n")
        assert hosts.copy().wait(within(60)) == 0
        code, out, err = ended(hosts.launch("python3 scripts/train.py run x", "--num_servers", 1))
        assert code == 0, err
        assert "rank 0 saw" in out
        assert hosts.environment(3)["HALOHOP_SERVERS"].startswith(f"[{hosts.addresses[0]}]:30050,[{hosts.addresses[1]}]:")
        code, out, err = ended(hosts.launch("python3 scripts/train.py run x", "--num_servers", 0))
        assert code == 0, err
    finally:
        known.write_text(before)
        for number, host in enumerate(named):
            ip("-n", host.name, "addr", "del", f"fd00:99::{number + 1}/64", "dev", "eth0")
