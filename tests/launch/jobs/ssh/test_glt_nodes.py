"""`examples/glt/launch.py` against real ssh servers: a program with the arguments of the documents', which starts trainers."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.deadlines import within

pytestmark = pytest.mark.timeout(240)

LAUNCH = Path(__file__).parents[4] / "examples" / "glt" / "launch.py"

PROGRAM = """
import argparse, multiprocessing.connection, os, signal, socket, sys, time
from pathlib import Path

def meet(args):
    place = (args.master_addr, args.training_pg_master_port)
    if args.node_rank == 0:
        with socket.create_server(("", place[1])) as server:
            server.settimeout(30)
            server.accept()[0].sendall(b"met")
        return
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(place, 5) as peer:
                assert peer.recv(3) == b"met"
                return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.05)

def train(number, args, what):
    Path(f"trainer-{args.node_rank}-{number}").touch()
    if what == "wait":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)
    if what == f"fail {args.node_rank} {number}":
        raise LookupError("no such luck")
    if what.startswith("fail"):
        time.sleep(1000)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dataset")
    parser.add_argument("--dataset_root_dir")
    parser.add_argument("--master_addr")
    for name in (
        "in_channel", "out_channel", "num_dataset_partitions", "num_nodes", "node_rank", "num_training_procs",
        "training_pg_master_port", "train_loader_master_port", "test_loader_master_port", "epochs", "batch_size",
    ):
        parser.add_argument(f"--{name}", type=int, required=True)
    args = parser.parse_args()
    what = Path("what").read_text()
    sys.stdout.write(f"node {args.node_rank} of {args.num_nodes} on {os.environ['CUDA_VISIBLE_DEVICES']} in {Path.cwd()}\\n")
    assert Path(args.dataset_root_dir, f"{args.dataset}-partitions", "manifest.json").is_file()
    assert len(os.environ["HALOHOP_TOKEN"]) == 64 and "RANK" not in os.environ
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth0"
    meet(args)
    context = multiprocessing.get_context("spawn")
    trainers = [context.Process(target=train, args=(number, args, what)) for number in range(args.num_training_procs)]
    for trainer in trainers:
        trainer.start()
    running = {trainer.sentinel: trainer for trainer in trainers}
    while running:  # as torch.multiprocessing.spawn does: the first failure ends the others
        for ended in multiprocessing.connection.wait([*running]):
            trainer = running.pop(ended)
            trainer.join()
            if trainer.exitcode:
                for other in running.values():
                    other.terminate()
                sys.exit(f"{trainer.name} failed")
    sys.stdout.write(f"epochs {args.epochs} of batches of {args.batch_size}\\n")
