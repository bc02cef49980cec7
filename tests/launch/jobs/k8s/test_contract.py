"""The engine for Kubernetes keeps the contract of engines, with pods in network namespaces; see `tests.support.kubectl`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from halohop.datasets import synthetic
from halohop.partitioning.building.build import partition
from tests.support.contracts.engine import EngineContract
from tests.support.hosts import joined_or_skipped
from tests.support.kubectl import Cluster
from tests.support.launches import SubmittedLaunches

pytestmark = [pytest.mark.timeout(240), pytest.mark.full]


class PodLaunches(SubmittedLaunches):
    """Launchers on this machine, whose pods are in network namespaces."""

    engine = "k8s"
    names = ("halohop-trainers-0", "halohop-trainers-1")

    def __init__(self, cluster: Cluster, folder: Path, parts: Path) -> None:
        super().__init__(folder, parts)
        self.options = ("image = 'halohop'", "claim = 'shared'", f"mount = '{folder.parent}'")
        self.cluster = cluster

    def popen(self, arguments: Sequence[object], env: Mapping[str, str]) -> subprocess.Popen[str]:
        pipe, own = subprocess.PIPE, {**os.environ, "PATH": f"{self.cluster.bin}:{os.environ['PATH']}", **env}
        words = [sys.executable, *map(str, arguments)]
        return subprocess.Popen(words, cwd=self.folder, env=own, stdout=pipe, stderr=pipe, text=True, start_new_session=True)

    def processes(self) -> list[int]:
        return [number for node in self.cluster.nodes or () for number in node.process_ids()]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "parts"
    partition(synthetic("tiny"), path, num_parts=2, method="random")
    return path


@pytest.fixture
def launches(tmp_path: Path, parts: Path) -> Iterator[PodLaunches]:
    with joined_or_skipped(5, "pod") as nodes, Cluster(tmp_path / "cluster", nodes=nodes) as cluster:
        cluster.add("PersistentVolumeClaim", "shared")
        one = PodLaunches(cluster, tmp_path, parts)
        yield one
        one.close()


AGAIN = """
import os, sys
from pathlib import Path
if os.environ["RANK"] == "1" and not Path("failed").exists():
    Path("failed").touch()
    sys.exit(3)
"""
"""Fails once."""


class TestPods(EngineContract):
    def test_a_rank_that_fails_is_tried_again_in_the_same_pods(self, launches: PodLaunches) -> None:
        (launches.folder / "again.py").write_text(AGAIN)
        code, _, err = launches.run(more="run = ['again.py']", table="retries = 1")
        assert code == 0, err
        assert re.search(r"halohop: rank 1 \(halohop-trainers-1, process \d+\) failed with exit code 3; the end of ", err), err
        assert "\nthe job starts again\n" in err
        assert len(launches.cluster.all_pods) == 2

    def test_retries_that_are_used_up_end_the_job(self, launches: PodLaunches) -> None:
        code, _, err = launches.run("fail", 1, table="retries = 1")
        assert code == 1
        assert err.count("\nthe job starts again\n") == 1
        assert re.search(r"\nerror: rank 1 \(halohop-trainers-1, process \d+\) failed with exit code 1; the end of ", err), err

    @pytest.mark.parametrize(("number", "lost"), [(0, "pod"), (1, "pod"), (1, "save")])
    def test_a_pod_that_is_killed_or_evicted_costs_one_start(self, launches: PodLaunches, number: int, lost: str) -> None:
        """The job goes on with the pod that Kubernetes starts in its place."""
        launcher = launches.start("save" if lost == "save" else "until", launches.folder, table="retries = 1")
        launches.until_training(launcher, 2)
        pod = launches.cluster.pod(f"halohop-trainers-{number}")
        for rank in range(2):
            (launches.folder / f"rank-{rank}").unlink()
        if lost == "save":
            pod.evict()
        else:
            pod.kill_all()
        launches.until_training(launcher, 2)
        assert len(launches.cluster.all_pods) == 3
        if lost == "pod":
            (launches.folder / "over").touch()
            code, _, err = launches.ended(launcher, 60)
            assert code == 0, err
        else:
            launcher.send_signal(signal.SIGTERM)
            code, _, err = launches.ended(launcher)
            assert code == 143
        assert launches.gone_within() == []

    def test_connections_of_the_launcher_are_encrypted_with_the_others(self, launches: PodLaunches) -> None:
        code, _, err = launches.run("nothing", more="encrypt = true")
        assert code == 0, err

    def test_a_script_may_start_its_own_ranks(self, launches: PodLaunches) -> None:
        (launches.folder / "own.py").write_text("import sys\nprint('rank', *sys.argv[1:])")
        words = ["own.py", "{rank}", "{hosts}", "{master_addr}", "{master_port}"]
        code, _, err = launches.run(more=f"run = {words}\nstart = 'plain'\nmaster_port = 29501")
        assert code == 0, err
        for number in range(2):
            log = launches.out / "logs" / f"halohop-trainers-{number}-trainers-{number}.log"
            assert log.read_text() == f"rank {number} 2 halohop-trainers-0.halohop-trainers 29501\n"
