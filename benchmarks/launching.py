"""How much longer a job on two hosts takes when `halohop launch` starts it over ssh than when torchrun is started there by hand.

    python -m benchmarks.launching 5

Hosts are network namespaces with OpenSSH's server; the script prints a line and ends. The two ways take turns. Needs root.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.support.sshd import Cluster, ssh_hosts


def by_hand(cluster: Cluster, folder: Path) -> None:
    """torchrun on both hosts, at the same moment."""
    master = cluster.hosts[0].address
    common = ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--master-addr={master}", "--master-port=29500"]
    started = [host.start(*common, f"--node-rank={number}", folder / "hello.py") for number, host in enumerate(cluster.hosts)]
    _wait(started)


def over_ssh(cluster: Cluster, folder: Path) -> None:
    """The same by one command on a third host."""
    _wait([cluster.here.start("-m", "halohop", "launch", "--config", folder / "job.toml")])


def _wait(started: list[subprocess.Popen[str]]) -> None:
    for process in started:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors


def seconds(work: Callable[[Cluster, Path], None], cluster: Cluster, folder: Path) -> float:
    begin = time.perf_counter()
    work(cluster, folder)
    return time.perf_counter() - begin


def main(repeats: int) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(ssh_hosts(2, folder))
        (folder / "hello.py").write_text("import os\nprint('rank', os.environ['RANK'], flush=True)\n")
        (folder / "manifest.json").write_text("{}")  # the script reads no graph
        job = {"engine": "ssh", "hosts": cluster.names, "data": str(folder), "out": str(folder / "run"), "folder": str(folder)}
        lines = [f"{name} = {json.dumps(value)}" for name, value in {**job, "python": sys.executable, "run": "hello.py"}.items()]
        (folder / "job.toml").write_text("\n".join([*lines, "[ssh]", f'command = "ssh -F {cluster.config}"', ""]))
        ways = (by_hand, over_ssh)
        found: dict[str, list[float]] = {way.__name__: [] for way in ways}
        for number in range(repeats + 1):  # the first turn reads files that the next ones have in memory
            for way in ways if number % 2 else reversed(ways):
                taken = seconds(way, cluster, folder)
                if number:
                    found[way.__name__].append(taken)
        for name, times in found.items():
            print(f"{name}: median {statistics.median(times):.2f} s of {', '.join(f'{each:.2f}' for each in times)}")
        added = statistics.median(found["over_ssh"]) - statistics.median(found["by_hand"])
        print(f"ssh adds {added:.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
