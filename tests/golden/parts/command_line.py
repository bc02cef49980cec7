"""Transcripts of the command line: help, usual commands on a tiny graph, and refusals with their exit codes.

Only words in order are kept: borders and line ends depend on versions of rich and typer.
"""

import re
from pathlib import Path
from typing import Any

from tests.golden import transcripts
from tests.golden.commands import Outcome, words_of

COMMANDS_WITH_HELP = [
    *("", "bench", "compile", "demo", "export", "fetch", "health", "infer", "inspect", "launch", "launch copy", "partition"),
    *("replicate", "serve", "sum-weights", "top", "train", "upload"),
]
TRAIN = "train parts --epochs 1 --fanout 3,2 --hidden 4 --batch-size 128 --workers 1 --out run"
USUAL = {
    "partition": "partition synthetic:tiny parts --parts 2 --method random",
    "partition again": "partition synthetic:tiny parts --parts 2 --method random",
    "inspect": "inspect parts --verify",
    "inspect --json": "inspect parts --json",
    "replicate": "replicate parts --replica-ratio 0.1 --fanout 3,2",
    "sum-weights": "sum-weights parts weight",
    "export": "export parts dgl --name tiny",
    "upload": "upload parts file://{here}/store/parts",
    "fetch": "fetch file://{here}/store/parts fetched --share 0/2",
    "train": TRAIN,
    "train again": TRAIN,
    "train --resume, another option": "train --resume run --hidden 8",
    "infer": "infer parts --checkpoint run/checkpoint --out predictions",
    "top": "top 127.0.0.1:1 --once",
    "health": "health 127.0.0.1:1 --seconds 0.1",
    "version": "--version",
}
REFUSED = {
    "no such command": "frobnicate",
    "no such option": "train parts --epoch 3",
    "no argument": "partition",
    "quiet": "-q inspect x",
    "no such graph": "inspect nowhere",
    "no such source": "train nowhere:small",
    "no such size": "train synthetic:giant",
    "train: dropout": "train x --dropout 1.5",
    "train: text": "train x --fanout 5;3",
    "train: choice": "train x --model mlp",
    "train: nodes": "train x --nodes 0",
    "train: file": "train x --config none.toml",
    "train: key": "train x --config bad.toml",
    "infer: no checkpoint": "infer parts",
    "infer: servers": "infer h:1,h:2 --checkpoint nothing",
    "infer: absent": "infer parts --checkpoint nowhere --out other",
    "serve: column": "serve nowhere --column y",
    "serve: both": "serve parts --share 0/2 --partitions 0",
    "partition: method": "partition x y --method magic",
    "partition: halo": "partition synthetic:tiny out --halo when",
    "partition: memory": "partition synthetic:tiny out --memory lots",
    "partition: URL": "partition synthetic:tiny s3://bucket/x",
    "export: absent": "export nowhere out",
    "bench": "bench nothing --size tiny",
    "launch: nothing": "launch",
    "launch: no script": "launch --data parts --out r",
    "launch: trian.py": "launch --data parts -- trian.py",
    "launch: engine": "launch --data parts --engine sge -- t.py",
    "launch: twice": "launch --data parts --hosts a,a -- t.py",
    "launch: both": "launch --data parts --train epochs=1 -- t.py",
    "launch: option": "launch --data parts --train epoch=1",
    "launch: pair": "launch --data parts --train epochs",
    "launch: env": "launch --data parts --env HALOHOP_TOKEN=x -- t.py",
    "launch: replicas": "launch --data parts --servers 2 --replicas 3 -- t.py",
    "launch: port": "launch --config port.toml",
    "launch: plain": "launch --data parts --start plain -- t.py",
    "launch: wait": "launch --data parts --wait -- t.py",
    "launch: ssh": "launch --engine ssh --hosts 2 --data parts --print -- t.py",
    "launch: k8s": "launch --config names.yaml --engine k8s",
    "launch: URL": "launch --data s3://bucket/x -- t.py",
    "launch: local": "launch --config of_local.toml",
    "launch: share": "launch --config share.toml",
    "launch: name": "launch --data parts --name A_b -- t.py",
    "launch: GLT": "launch --config glt.yml",
    "launch copy: engine": "launch copy --config local_servers.toml",
    "launch copy: nothing": "launch copy --config ssh_plain.toml",
    "launch: hosts": "launch --data parts --hosts 3 --out r -- work/train.py",
    "train: nodes of parts": "train parts --nodes 3 --out r3",
}
COMMANDS = {
    **{
        f"help {name}".strip(): [*name.split(maxsplit=0 if name == "launch copy" else -1), "--help"]
        for name in COMMANDS_WITH_HELP
    },
    **{f"usual: {name}": words.split() for name, words in USUAL.items()},
    **{f"refused: {name}": words.split() for name, words in REFUSED.items()},
}
COMMANDS["refused: launch: DGL"] = [
    *("launch", "--workspace", "work", "--num_trainers", "1", "--part_config", "data/graph.json", "--ip_config", "ip_config.txt"),
    "python3 train.py && rm x",
]


def prepare(here: Path) -> None:
    (here / "bad.toml").write_text("batchsize = 3\n")
    job = 'data = "parts"\nrun = "t.py"\nout = "r"\n'
    (here / "port.toml").write_text(f"{job}master-port = 0\n")
    (here / "of_local.toml").write_text(f"{job}[local]\nx = 1\n")
    (here / "share.toml").write_text(f'{job}[servers]\nshares = ["0/2"]\n')
    for name, words in COMMANDS.items():
        COMMANDS[name] = [word.replace("{here}", str(here)) for word in words]


def make() -> dict[str, Any]:
    outcomes = transcripts.outcomes()
    return {name: _kept(name, outcomes[name]) for name in COMMANDS}


def _kept(name: str, found: Outcome) -> Any:
    if name.startswith("help"):
        assert found.code == 0, found.err
        return words_of(found.out)
    out, err = found.out, found.err
    err = "\n".join(
        line for line in err.splitlines() if not re.match(r"\w+: [\d,]+ of [\d,]+, .* left$|.* waited .* for data", line)
    )
    return {"code": found.code, "out": _without_measures(name, words_of(out)), "err": _without_measures(name, words_of(err))}


def _without_measures(name: str, text: str) -> str:
    """Text without versions, times and rates; a training's numbers are results of products, which differ between computers."""
    if name == "usual: version":
        return re.sub(r"\d\S*(?=[ ,)])", "{version}", text)
    if name.startswith("usual: train") or name.startswith("usual: infer"):
        text = re.sub(r"(?<![\w-])[\d,]*\d(?:\.\d+)?k?(?: [KMG]iB|%)?(?![\w-])", "{n}", text)
    return re.sub(r"\d[\d.,]* (seconds|s)\b", r"{n} \1", text)
