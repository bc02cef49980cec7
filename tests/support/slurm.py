"""A real Slurm on one machine: munged, slurmctld and a slurmd for each host, in network namespaces.

Needs Linux, iproute2, root, and Debian's packages munge and slurm-wlm.
"""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.deadlines import within
from tests.support.hosts import Host, joined

TOOLS = ("ip", "munged", "slurmctld", "slurmd", "sbatch")

_CONF = """\
ClusterName=halohop
SlurmctldHost={machine}({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CryptoType=crypto/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
KillWait=5
SlurmdTimeout=60
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
"""
_NODE = "NodeName={name} NodeHostname={machine} NodeAddr={address} CPUs=4 RealMemory=4000\n"
_PARTITION = "PartitionName=all Nodes={names} Default=YES MaxTime=60 State=UP\n"

_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE", "BOOT_FAIL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster that is up.

    Args:
        folder: its configuration, state and logs.
        login: the host of the controller, where users work.
        nodes: the hosts of jobs, by name.
    """

    folder: Path
    login: Host
    nodes: Mapping[str, Host]

    @property
    def env(self) -> dict[str, str]:
        """What a user's environment needs for Slurm's commands to find this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self, *command: object, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> subprocess.Popen[str]:
        """Starts a command on the login host."""
        words = ["ip", "netns", "exec", self.login.name, *map(str, command)]
        pipe = subprocess.PIPE
        whole = os.environ | self.env | dict(env or {})
        return subprocess.Popen(words, env=whole, cwd=cwd, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def run(
        self, *command: object, env: Mapping[str, str] | None = None, cwd: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the login host."""
        process = self.start(*command, env=env, cwd=cwd)
        try:
            output, errors = process.communicate(timeout=within(120))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        assert not check or process.returncode == 0, f"{command} ended with {process.returncode}: {output}{errors}"
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def job(self, number: str) -> dict[str, str]:
        """What Slurm says of a job, by its own names: JobState, ExitCode, Restarts, ..."""
        text = self.run("scontrol", "show", "job", "--oneliner", number).stdout
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def wait(self, number: str, *states: str, seconds: float = 90.0) -> dict[str, str]:
        """Waits until a job is in one of these states, or has ended where none is given; returns what Slurm says of it."""
        wanted, deadline = set(states) or _ENDED, time.monotonic() + within(seconds)
        while (job := self.job(number))["JobState"] not in wanted:
            assert time.monotonic() < deadline, f"job {number} is {job['JobState']} ({job['Reason']}), not {wanted}"
            assert job["JobState"] not in _ENDED, f"job {number} has ended: {job['JobState']}, exit code {job['ExitCode']}"
            threading.Event().wait(0.3)
        return job

    def processes(self) -> dict[int, str]:
        """Command lines of what runs on the nodes beside slurmd, by process id."""
        found = {}
        for pid in (pid for node in self.nodes.values() for pid in node.process_ids()):
            with suppress(OSError):  # it has ended meanwhile
                line = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
                if line and not line.startswith(("slurmd ", "/usr/sbin/slurmd")):
                    found[pid] = line
        return found

    def start_node(self, name: str) -> None:
        """Starts the daemon of a node."""
        host = self.nodes[name]
        _run(["ip", "netns", "exec", host.name, "slurmd", "-f", str(self.folder / "slurm.conf"), "-N", name])

    def kill_node(self, name: str) -> None:
        """Ends all that runs on a node at once, its daemon too, as a lost power supply does."""
        for pid in self.nodes[name].process_ids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def missing() -> str | None:
    """Why no cluster can be made here."""
    if os.geteuid() != 0:
        return "a real Slurm in network namespaces needs root"
    gone = [tool for tool in TOOLS if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]
    return f"a real Slurm needs {', '.join(gone)} (apt-get install slurm-wlm munge iproute2)" if gone else None


@contextmanager
def cluster(folder: Path, *names: str) -> Iterator[Cluster]:
    """A cluster whose state is kept in an empty folder, with nodes of these names.

    Raises:
        subprocess.CalledProcessError: a namespace cannot be made, or a daemon does not start.
    """
    with joined(len(names) + 1, tag="hhs") as (login, *hosts):
        nodes = dict(zip(names, hosts, strict=True))
        _write_names(login, nodes)
        try:
            with _munged(folder):
                made = Cluster(folder=folder, login=login, nodes=nodes)
                _configure(made)
                try:
                    _run(["ip", "netns", "exec", login.name, "slurmctld", "-f", str(folder / "slurm.conf"), "-c"])
                    for name in names:
                        made.start_node(name)
                    _wait_for_nodes(made)
                    yield made
                finally:
                    _end(made)
        finally:
            for host in (login, *hosts):
                shutil.rmtree(Path("/etc/netns") / host.name)


def _write_names(login: Host, nodes: Mapping[str, Host]) -> None:
    """Files of names that `ip netns exec` mounts over /etc/hosts."""
    lines = ["127.0.0.1 localhost", f"{login.address} login", *(f"{host.address} {name}" for name, host in nodes.items())]
    for host in (login, *nodes.values()):
        folder = Path("/etc/netns") / host.name
        folder.mkdir(parents=True)
        (folder / "hosts").write_text("\n".join(lines) + "\n")


def _configure(made: Cluster) -> None:
    machine = socket.gethostname().split(".")[0]
    text = _CONF.format(machine=machine, controller=made.login.address, folder=made.folder)
    for name, host in made.nodes.items():
        text += _NODE.format(name=name, machine=machine, address=host.address)
    (made.folder / "slurm.conf").write_text(text + _PARTITION.format(names=",".join(made.nodes)))
    (made.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\n")
    (made.folder / "state").mkdir()


@contextmanager
def _munged(folder: Path) -> Iterator[None]:
    """The daemon that signs messages; its socket is a file, so that all namespaces share one."""
    folder.chmod(0o755)
    key, pid = folder / "munge.key", folder / "munged.pid"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = {"socket": "munge.socket", "pid-file": "munged.pid", "log-file": "munged.log", "seed-file": "munge.seed"}
    _run(["munged", "--force", f"--key-file={key}", *(f"--{name}={folder / file}" for name, file in files.items())])
    try:
        yield
    finally:
        os.kill(int(pid.read_text()), signal.SIGTERM)


def _wait_for_nodes(made: Cluster) -> None:
    deadline = time.monotonic() + within(30)
    while set(made.run("sinfo", "--noheader", "--format=%T").stdout.split()) != {"idle"}:
        assert time.monotonic() < deadline, made.run("sinfo", "--long", "--Node").stdout
        threading.Event().wait(0.2)


def _end(made: Cluster) -> None:
    """Ends the daemons, and what jobs have left running: all that is in the namespaces."""
    for host in (made.login, *made.nodes.values()):
        for pid in host.process_ids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _run(command: list[str]) -> None:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=os.environ | {"PATH": path})
