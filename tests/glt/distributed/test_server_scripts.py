"""Scripts of servers and clients, as GLT's users write them."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from halohop.testing.worlds import environment, free_addresses
from tests.support.deadlines import within
from tests.support.glt_documents import easy, write_products

SCRIPTS = Path(__file__).parents[1] / "scripts"
NUM = 400


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    write_products(folder, easy(NUM))
    found = folder / "ogbn-products"
    shutil.copy(found / "ogbn-products-label" / "label.pt", found / "label.pt")
    return found


def printed(script: str, root: Path) -> str:
    """What a script prints that ends well; it leaves no process behind."""
    ports = [address.split(":")[1] for address in free_addresses(2)]
    words = [sys.executable, SCRIPTS / f"{script}.py", "--root", root, "--ports", *ports]
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=within(90), env=environment() | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def seeds_of(root: Path, split: str) -> list[torch.Tensor]:
    return [
        torch.load(root / f"ogbn-products-{split}-partitions" / f"partition{part}.pt", weights_only=True) for part in range(2)
    ]


def losses(out: str, rank: int) -> list[float]:
    return [float(loss) for loss in re.findall(rf"client {rank} epoch \d loss (\d+\.\d+)", out)]


@pytest.mark.full
@pytest.mark.timeout(400)
def test_paths_per_server(root):
    out = printed("server_client_paths", root)
    for rank in range(2):
        assert len(losses(out, rank)) == 4
        assert losses(out, rank)[-1] < 0.5 * losses(out, rank)[0]


@pytest.mark.full
@pytest.mark.timeout(400)
def test_splits(root):
    out = printed("server_client_split", root)
    assert f"2 partitions of None, {NUM} nodes" in out
    assert losses(out, 0)[-1] < 0.5 * losses(out, 0)[0]
    accuracy, count = re.findall(r"test accuracy (\d\.\d+) of (\d+)", out)[0]
    assert int(count) == pytest.approx(0.2 * NUM, abs=2)
    assert float(accuracy) > 0.6


@pytest.mark.full
@pytest.mark.timeout(400)
def test_several_servers(root):
    out = printed("server_client_many", root)
    expected = Counter(torch.cat(seeds_of(root, "train")).tolist())
    for epoch in range(2):
        found = re.findall(rf"client \d epoch {epoch} steps (\d+) seeds (.*)", out)
        assert len(found) == 3
        assert len({steps for steps, _ in found}) == 1
        assert Counter(int(seed) for _, seeds in found for seed in seeds.split()) == expected


@pytest.mark.full
@pytest.mark.timeout(400)
def test_a_dynamic_world(root):
    sizes = [len(seeds) for seeds in seeds_of(root, "train")]
    assert printed("server_client_dynamic", root).split("\n")[:3] == [f"client {rank} seeds {sizes[rank]}" for rank in (0, 0, 1)]
