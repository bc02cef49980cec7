"""Errors of many commands, as a user reads them: in the words of the command line, without Python's."""

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from halohop.launch.cli import app
from tests.support.forked import Forked

PYTHON = re.compile(
    r"(?<![\w?&'/-])[a-z_]+=['\"(\[\w]"  # name=value, but not in a URL or in quoted text
    r"|['\"][\w-]+['\"]\]|\['|\[\]"  # lists
    r"|\bNone\b|`\$|Expected `"
    r"|(--[\w-]+)(?:,| or) \1\b"  # an option twice
    r"|(?<![\w./'=?&-])[a-z]+_[a-z_]+(?=[ ,;.]|$)"  # a name of Python
)
ALLOWED = ("edge_index.npy", "part_config.json", "zero_copy", "raw_id", "train_mask", "val_mask", "test_mask")

CASES = """
train nope | 'nope' is neither a file nor a known source; .*synthetic:powerlaw\\?nodes=N&edges=N&features=N
train synthetic:huge | unknown size 'huge'; use one of tiny, small, medium, products$
train synthetic-hetero:huge | unknown size 'huge' of synthetic-hetero; use one of tiny, small, medium$
train synthetic:powerlaw | 'synthetic:powerlaw' lacks nodes; write synthetic:powerlaw\\?nodes=N&edges=N$
train synthetic:powerlaw?nodes=0&edges=5 | nodes must be from 1 to 3000000000, got 0$
train synthetic:powerlaw?nodes=x&edges=5 | 'synthetic:powerlaw\\?nodes=x&edges=5': nodes must be a whole number, got 'x'
train synthetic:tiny --task link --time-attr when | no relation has a column 'when' of times; columns of edges: none$
train synthetic:tiny --time-attr when | --time-attr when means nothing with --task node
train synthetic:tiny --nodes 5000 | --nodes 5000, but the graph has 1000 nodes; give at most 1000
train PARTS --task link | add masks, or name the column of the edges' times as --time-attr$
train PARTS --target author | unknown node type 'author'; known: node$
train PARTS --model rgcn | --model rgcn is for graphs of several relations
train PARTS --relation a,b --task link | --relation a,b must be three names
train PARTS --heads 3 --model gat | --hidden 64 must be a multiple of --heads 3
train PARTS --device gpu | --device gpu is no device of torch
train PARTS --mode cuda | --mode cuda is for GPUs; give --device cuda, or leave --mode out
train PARTS --feature-cache 1GB | or leave --feature-cache out
train PARTS --locality blocks | partition it with --method metis into 2, 4, 8, ... partitions, or use --locality owner
train PARTS --nodes 99 | --nodes 99, but .* has 2 partitions
train PARTS --batch-size 0 | --batch-size 0 must be at least 1
train PARTS --deadline 0 | --deadline 0.0 must be over 0
train PARTS --out RUN | choose another folder, go on with it \\(--resume\\), or start again there \\(--overwrite\\)
train s3://bucket/parts | say into which folder: --stage FOLDER$
train h:x,h:2 | 'h:x' is not an address
infer PARTS --checkpoint c --fanout 1 --batch-edges 0 | --batch-edges 0 must be at least 1
partition synthetic:tiny OUT --parts 5000 | --parts 5000, but the graph has 1000 nodes
partition synthetic:tiny OUT --replica-ratio .1 --split foo | --split foo: the graph has no such split; its splits: node:train
partition synthetic:tiny OUT --method frequency --split foo | --split foo: the graph has no such split
partition synthetic:tiny OUT --method frequency --hotness degree | 'degree' is the same for all partitions
partition synthetic:tiny OUT --replica-ratio 1 --replica-memory 1MB | give one of --replica-ratio and --replica-memory$
partition synthetic:tiny OUT --replica-ratio -1 | give one of ratio and memory, more than 0
partition synthetic:tiny OUT --method random --blocks 4 | --blocks 4, but --method random makes none; use --method metis
partition synthetic:tiny OUT --halo raw_id,when | halo names 'when'
partition synthetic:tiny OUT --feature-dtype z=int8 | 'z'
partition synthetic:tiny OUT --weight-sums w | 'w'
partition synthetic:tiny OUT --memory 1KB | --memory
partition synthetic:tiny PARTS | pass --overwrite to replace the data set there$
partition synthetic:tiny s3://b/p | say in which folder: --stage FOLDER$
fetch PARTS OUT --partitions 9 | --partitions 9 are not in
fetch PARTS OUT --partitions 0 --share 0/2 | --partitions 0 and --share 0/2 both say what to fetch
export PARTS OUT --name a/b | --name a/b is no name of a file
replicate PARTS | give one of --replica-ratio and --replica-memory$
replicate PARTS --replica-ratio 0.1 --split foo | --split foo: the graph has no such split; its splits: node:train
sum-weights PARTS w | 'w'
serve PARTS --partitions 9 | partitions 9 are not in .*, which holds 0, 1$
serve PARTS --advertise 0.0.0.0:1 | --advertise 0.0.0.0:1 means all interfaces
bench nothing | unknown benchmark 'nothing'; use one of sampling, gather, partitioned$
bench sampling --size huge | unknown size 'huge'; use one of tiny, small, medium, products$
compile --cpu foo | --cpu foo is not a processor that LLVM knows; use generic, x86-64-v2
launch | error: --data is missing: the folder of the partitions, or a URL$
launch --data p | give either a script to run \\(after --, .*\\) or options of halohop train \\(--train, or \\[train
launch --engine ssh --data p --hosts 2 -- t.py | --hosts 2 is a number, but --engine ssh needs names, such as
launch --hosts a,a --data p -- t.py | host 'a' is named twice; set
launch --trainers 2 --data p --start plain -- t.py | --start plain runs a script once on each host
launch --data s3://b/p -- t.py | --data s3://b/p must be fetched before it is used; give a folder .* \\(--cache\\)
launch --data p --train fan=1 | options of halohop train: unknown option 'fan'
launch --data p --name Bad_Name -- t.py | --name Bad_Name must have at most 40 small letters
launch --num_trainers 2 t.py | --num_trainers is an option of DGL's launcher; run `python -m halohop.dgl.launch`$
launch copy --ip_config f | --ip_config is an option of DGL's launcher; run `python -m halohop.dgl.copy_files`$
"""

