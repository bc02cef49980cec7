"""Scripts as users of GLT write them run, changed by their import alone, and learn. Each has its data in a folder."""

import os
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.datasets import Amazon

SCRIPTS = Path(__file__).parent / "scripts"


def clustered(src: Tensor, dst: Tensor, num_edges: int, share: float, generator: torch.Generator) -> Tensor:
    """Edges between nodes of given classes, a share of them between equal ones."""
    row = torch.randint(len(src), (4 * num_edges,), generator=generator)
    col = torch.randint(len(dst), (4 * num_edges,), generator=generator)
    chance = torch.where(src[row] == dst[col], share, (1 - share) / 3)
    keep = torch.rand(len(row), generator=generator) < chance
    return torch.stack([row, col])[:, keep][:, :num_edges]


def features(classes: Tensor, generator: torch.Generator) -> Tensor:
    """Rows that say little of a class by themselves."""
    return torch.nn.functional.one_hot(classes, 4).repeat(1, 3).float() + 1.5 * torch.randn(len(classes), 12, generator=generator)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of all scripts: four classes of nodes, with most edges within them."""
    folder, generator = tmp_path_factory.mktemp("data"), torch.Generator().manual_seed(1)
    y = torch.randint(4, (600,), generator=generator)
    one_way = clustered(y, y, 2400, 0.8, generator)
    edges = torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)
    order = torch.randperm(600, generator=generator)
    products = {"x": features(y, generator), "y": y, "edge_index": edges, "train_idx": order[:330], "test_idx": order[330:]}
    torch.save(products, folder / "products.pt")

    kinds = {"paper": 400, "author": 300, "institution": 20, "field_of_study": 40}
    classes = {name: torch.randint(4, (count,), generator=generator) for name, count in kinds.items()}
    plan = {
        "paper__cites__paper": 1500,
        "author__writes__paper": 1200,
        "author__affiliated_with__institution": 400,
        "paper__has_topic__field_of_study": 800,
    }
    typed = {}
    for name, count in plan.items():
        src, relation, dst = name.split("__")
        typed[name] = clustered(classes[src], classes[dst], count, 0.85, generator)
        if src == dst:
            typed[name] = torch.cat([typed[name], typed[name].flip(0)], dim=1)
        else:
            typed[f"{dst}__rev_{relation}__{src}"] = typed[name].flip(0)
    rows = {name: features(of, generator) for name, of in classes.items()}
    order = torch.randperm(400, generator=generator)
    mag = {"x": rows, "y": classes["paper"], "edges": typed, "train_idx": order[:250], "test_idx": order[250:]}
    torch.save(mag, folder / "mag.pt")
    igbh = {**mag, "val_idx": mag["test_idx"], "num_classes": 4}
    torch.save(igbh, folder / "igbh.pt")

    users, items = torch.randint(4, (150,), generator=generator), torch.randint(4, (120,), generator=generator)
    taken = clustered(users, items, 1300, 0.97, generator).unique(dim=1)
    taken = taken[:, torch.randperm(taken.size(1), generator=generator)]
    similar = clustered(items, items, 600, 0.9, generator)
    counts = {"num_users": 150, "num_items": 120}
    taobao = {"user_item": taken[:, 200:], "test_user_item": taken[:, :200], "item_item": similar, **counts}
    torch.save(taobao, folder / "taobao.pt")

    ring = torch.arange(200)
    near = torch.cat([torch.stack([ring, (ring + step) % 200]) for step in (1, 2, 3)], dim=1)
    near = near[:, torch.randperm(600, generator=generator)]
    cora = {"edge_index": torch.cat([near[:, 80:], near[:, 80:].flip(0)], dim=1), "test_edges": near[:, :80], "num_nodes": 200}
    torch.save(cora, folder / "cora.pt")
    return folder


CASES = [
    ("train_sage_ogbn_products.py", (), 0.6, {"graph_mode", "sort_func", "split_ratio", "device_group_list"}),
    ("train_sage_prod_with_trim.py", (), 0.6, set()),
    ("graph_sage_unsup_ppi.py", (), 0.5, set()),
    ("seal_link_pred.py", (), 0.8, set()),
    ("hetero/train_hgt_mag.py", (), 0.6, {"graph_mode", "split_ratio", "device_group_list"}),
    ("hetero/hierarchical_sage.py", (), 0.6, set()),
    ("hetero/bipartite_sage_unsup.py", ("--edge_dir", "in"), 0.7, {"directed"}),
    ("hetero/bipartite_sage_unsup.py", ("--edge_dir", "out"), 0.7, {"directed"}),
    ("igbh/train_rgnn.py", ("--use_fp16",), 0.6, set()),
    ("igbh/train_rgnn.py", ("--edge_dir", "out"), 0.6, set()),
]


@pytest.mark.parametrize(("script", "options", "least", "notes"), CASES, ids=[" ".join((case[0], *case[1])) for case in CASES])
def test_a_script_of_one_machine_learns(
    script: str,
    options: tuple[str, ...],
    least: float,
    notes: set[str],
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The share of right answers is high (chance is a quarter; of pairs, a half), and all that GLT has and a CPU does not need
    is said once."""
    for file in root.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.setattr(sys, "argv", [script, "--path" if script.startswith("igbh") else "--root", str(tmp_path), *options])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "Failing to pass a value to the 'type_params'")  # by PyG's layers, in Python 3.13
        right = learned(script, capsys)
    texts = [str(warning.message) for warning in said]
    assert {text.split(" changes nothing here")[0] for text in texts} == (set() if torch.cuda.is_available() else notes), texts
    assert right > least


def learned(script: str, capsys: pytest.CaptureFixture[str]) -> float:
    """Runs a script, whose loss falls by a fifth; returns the share of right answers."""
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    printed = capsys.readouterr().out
    losses = [float(loss) for loss in re.findall(r"Loss: ([0-9.]+)", printed)]
    assert losses[-1] < 0.8 * losses[0], printed
    (right,) = re.findall(r"(?:Test|Train): ([0-9.]+)", printed)
    return float(right)


@pytest.mark.full
@pytest.mark.data
@pytest.mark.filterwarnings("ignore:.* changes nothing here:UserWarning")
def test_products_of_a_real_shop(
    pyg_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Amazon Photo, products that are bought together; a quarter of them are of the largest of eight kinds."""
    data = Amazon(str(pyg_root), "Photo")[0]
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    sets = {"train_idx": order[:1600], "test_idx": order[1600:2600]}
    torch.save({"x": data.x, "y": data.y, "edge_index": data.edge_index, **sets}, tmp_path / "products.pt")
    monkeypatch.setattr(sys, "argv", ["train_sage_ogbn_products.py", "--root", str(tmp_path), "--epochs", "3"])
    assert learned("train_sage_ogbn_products.py", capsys) > 0.75


@pytest.mark.full
def test_processes_share_features() -> None:
    command = [sys.executable, SCRIPTS / "feature_mp.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Done: [(0, 100), (1, 100)]\n"


def test_scripts_differ_from_those_of_glt_by_their_import() -> None:
    for script in SCRIPTS.rglob("*.py"):
        imports = re.findall(r"^(?:import|from) (halohop\S*.*)$", script.read_text(), re.MULTILINE)
        assert imports, script
        assert all(line == "halohop.glt as glt" or line.startswith("halohop.glt.") for line in imports), script
