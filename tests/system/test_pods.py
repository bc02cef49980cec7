"""Pods of the engine k8s: they move, their names with them, and trainers go on with the same batches."""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import halohop
from docs.site.blocks import blocks
from halohop.datasets import synthetic
from halohop.launch.jobs.job import Job, Servers, read_job
from halohop.launch.jobs.k8s.engine import Kubernetes
from tests.support.pages import section
from tests.support.pods import Pods, kill, on_pods, terminate

WORKER = Path(__file__).parent / "worker.py"
CLIENT = WORKER.parent / "client.py"
SECRETS = dict.fromkeys(("halohop-token/token", "papers-token/token"), "a secret of these tests only")
EPOCHS = 50
PATIENCE = 90
NAMES = ("graph-servers-0", "graph-servers-1")
TRAINER = "graph-trainers-0"

Process = subprocess.Popen[str]


@pytest.fixture
def expected(folders, tmp_path) -> list[str]:
    """The lines of a run that nothing happens to."""
    command = [sys.executable, str(WORKER), str(tmp_path / "parts"), str(EPOCHS), "0", "neighbor"]
    alone = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=True)
    return alone.stdout.splitlines()[:-1]


@pytest.fixture
def pods(network, folders, tmp_path, request) -> Iterator[Pods]:
    """Two servers, with as many replicas as the test asks for, and a trainer; each server fetches its partitions first."""
    sampling, replicas = request.param
    for script in (CLIENT, WORKER):
        shutil.copy(script, tmp_path)  # the claim; a ConfigMap would bring a script from elsewhere
    job = Job(
        engine="k8s",
        name="graph",
        hosts=1,
        data=str(tmp_path / "parts"),
        cache=str(tmp_path / "cache"),
        servers=Servers(count=2, replicas=replicas),
        run=(str(tmp_path / CLIENT.name), "{graph}", str(EPOCHS), sampling, str(PATIENCE)),
        out=str(tmp_path / "out"),
        options={"image": "halohop", "secret": "halohop-token", "claim": "shared", "mount": str(tmp_path)},
    )
    with on_pods(network, Kubernetes().show(job), SECRETS) as made:
        yield made


def take(trainer: Process, count: int) -> list[str]:
    """The lines of the next batches."""
    assert trainer.stdin is not None
    assert trainer.stdout is not None
    trainer.stdin.write("\n" * count)  # it answers each with a batch
    trainer.stdin.flush()
    return [trainer.stdout.readline().strip() for _ in range(count)]


def take_all(trainer: Process) -> list[str]:
    """The lines of all batches that are left; the trainer ends well."""
    out, err = trainer.communicate(timeout=150)
    assert trainer.returncode == 0, err
    return out.splitlines()


def given(*kinds: tuple[str, int]) -> Any:
    return pytest.mark.parametrize("pods", kinds, indirect=True, ids=[f"{kind[0]}-{kind[1]}" for kind in kinds])


@pytest.mark.full
@pytest.mark.timeout(600)
@given(("servers", 1), ("client", 1), ("servers", 2))
def test_two_pods_that_move_to_each_others_addresses_are_found(network, expected, pods):
    """All servers are lost at once, and each name has the address at which the other server was."""
    first, second, third, _ = network
    servers = pods.serve(dict(zip(NAMES, (first, second), strict=True)))
    trainer = pods.train(TRAINER, third)
    assert take(trainer, 5) == expected[:5]
    for server in servers.values():
        kill(server)
    pods.serve(dict(zip(NAMES, (second, first), strict=True)))
    assert take_all(trainer) == expected[5:]


@pytest.mark.full
@pytest.mark.timeout(600)
@given(("servers", 2), ("client", 2))
def test_a_server_that_is_asked_to_end_under_load_ends_well_and_no_batch_fails(network, expected, pods):
    """One after the other, each comes back on another host: all batches are those of an undisturbed run."""
    first, second, third, fourth = network
    servers = pods.serve(dict(zip(NAMES, (first, second), strict=True)))
    trainer = pods.train(TRAINER, third)
    got = take(trainer, 2)
    for name, home in zip(NAMES, (fourth, first), strict=True):
        ending = servers[name]
        ending.terminate()
        before = len(got)
        while ending.poll() is None and len(got) < len(expected) * (1 + NAMES.index(name)) // 3:
            got += take(trainer, 1)
        assert len(got) > before
        assert "terminated: all clients have left" in terminate(ending)
        servers |= pods.serve({name: home})
        got += take(trainer, 2)
    assert got + take_all(trainer) == expected
    for server in servers.values():
        terminate(server)