OF_JOB_FILES = {
    'encrypt = "yes"': "encrypt must be true or false, got text",
    'start = "plane"': "start must be one of torchrun, plain, got 'plane'",
    'trainers = "x"': "trainers must be a whole number, got text",
    "trainers = 0": "trainers 0 must be at least 1",
    'engine = "sge"': "unknown engine 'sge'; use one of local, ssh, slurm, k8s, ray",
    'env = "x"': "env must be a table, got text",
    'start = "plain"\ntrainers = 2': "start plain runs a script once on each host",
    '[servers]\nreplicas = "two"': r"\[servers\]: replicas must be a whole number, got text",
    '[servers]\nshares = ["0/1"]\nreplicas = 2': r"\[servers\]: shares 0/1 say what each server holds",
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors")
    (folder / "run/checkpoint").mkdir(parents=True)
    (folder / "run/metrics.jsonl").touch()
    (folder / "run/checkpoint/model.pt").touch()
    assert CliRunner().invoke(app, ["partition", "synthetic:tiny", str(folder / "parts"), "--method", "random"]).exit_code == 0
    return folder / "parts"


TERMINAL = {"COLUMNS": "200", "TERM": "dumb"}
REFUSED_BY_TRAINERS = ("--mode", "--feature-cache", "--locality")
"""A launcher that is forked forks its trainers, too: they import nothing."""


def error_of(*arguments: str) -> str:
    if set(REFUSED_BY_TRAINERS) & {*arguments}:
        done = Forked("halohop.__main__", arguments, os.environ | TERMINAL).finish()
        assert done.returncode == 2, done.stderr
        return done.stderr.strip().splitlines()[-1]
    result = CliRunner(env=TERMINAL).invoke(app, arguments)
    assert result.exit_code == 2, result.output
    return result.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("case", CASES.strip().splitlines(), ids=lambda case: case.partition(" | ")[0])
def test_errors_are_in_words_of_the_command_line(case: str, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(parts.parent)
    command, _, said = case.partition(" | ")
    places = {"PARTS": str(parts), "OUT": str(parts.with_name("out")), "RUN": str(parts.with_name("run"))}
    error = error_of(*(places.get(word, word) for word in command.split()))
    assert re.search(said, error), error
    for place in (*places.values(), *command.split(), *ALLOWED):
        error = error.replace(place, "X") if "_" in place or "=" in place else error
    assert not (found := PYTHON.search(error)), found
    assert not parts.with_name("out").exists()  # refused before anything is done


@pytest.mark.parametrize("table", OF_JOB_FILES)
def test_errors_of_job_files_name_their_keys(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.toml").write_text(f'data = "p"\nout = "o"\nrun = "t.py"\n{table}\n')
    error = error_of("launch", "--config", "job.toml", "--dry-run")
    assert re.search(f"error: job.toml: {OF_JOB_FILES[table]}", error), error
    assert not (found := PYTHON.search(error)), found
