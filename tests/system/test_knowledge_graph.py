"""The example of knowledge-graph embeddings on two hosts: what it learns, and that it goes on when both were killed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

import halohop
from tests.support.deadlines import within
from tests.support.hosts import Host

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
SMALL = ("--width", 32, "--batch-size", 100, "--negatives", 100)


@pytest.fixture
def families(tmp_path: Path) -> tuple[Path, list[Path]]:
    """The example's own triples, and a folder for each host with one of two partitions."""
    from knowledge_graph import make_up, read_triples

    triples, entities, _ = read_triples(make_up(tmp_path / "families"))
    whole = tmp_path / "parts"
    edges = triples["train"][[0, 2]]
    halohop.partition(Data(edge_index=edges, num_nodes=entities), whole, num_parts=2, method=torch.arange(entities) % 2)
    folders = [tmp_path / f"host-{number}" for number in range(2)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        shutil.copy(whole / "manifest.json", folder)
        shutil.copytree(whole / f"part-{number:04d}", folder / f"part-{number:04d}")
    return tmp_path / "families", folders


def begun(network: list[Host], families: tuple[Path, list[Path]], *options: object) -> list[subprocess.Popen[str]]:
    """A rank on each of two hosts."""
    folder, parts = families
    place = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    place |= {"MASTER_ADDR": network[0].address, "HALOHOP_TOKEN": "a secret of these tests only", "GLOO_SOCKET_IFNAME": "eth0"}
    return [
        host.start(
            *(EXAMPLES / "knowledge_graph_embeddings.py", folder, "--parts", own, *SMALL, *options),
            env=place | {"RANK": str(rank), "GROUP_RANK": str(rank)},
        )
        for rank, (host, own) in enumerate(zip(network[:2], parts, strict=True))
    ]


def ended(ranks: list[subprocess.Popen[str]]) -> str:
    out, err = ranks[0].communicate(timeout=within(90))
    assert ranks[0].returncode == 0, err
    said, err = ranks[1].communicate(timeout=within(30))
    assert (ranks[1].returncode, said) == (0, ""), err
    return out


@pytest.mark.full
@pytest.mark.timeout(900)
def test_two_hosts_that_are_killed_go_on_to_the_same_vectors(
    network: list[Host], families: tuple[Path, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after an epoch was saved, wherever the next one is then."""
    monkeypatch.chdir(tmp_path)  # below which tables may be kept
    whole = ended(begun(network, families, "--epochs", 6))
    keep = ("--keep", tmp_path / "keep", "--epochs", 6)
    ranks = begun(network, families, *keep)
    assert ranks[0].stdout is not None
    for line in ranks[0].stdout:
        if line.startswith("epoch 3"):
            break
    for rank in ranks:
        rank.kill()
        rank.communicate(timeout=60)
    resumed = ended(begun(network, families, *keep))
    done = int(re.match(r"epoch (\d)", resumed)[1])  # type: ignore[index]
    assert 3 <= done <= 4
    assert resumed.splitlines() == whole.splitlines()[done:]
    assert float(re.findall(r"test MRR (\d\.\d+)", whole)[0]) > 0.5
    assert len(list((tmp_path / "keep").glob("step-*"))) == 1
