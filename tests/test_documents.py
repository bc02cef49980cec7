"""What README, docs and tutorials show is what happens: their files, their Python and their commands, in the order of each page.

`docs/site/blocks.py` says what the blocks of a page are. ``python after sh`` reads what commands before it have written.
"""

import gc
import importlib.util
import os
import re
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from docs.site.blocks import blocks, outputs

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "benchmarks" not in page.parts)]

BEFORE = {
    "hosts.md": """
import halohop
from halohop.datasets import synthetic
halohop.partition(synthetic("tiny"), "parts", num_parts=2)
first, second = halohop.serve("parts"), halohop.serve("parts")
at = {"10.0.0.7:5510": first.address, "10.0.0.8:5510": second.address}
""",
    "operations.md": """
import halohop
from halohop.datasets import synthetic
halohop.partition(synthetic("tiny"), "parts", num_parts=2)
""",
    "partitioning.md": f"""
import shutil
import sys
from pathlib import Path
sys.path.append({str(ROOT)!r})
from tests.support.archives import unpack
sys.path.remove({str(ROOT)!r})
unpack(Path({str(ROOT / "tests" / "datasets" / "imports" / "dgl-2.1.0.tar.xz")!r}), Path())
shutil.move("typed", "products")
""",
    "training.md": """
import torch
from torch_geometric.data import Data
torch.manual_seed(0)
messages = torch.randint(40, (2, 400))
torch.save(Data(edge_index=messages, time=torch.arange(400), num_nodes=40), "messages.pt")
""",
}
"""What stands before the blocks of a page that begin in the middle."""


EXTRAS = {
    "metis": "cmeel",
    "kaminpar": "kaminpar",
    "io": "pyarrow",
    "yaml": "yaml",
    "metrics": "prometheus_client",
    "tls": "cryptography",
    "datasets": "scipy",
    "ray": "ray",
}
"""A module of each extra."""


def has(*languages: str) -> list[Any]:
    pages = [page for page in PAGES if any(block.language in languages for block in blocks(page.read_text()))]
    return [pytest.param(page, id=page.name) for page in pages]


@pytest.mark.parametrize("page", has("python"))
def test_python_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"at": {}}
    exec(BEFORE.get(page.name, ""), names)
    try:
        for block in blocks(page.read_text(), names["at"]):
            if block.file:
                Path(block.file).write_text(block.text)
            if block.tag == "python":
                exec(block.compiled(str(page)), names)
    finally:
        for value in reversed(names.values()):
            if not isinstance(value, type) and hasattr(value, "close"):
                value.close()
        names.clear()
        gc.collect()


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with halohop's wheel and what it depends on, without extras.

    What it depends on is not downloaded again: its modules are links to those of this environment. Of the commands only torchrun
    is there.
    """
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT], check=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True, timeout=300)
    site = folder / f"venv/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    for module in needed():
        if not (site / module.name).exists():  # pip came with some
            (site / module.name).symlink_to(module)
    torchrun = python.with_name("torchrun")
    torchrun.write_text(f"#!{python}\nfrom torch.distributed.run import main\nmain()\n")
    torchrun.chmod(0o755)
    return python


def needed() -> set[Path]:
    """What lies in site-packages of all distributions that halohop needs without extras."""
    left, seen, found = ["halohop"], set(), set()
    while left:
        name = left.pop()
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            plain = re.sub(r"[-_.]+", "-", requirement.name).lower()
            if plain not in seen and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                seen.add(plain)
                left.append(plain)
        if name != "halohop":
            files = [file for file in distribution(name).files or [] if file.parts[0] not in ("..", "__pycache__")]
            found |= {Path(str(file.locate())).parents[len(file.parts) - 1] / file.parts[0] for file in files}
    return {path for path in found if path.exists()}


@pytest.mark.full
@pytest.mark.xdist_group("bare")  # whose environment takes a minute to make
@pytest.mark.timeout(900)
def test_the_wheel_without_extras_runs_the_demo(bare: Path, tmp_path: Path) -> None:
    for module in EXTRAS.values():
        done = subprocess.run([bare, "-c", f"import {module}"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert "ModuleNotFoundError" in done.stderr, module
    done = subprocess.run(
        [bare.with_name("halohop"), "demo", "--size", "tiny"], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs/demo/picture.html").is_file()
    assert "method: fennel; metis cuts fewer edges" in done.stdout


@pytest.mark.full
@pytest.mark.xdist_group("bare")  # whose environment takes a minute to make
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", has("python", "sh"))
def test_a_page_runs_with_the_wheel_and_the_extras_that_it_names(bare: Path, page: Path, tmp_path: Path) -> None:
    """Its blocks run one after the other: Python in one process, which waits for the commands between."""
    extras = tmp_path / "extras"
    extras.mkdir()
    for name in re.findall(r"halohop\[(\w+)\]", page.read_text()):
        found = importlib.util.find_spec(EXTRAS[name])
        assert found is not None, f"{EXTRAS[name]} is not installed"
        module = Path(found.origin or "").parent
        for path in module.parent.glob(f"{EXTRAS[name]}*"):
            (extras / path.name).symlink_to(path)
    environment = os.environ | {"PYTHONPATH": str(extras)}
    try:
        outputs(page, tmp_path, python=str(bare), environment=environment, before=BEFORE.get(page.name, ""))
    except subprocess.CalledProcessError as error:
        pytest.fail(error.output)
