"""Job files and what they plan, as data: hosts, roles, partitions, ranks, addresses, environment, folders, resources.

How today's engines say it (scripts, manifests, JSON of a plan) is in `job_texts`. `plan_of` reads what a dry run prints. If that
changes, `plan_of` changes with it, and what it finds must not.
"""

import itertools
import json
import re
from pathlib import Path
from typing import Any

from tests.golden import transcripts

FOLDER = Path(__file__).parents[1] / "jobs"
ENGINES = ("local", "ssh", "slurm", "k8s", "ray")

FILES = {path.stem: ["--config", path.name] for path in sorted(FOLDER.iterdir()) if path.stem != "names"}
"""Each file alone."""

MIXED = {
    **{f"names_{engine}": ["--config", "names.yaml", "--engine", engine] for engine in ("local", "slurm", "ray")},
    "names_ssh": ["--config", "names.yaml", "--engine", "ssh", "--hosts", "a,b"],
    "options": [
        *(
            "--hosts",
            "2",
            "--trainers",
            "2",
            "--data",
            "/data/parts",
            "--out",
            "/runs/options",
            "--servers",
            "2",
            "--replicas",
            "2",
        ),
        *("--master-port", "4711", "--env", "A=1", "--env", "B=x y", "--encrypt", "--python", "/opt/python", "--folder", "/gnn"),
        *("--train", "epochs=3", "--train", "fanout=10,5", "--train", "exclude-seed-edges=false"),
    ],
    "options_over_file": [
        "--config",
        "local_servers.toml",
        "--trainers",
        "3",
        "--servers",
        "2",
        "--",
        "train.py",
        "{graph}",
        "{out}",
    ],
    "glt_options": [
        *("--config", "glt.yml", "--out", "runs/glt", "--master-addr", "10.0.0.7", "--master-port", "11234", "--epochs", "3"),
        *("--batch-size", "512", "--script", "examples/mine.py"),
    ],
    "dgl": [
        *("--workspace", "work", "--num_trainers", "2", "--num_samplers", "1", "--num_servers", "2", "--num_server_threads", "1"),
        *("--num_omp_threads", "5", "--part_config", "data/graph.json", "--ip_config", "ip_config.txt", "--ssh_username", "ann"),
        *("--ssh_port", "2222", "--extra_envs", "A=1 B=2", "--out", "runs/dgl", "--python", "/opt/python"),
        "python3 train.py --lr 0.01",
    ],
}
MODULES = {"glt": "halohop.glt.launch", "glt_options": "halohop.glt.launch", "dgl": "halohop.dgl.launch"}
"""Jobs that another command than `halohop launch` reads."""
DRY = ("names_local", "names_ray", "options", "options_over_file")
"""Jobs whose plan says all: the engine local prints it for --print, too."""

KEYS = {
    "job": "qqqqqq = 1\n",
    "servers": "[servers]\nqqqqqq = 1\n",
    "ssh.hosts": "[ssh.hosts.a]\nqqqqqq = 1\n",
    **{engine: f"[{engine}]\nqqqqqq = 1\n" for engine in ("ssh", "slurm", "k8s", "ray")},
}


def _commands() -> dict[str, list[str]]:
    found = {}
    for name, words in {**FILES, **MIXED}.items():
        place = words.index("--") if "--" in words else len(words) - (name == "dgl")
        for how in ("--dry-run", "--print"):
            if how == "--dry-run" or (not name.startswith(("docs", "local", "glt")) and name not in DRY):
                command = ["-m", MODULES[name]] if name in MODULES else ["launch"]
                found[f"{name} {how}"] = [*command, *words[:place], how, *words[place:]]
    for name in KEYS:
        engine = name.partition(".")[0]
        of = ["--engine", engine] if engine in ENGINES else []
        hosts = ["--hosts", "a,b"] if engine == "ssh" else []
        found[f"keys {name}"] = ["launch", "--config", f"keys/{name}.toml", *of, *hosts, "--print", "--", "train.py"]
    return found


COMMANDS = _commands()


