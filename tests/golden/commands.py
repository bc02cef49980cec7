"""Runs commands of halohop and of its faces in turn, each in a process that is forked from one that has imported everything."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WARM = [
    *(
        "typer",
        "rich.console",
        "yaml",
        "halohop.launch.cli",
        "halohop.launch.commands.partition",
        "halohop.launch.commands.serving",
    ),
    *("halohop.launch.jobs.local.engine", "halohop.launch.jobs.ssh.engine", "halohop.launch.jobs.slurm.engine"),
    *("halohop.launch.jobs.k8s.engine", "halohop.launch.jobs.ray.engine", "halohop.launch.pages.summary"),
    *("halohop.dgl.launch", "halohop.glt.launch"),
    *("halohop.launch.runs.runs", "halohop.launch.runs.source", "halohop.recipes.train", "halohop.recipes.inference"),
]
"""Modules that are imported once, if they are there: this only saves time."""

TIMEOUT = 800.0
"""Seconds that all commands may take."""

RUNNER = """
import gc, importlib, json, os, sys
import halohop.__main__
asked = json.load(sys.stdin)
for name in asked["warm"]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
gc.freeze()


def become(_, argv):
    sys.argv = argv[2:]
    halohop.__main__.main()


for number, words in enumerate(asked["commands"]):
    pid = os.fork()
    if not pid:
        for descriptor, kind in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{asked['logs']}/{number}.{kind}", os.O_WRONLY | os.O_CREAT), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv = become
        if words[0] == "-m":
            sys.argv = words[1:]
            importlib.import_module(words[1]).main()
        become("", ["", "-m", "halohop", *words])
    _, status, used = os.wait4(pid, 0)
    with open(f"{asked['logs']}/{number}.end", "w") as file:
        json.dump([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime], file)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command left: its exit code, the seconds of a core that it took, and its output, normalized."""

    code: int
    seconds: float
    out: str
    err: str


def run(folder: Path, commands: Sequence[Sequence[str]], *, env: Mapping[str, str] | None = None) -> list[Outcome]:
    """Runs commands in a folder."""
    logs = folder.with_name(f"{folder.name}-logs")
    logs.mkdir(exist_ok=True)
    base = {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "100", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    base |= {name: os.environ[name] for name in os.environ if name.startswith(("PYTHON", "NUMBA", "OMP", "TRITON", "TMP"))}
    asked = {"warm": WARM, "commands": list(commands), "logs": str(logs)}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUNNER],
        input=json.dumps(asked),
        cwd=folder,
        env=base | dict(env or {}),
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    return [
        Outcome(
            code=code,
            seconds=seconds,
            out=normalized((logs / f"{number}.out").read_text(), folder),
            err=normalized((logs / f"{number}.err").read_text(), folder),
        )
        for number in range(len(commands))
        for code, seconds in [json.loads((logs / f"{number}.end").read_text())]
    ]


def normalized(text: str, folder: Path) -> str:
    """Text without what depends on the machine: its paths, and the interpreter."""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    for data in ("parts", "work/data"):  # a folder in a cache has digits of where its data set is
        text = text.replace(hashlib.sha256(str(folder / data).encode()).hexdigest()[:8], "{digits of its path}")
    for path, name in ((folder, "{here}"), (Path(sys.executable), "{python}"), (Path(sys.executable).resolve(), "{python}")):
        text = text.replace(str(path), name)
    text = re.sub(r"\b\d{8}-\d{6}\b", "{date}", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n" * text.endswith("\n")


def words_of(text: str) -> str:
    """The words of a text in order, without borders and without where lines end, which depend on versions of rich and typer."""
    return " ".join(re.sub(r"[─│╭╮╰╯┌┐└┘├┤┬┴┼━┃┏┓┗┛█▏▎▍▌▋▊▉]", " ", text).split())
