"""What examples/ holds runs as it stands, and links between pages lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.deadlines import within
from tests.support.forked import Forked

ROOT = Path(__file__).parents[1]

REACHED = {
    "heterogeneous": {"test accuracy": 0.6},
    "knowledge_graph": {"test MRR": 0.5},  # chance: 0.02
    "temporal_links": {"test AUC": 0.9, "average precision": 0.85},
    "unsupervised": {"test accuracy": 0.78, "features alone": 0.6},
}
"""What examples say in the end, at least."""


def run(*arguments: object, cwd: Path, seconds: float = 250) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return done.stdout


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_files_lead_somewhere(page):
    files = re.findall(r"\]\(([\w/.-]+\.(?:py|md))\)", page.read_text())
    assert [file for file in files if not (page.parent / file).exists()] == []


ELSEWHERE = {"spawned", "ray_train"}
"""Examples that have a test of their own; that of Ray is in tests/launch/jobs/ray."""
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_are_short(example):
    assert len(example.read_text().splitlines()) <= 120


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=[pytest.mark.full] * (path.stem == "compiled"))  # tests/recipes/test_compiling.py compiles, too
        for path in EXAMPLES
        if path.stem not in ELSEWHERE
    ],
    ids=lambda path: path.name,
)
def test_examples(example, tmp_path):
    process = Forked(example.stem, [], os.environ | {"PYTHONPATH": str(example.parent)}, cwd=tmp_path)
    try:
        out = process.stdout.read()
        assert process.wait(250) == 0, process.stderr.read()
    finally:
        process.kill()
        process.wait(60)
        process.close()
    assert re.search(r"epoch 4: loss \d\.\d", out)
    for figure, at_least in REACHED.get(example.stem, {}).items():
        (value,) = re.findall(rf"{figure}:? (\d\.\d+)", out)
        assert float(value) > at_least, figure


@pytest.mark.full  # tests/pyg/test_own_seeds.py has ranks with seeds of their own
@pytest.mark.timeout(600)
def test_ranks_of_one_script(tmp_path):
    """Four processes with 750, 500, 250 and no seeds: 12 + 8 + 4 batches of 64, and two of five columns."""
    out = run(ROOT / "examples" / "spawned.py", cwd=tmp_path, seconds=within(60)).splitlines()
    losses = [
        float(re.fullmatch(rf"epoch {epoch}: loss (.*), 24 batches with x and y", line)[1]) for epoch, line in enumerate(out)
    ]
    assert len(losses) == 5
    assert losses[-1] < 0.4 * losses[0]


@pytest.mark.full
def test_an_example_under_torchrun(tmp_path):
    example = ROOT / "examples" / "node_classification.py"
    out = run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, example, cwd=tmp_path)
    assert out.count("epoch 4") == 1
