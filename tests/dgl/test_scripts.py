"""DGL's documents as scripts, changed by their import and their options, run and learn."""

import contextlib
import multiprocessing
import os
import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.support.dgl_ranks import in_ranks

EXAMPLES = Path(__file__).parents[2] / "examples" / "dgl"


def run_script(rank: int, host: int, script: str, arguments: list[str], out: str) -> str:
    """What a script prints in a process of its own."""
    multiprocessing.set_start_method("fork", force=True)  # as where a script is started by hand
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(EXAMPLES))
    printed = Path(out) / f"printed-{rank}.txt"
    with printed.open("w") as file, contextlib.redirect_stdout(file):
        os.dup2(file.fileno(), 1)  # what its own processes print, too
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    return printed.read_text()


def printed(script: str, out: Path, *arguments: object, size: int = 1, hosts: int = 1) -> list[str]:
    """What each rank of a script prints; all end well."""
    out.mkdir()
    return in_ranks(run_script, size, hosts, out, script, [str(argument) for argument in arguments], str(out))


def accuracies(text: str) -> list[float]:
    return [float(share) for share in re.findall(r"[aA]ccuracy ([0-9.]+)", text)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the scripts read."""
    root = tmp_path_factory.mktemp("data")
    (told,) = printed("data.py", root / "a", "--dataset", "synthetic:tiny", "--out", root / "data.pkl")
    assert "1000 nodes, 12000 edges, [600, 200, 200] in the splits" in told
    for name, dataset in (("plain", "synthetic:tiny"), ("typed", "synthetic-hetero:tiny")):
        how = ["--dataset", dataset, "--num_parts", 2, "--part_method", "random", "--out", root / name]
        (told,) = printed("partition.py", root / f"b{name}", *how)
        assert "edges in 2 partitions" in told
    return root


def test_the_tutorial_learns_on_two_processes(folder: Path, tmp_path: Path) -> None:
    how = ["--data", folder / "data.pkl", "--num_procs", 2, "--num_epochs", 4, "--batch_size", 64, "--lr", 0.01]
    (told,) = printed("multi_gpu.py", tmp_path / "out", *how, "--best_model_path", tmp_path / "model.pt")
    found = accuracies(told)
    assert len(found) == 4
    assert max(found) > 0.6
    assert (tmp_path / "model.pt").is_file()
    assert len(re.findall(r"Epoch \d{5} Step 00000 Loss", told)) == 4


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.full), 2])
def test_the_guide_learns(size: int, folder: Path, tmp_path: Path) -> None:
    how = ["--part_config", folder / "plain/graph.json", "--num_epochs", 4, "--batch_size", 64, "--lr", 0.01]
    told = printed("distributed_sage.py", tmp_path / "out", *how, size=size)
    val, test = accuracies(told[0])
    assert min(val, test) > 0.6, told
    assert all(f"rank {rank}: {600 // size} training nodes" in text for rank, text in enumerate(told))


@pytest.mark.full
@pytest.mark.parametrize("size", [1, 2])
def test_vectors_are_learned_with_an_rgcn(size: int, folder: Path, tmp_path: Path) -> None:
    how = ["--part_config", folder / "typed/graph.json", "--num_epochs", 3, "--batch_size", 64]
    told = printed("distributed_rgcn.py", tmp_path / "out", *how, size=size)
    assert accuracies(told[0])[-1] > 0.6, told