"""


class Nodes:
    """Two nodes with a folder each, and the launcher of the documents."""

    def __init__(self, launches) -> None:
        self.launches, self.names = launches, [host.address for host in launches.cluster.hosts]
        self.folders = [launches.folder / name / "halohop" for name in "ab"]
        self.scripts = [folder / "examples" / "glt" for folder in self.folders]
        for script in self.scripts:
            parts = script.parents[2] / "data" / "ogbn-products" / "ogbn-products-partitions"
            for made in (script, parts):
                made.mkdir(parents=True)
            (script / "dist_train_sage_supervised.py").write_text(PROGRAM)
            (parts / "manifest.json").write_text("{}")
            (parts.parent / "ogbn-products-label").mkdir()
            (parts.parent / "ogbn-products-label" / "label.pt").write_text("labels")
        client = launches.folder / "bin" / "ssh"  # as the user's own configuration would be
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {launches.cluster.config} "$@"\n')
        client.chmod(0o755)

    def start(self, *words: object, what: str = "", **changed: object):
        for script in self.scripts:
            (script / "what").write_text(what)
        table = {
            "nodes": self.names,
            "ports": [22, 22],
            "usernames": ["root", "root"],
            "python_bins": [sys.executable] * 2,
            "dataset": "ogbn-products",
            "in_channel": 100,
            "out_channel": 47,
            "dst_paths": [*map(str, self.folders)],
            "visible_devices": ["0,1", "2,3"],
        }
        config = self.launches.folder / "config.yml"
        config.write_text(yaml.safe_dump(table | changed))
        path = {"PATH": f"{self.launches.folder}/bin:{os.environ['PATH']}"}
        given = [f"--config={config}", "--master_port=11234", f"--out={self.launches.out}", *words]
        return self.launches.command(LAUNCH, *given, env=path)

    def run(self, *words: object, **changed: object) -> tuple[int, str, str]:
        launcher = self.start(*words, **changed)
        out, err = launcher.communicate(timeout=within(60))
        return launcher.returncode, out, err

    def are_training(self) -> bool:
        return sum(len([*script.glob("trainer-*")]) for script in self.scripts) == 4


@pytest.fixture
def nodes(launches) -> Nodes:
    return Nodes(launches)


@pytest.mark.full
def test_the_documents_command_runs_on_two_nodes(nodes: Nodes) -> None:
    code, out, err = nodes.run(f"--master_addr={nodes.names[0]}", "--batch_size=512")
    assert code == 0, err
    for number, (name, devices) in enumerate(zip(nodes.names, ("0,1", "2,3"), strict=True)):
        lines = [f"node {number} of 2 on {devices} in {nodes.scripts[number]}", "epochs 10 of batches of 512"]
        assert [line for line in out.splitlines() if line.startswith(f"[{name}]")] == [f"[{name}] {line}" for line in lines]
        log = nodes.launches.out / "logs" / f"{name}-trainers-{number}.log"
        assert log.read_text().splitlines() == lines
    assert nodes.are_training()
    assert nodes.launches.gone_within() == []


@pytest.mark.full
@pytest.mark.parametrize("node", [0, 1])
def test_the_node_of_a_trainer_that_fails_is_named_and_all_end(nodes: Nodes, node: int) -> None:
    code, _, err = nodes.run(what=f"fail {node} 0")
    assert code == 1
    name, other = nodes.names[node], nodes.names[1 - node]
    said = rf"trainers {node} \({name}, process \d+\) failed with exit code 1; the end of {nodes.launches.out}/logs/{name}"
    assert re.search(said, err), err
    assert "LookupError: no such luck" in err
    assert re.fullmatch(rf" *then the launcher ended trainers {1 - node} \({other}, process \d+\)", err.splitlines()[-1])
    assert nodes.launches.gone_within() == []


@pytest.mark.full
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_ends_ends_trainers_that_do_not_want_to(nodes: Nodes, kind: signal.Signals) -> None:
    launcher = nodes.start(what="wait")
    nodes.launches.wait_for(nodes.are_training, launcher)
    launcher.send_signal(kind)
    launcher.communicate(timeout=within(15))
    assert launcher.returncode != 0
    assert nodes.launches.gone_within() == []


@pytest.mark.full
def test_a_program_that_is_killed_takes_its_trainers_with_it(nodes: Nodes) -> None:
    launcher = nodes.start(what="wait")
    nodes.launches.wait_for(nodes.are_training, launcher)
    host = nodes.launches.cluster.hosts[1]
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in host.process_ids()}
    (program,) = [pid for pid, command in commands.items() if b"dist_train_sage_supervised.py" in command]
    os.kill(program, signal.SIGKILL)
    _, err = launcher.communicate(timeout=within(15))
    assert launcher.returncode == 1
    assert re.search(rf"trainers 1 \({nodes.names[1]}, process \d+\) was killed by SIGKILL", err), err
    assert nodes.launches.gone_within() == []


@pytest.mark.full
def test_a_node_whose_network_is_cut_is_named_and_all_end(nodes: Nodes) -> None:
    launcher = nodes.start(what="wait")
    nodes.launches.wait_for(nodes.are_training, launcher)
    host = nodes.launches.cluster.hosts[1]
    host.cut()
    try:
        _, err = launcher.communicate(timeout=within(25))
        assert launcher.returncode == 1
        assert f"host {nodes.names[1]}: the connection is lost" in err
        assert nodes.launches.gone_within() == []
    finally:
        host.heal()


@pytest.mark.full
def test_what_cannot_run_on_a_node_is_said_before_anything_starts(nodes: Nodes) -> None:
    bare = nodes.launches.folder / "bin" / "bare"  # a Python without halohop
    bare.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    a, b = nodes.names
    for changed, words in (
        ({"python_bins": [sys.executable, "/no/python"]}, f"host {b} has no Python at /no/python; name one that is there"),
        ({"python_bins": [sys.executable, str(bare)]}, f"host {b} has no halohop .* for {bare}; .*python_bins"),
        ({"usernames": ["root", "eve"]}, f"host {b} refuses our key"),
        ({"ports": [22, 2222]}, f"host {b} has no ssh server that answers"),
        ({"nodes": [a, "10.99.0.77"]}, "host 10.99.0.77 is not reached"),
        ({"dst_paths": [str(nodes.folders[0]), "/no/folder"]}, f"host {b} .* no folder /no/folder/examples/glt"),
        ({"dataset": "ogbn-papers100M"}, "ogbn-papers100M-partitions has no manifest.json"),
    ):
        code, out, err = nodes.run(**changed)
        assert (code, out) == (2, "")
        assert re.search(words, err), err
    assert not any([*script.glob("trainer-*")] for script in nodes.scripts)


@pytest.mark.full
def test_an_unknown_host_key_is_refused(nodes: Nodes) -> None:
    client = nodes.launches.folder / "bin" / "ssh"
    client.write_text(client.read_text().replace(' "$@"', ' -o UserKnownHostsFile=/dev/null "$@"'))
    code, _, err = nodes.run()
    assert code == 2
    assert "has a key that is not known here" in err


@pytest.mark.full
@pytest.mark.parametrize("what", ["script", "partitions", "labels"])
def test_folders_that_differ_between_nodes_are_refused(nodes: Nodes, what: str) -> None:
    second = nodes.scripts[1]
    file = second / "dist_train_sage_supervised.py"
    if what == "partitions":
        file = second / "../../../data/ogbn-products/ogbn-products-partitions/manifest.json"
    if what == "labels":
        file = second / "../../../data/ogbn-products/ogbn-products-label/label.pt"
    file.write_text(file.read_text() + "\n")
    code, _, err = nodes.run()
    assert code == 2
    assert f"{file} on {nodes.names[1]} differs from {nodes.scripts[0]}/" in err
    assert "all hosts must have the same; copy it from one to all" in err


@pytest.mark.full
def test_no_value_of_the_file_is_read_by_a_shell(nodes: Nodes) -> None:
    """Each value names a command; none runs it."""
    ran = nodes.launches.folder / "ran"
    shell = f"$(touch {ran})`touch {ran}`; touch {ran}; ' ; touch {ran} ; '"
    for name in ("python_bins", "dst_paths", "usernames"):
        code, _, err = nodes.run(**{name: [f"/x{shell}"] * 2})
        assert code == 2, err
        assert not ran.exists(), name
    device = f"$(touch${{IFS}}{ran})"
    code, out, err = nodes.run(visible_devices=[device] * 2, dst_paths=[*map(str, nodes.folders)])
    assert code == 0, err
    assert f"on {device} in" in out
    assert not ran.exists()