def prepare(here: Path) -> None:
    for path in FOLDER.iterdir():
        (here / path.name).write_text(path.read_text())
    (here / "keys").mkdir()
    for name, text in KEYS.items():
        (here / "keys" / f"{name}.toml").write_text(
            f'{text if name == "job" else ""}data = "parts"\n{text if name != "job" else ""}'
        )
    (here / "work" / "data").mkdir(parents=True)
    (here / "work" / "ip_config.txt").write_text("10.0.0.7\nfd00::8 30050\n")
    (here / "work" / "data" / "graph.json").write_text(json.dumps({"num_parts": 2}))
    (here / "work" / "train.py").write_text("")
    (here / "bin").mkdir()
    (here / "bin" / "ssh").write_text(
        '#!/bin/sh\nfor last; do :; done\necho "hostname $last"\n'
    )  # as `ssh -G` without a configuration
    (here / "bin" / "ssh").chmod(0o755)


def make() -> dict[str, Any]:
    outcomes = transcripts.outcomes()
    found: dict[str, Any] = {}
    for name in [*FILES, *MIXED]:
        shown = {how: outcomes[f"{name} {how}"] for how in ("--dry-run", "--print") if f"{name} {how}" in COMMANDS}
        failed = {how: each.err for how, each in shown.items() if each.code}
        assert not failed, f"{name}: {failed}"
        data: dict[str, Any] = {"plan": plan_of(shown["--dry-run"].out)}
        engine = data["plan"]["engine"]
        if "--print" in shown and engine in ASKED:
            data["asked of the cluster"] = ASKED[engine](shown["--print"].out)
        found[f"{name}.json"] = (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    keys = {name: _known(outcomes[f"keys {name}"].err) for name in KEYS}
    found["keys.json"] = (json.dumps(keys, indent=1, sort_keys=True) + "\n").encode()
    return found


def _known(text: str) -> list[str]:
    found = re.search(r"unknown key 'qqqqqq'; known: (.*)", text)
    assert found, text
    return found[1].split(", ")


def plan_of(text: str) -> dict[str, Any]:
    """The text of a plan as data."""
    made = json.loads(text)
    job = made["job"]
    return {
        "engine": job["engine"],
        "started by": "torchrun" if job["start"] == "torchrun" else "itself",
        "master": made["master"],
        "out": job["out"],
        "processes": {process["name"]: _process(process) for process in made["processes"]},
    }


def _process(process: dict[str, Any]) -> dict[str, Any]:
    found = {"host": process["host"], "ranks": process["ranks"], **_program([process["python"], *process["argv"]])}
    if data := process["data"]:
        found["reads"] = {
            "partitions": f"share {_spelled(data['shares'])}" if data["shares"] else "all partitions",
            "of": data["source"],
            "brought to": data["folder"] if data["copied"] else None,
        }
    return found | {name: process[key] for name, key in (("env", "env"), ("after", "needs")) if process[key]}


def _spelled(shares: list[dict[str, int]]) -> str:
    """Shares as the option `--share` has them: ``0/4+1`` is ``0/4,1/4``."""
    first, *more = (f"{share['index']}/{share['count']}" for share in shares)
    following = [f"{(shares[0]['index'] + number) % shares[0]['count']}/{shares[0]['count']}" for number in range(1, len(shares))]
    return f"{first}+{len(more)}" if more and more == following else ",".join([first, *more])


def _program(words: list[str]) -> dict[str, Any]:
    python, *argv = words
    if argv[:2] != ["-m", "halohop"]:
        return {"python": python, "runs": argv}
    command, graph, *rest = argv[2:]
    return {"python": python, command: graph, "options": _options(rest)}


def _options(words: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word, following in itertools.zip_longest(words, words[1:], fillvalue="--"):
        if word.startswith("--"):
            found[word.lstrip("-")] = True if following.startswith("--") else following
    return found


def _slurm(text: str) -> dict[str, Any]:
    return {"sbatch": re.findall(r"^#SBATCH (.*)$", text, re.MULTILINE)}


def _k8s(text: str) -> dict[str, Any]:
    """The objects without the command lines of their containers."""
    import yaml

    found = {}
    for each in yaml.safe_load_all(text):
        pod = each["spec"].get("template", {}).get("spec", {})
        for container in [*pod.get("containers", ()), *pod.get("initContainers", ())]:
            container.pop("command", None)
            container.pop("args", None)
        found[f"{each['kind']} {each['metadata']['name']}"] = each
    return found


ASKED = {"slurm": _slurm, "k8s": _k8s, "ray": json.loads}