@pytest.mark.full
@pytest.mark.timeout(600)
def test_the_job_of_the_page_trains(network, tmp_path):
    """Two servers, and two pods of trainers that find the first of them by its name."""
    page = section("deploy/clusters.md", "Kubernetes")
    files = {block.file: block.text for block in blocks(page, {"/shared": str(tmp_path)}) if block.file}
    (tmp_path / "job.toml").write_text(files["job.toml"].replace("train.py", f"{tmp_path}/train.py"))
    (tmp_path / "train.py").write_text(files["train.py"])
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=2, method="random")
    job = read_job(tmp_path / "job.toml", {})
    with on_pods(network, Kubernetes().show(job), SECRETS) as pods:
        servers = pods.serve({f"papers-servers-{number}": network[number] for number in range(2)})
        trainers = pods.start({f"papers-trainers-{number}": network[2 + number] for number in range(2)})
        for trainer in trainers.values():
            out, err = trainer.communicate(timeout=200)
            assert trainer.returncode == 0, out + err
        for rank in range(2):
            log = (tmp_path / f"runs/papers/logs/papers-trainers-{rank}-rank-{rank}.log").read_text()
            lines = [line for line in log.splitlines() if line.startswith("rank ")]
            assert [line.split(":")[0] for line in lines] == [f"rank {rank}, epoch {epoch}" for epoch in range(3)]
        for server in servers.values():
            terminate(server)
    assert (tmp_path / "runs" / "papers" / "model.pt").is_file()


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("which", "number", "code"),
    [(1, signal.SIGTERM, 143), (1, signal.SIGKILL, -9), (0, signal.SIGTERM, 75), (0, signal.SIGKILL, -9)],
)
def test_a_job_goes_on_with_the_pod_that_takes_the_place_of_another(network, tmp_path, which, number, code):
    """One pod is asked to end, so all ranks save, or is killed. Losses are those of a run that nothing happened to."""
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=2, method="random")
    names = [f"halohop-trainers-{number}" for number in range(2)]
    homes = dict(zip(names, network[:2], strict=True))

    def manifests(out: str) -> str:
        options = {"image": "halohop", "secret": "halohop-token", "claim": "shared", "mount": str(tmp_path)}
        train = {"epochs": 12, "batch_size": 16, "fanout": [5, 5], "eval_every": 12, "save_every": 15}
        places = {"data": f"{tmp_path}/parts", "out": f"{tmp_path}/{out}"}
        return Kubernetes().show(Job(engine="k8s", hosts=2, train=train, options=options, **places))

    def losses(out: str) -> list[float]:
        return [event["loss"] for event in events(tmp_path / out) if event["event"] == "epoch"]

    with on_pods(network, manifests("undisturbed"), SECRETS) as pods:
        for trainer in pods.start(homes).values():
            _, err = trainer.communicate(timeout=150)
            assert trainer.returncode == 0, err
    with on_pods(network, manifests("stopped"), SECRETS) as pods:
        both = [*pods.start(homes).values()]
        while not losses("stopped"):
            assert both[0].poll() is None
        both[which].send_signal(number)
        assert both[which].wait(timeout=100) == code
        assert 0 < len(losses("stopped")) < 12
        (both[which],) = pods.start({names[which]: network[2]}).values()
        for trainer in both:
            out, err = trainer.communicate(timeout=150)
            assert trainer.returncode == 0, out + err
    assert [event["event"] for event in events(tmp_path / "stopped")].count("resume") == 1
    assert losses("stopped") == losses("undisturbed")


def events(out: Path) -> list[dict[str, Any]]:
    """Those that a run has written so far."""
    file = out / "metrics.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [0, 1])
@given(("servers", 1), ("client", 2))
def test_random_kills_leave_the_batches_and_no_process(network, expected, pods, seed):
    """Five kills a run: of servers, by either signal, which come back on a random free host; one at a time, or both at once."""
    chance = random.Random(seed)
    servers = pods.serve(dict(zip(NAMES, network[:2], strict=True)))
    homes = dict(zip(NAMES, network[:2], strict=True))
    trainer = pods.train(TRAINER, network[2])
    left, got = 5, []
    while left:
        got += take(trainer, chance.randrange(1, len(expected) // 10))
        victims = chance.sample(NAMES, chance.randrange(1, 1 + min(left, 2)))
        for name in victims:
            left -= 1
            if chance.random() < 0.5:
                kill(servers[name])
            else:
                terminate(servers[name])
        for name in victims:
            free = [host for host in (*network[:2], network[3]) if host not in homes.values() or homes[name] is host]
            homes[name] = chance.choice(free)
        servers |= pods.serve({name: homes[name] for name in victims})
    assert got + take_all(trainer) == expected
    for server in servers.values():
        terminate(server)
    assert [host.process_ids() for host in network] == [set()] * 4
