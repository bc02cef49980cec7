import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.io import read_npz

import halohop
from halohop import load_link_graph, load_source
from halohop.errors import InputError, SchemaError
from halohop.typing import EDGE, NODE

MASKS = ["test_mask", "train_mask", "val_mask"]


def masks_of(columns: dict[str, torch.Tensor]) -> list[str]:
    return sorted(name for name in columns if name.endswith("_mask"))


def test_synthetic_by_name_and_seed() -> None:
    first, again, other = (load_source("synthetic:tiny", seed=seed).nodes["node"].columns["x"] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert load_source("synthetic-hetero:tiny").nodes["paper"].num_nodes == 500


@pytest.mark.parametrize("spec", ["synthetic:huge", "synthetic-hetero:huge", "no/such/file.npz", "word"])
def test_unknown_sources_name_what_is_known(spec: str) -> None:
    with pytest.raises(InputError, match="known"):
        load_source(spec)


def test_a_folder_of_nothing_known_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no source that is known"):
        load_source(tmp_path)


def test_features_of_every_source_are_as_stored_unless_asked_otherwise(tmp_path: Path) -> None:
    x = torch.tensor([[1.0, 1, 0], [0, 0, 0], [2, 0, 2], [0, 5, 0]])
    torch.save(Data(x=x, edge_index=torch.tensor([[0], [1]])), tmp_path / "graph.pt")
    rows = "".join(f"{number},{','.join(map(str, row))}\n" for number, row in enumerate(x.tolist()))
    (tmp_path / "nodes.csv").write_text("id,a,b,c\n" + rows)
    spec = '[nodes.node]\nfile = "nodes.csv"\nid = "id"\nfeatures = ["a", "b", "c"]\n'
    (tmp_path / "graph.toml").write_text(spec)
    for name in ("graph.pt", "graph.toml"):
        assert load_source(tmp_path / name).nodes["node"].columns["x"].sum(dim=1).tolist() == [2, 0, 4, 5], name
        assert load_source(tmp_path / name, normalize=True).nodes["node"].columns["x"].sum(dim=1).tolist() == [1, 0, 1, 1], name
    (tmp_path / "graph.toml").write_text(spec + "normalize = true\n")
    assert load_source(tmp_path / "graph.toml").nodes["node"].columns["x"].sum(dim=1).tolist() == [1, 0, 1, 1]


def test_what_torch_may_restore_is_the_same_after_a_pt_file(tmp_path: Path) -> None:
    """Of PyG's classes it allows some by itself, and their users rely on it."""
    before = set(torch.serialization.get_safe_globals())
    torch.save(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), tmp_path / "graph.pt")
    load_source(tmp_path / "graph.pt")
    assert Data in before
    assert set(torch.serialization.get_safe_globals()) == before


def test_pt_keeps_its_split_or_gets_one(tmp_path: Path) -> None:
    data = Data(x=torch.ones(20, 2), y=torch.arange(20) % 2, edge_index=torch.tensor([[0], [1]]))
    torch.save(data, tmp_path / "bare.pt")
    columns = load_source(tmp_path / "bare.pt").nodes["node"].columns
    assert masks_of(columns) == MASKS
    assert [int(columns[name].sum()) for name in ("train_mask", "val_mask", "test_mask")] == [12, 4, 4]
    assert torch.equal(columns["x"], data.x)
    data.train_mask = torch.ones(20, dtype=torch.bool)
    torch.save(data, tmp_path / "split.pt")
    assert masks_of(load_source(tmp_path / "split.pt", normalize=True).nodes["node"].columns) == ["train_mask"]
    assert load_source(tmp_path / "split.pt", normalize=True).nodes["node"].columns["x"].tolist() == [[0.5, 0.5]] * 20


def test_a_pt_file_of_a_graph_that_was_used_before(tmp_path: Path) -> None:
    """PyG notes in a graph which attributes are of nodes, when it is asked; torch does not read that without running code."""
    data = Data(x=torch.ones(20, 2), edge_index=torch.tensor([[0], [1]]))
    halohop.partition(data, tmp_path / "parts", num_parts=1)
    torch.save(data, tmp_path / "used.pt")
    assert list(load_source(tmp_path / "used.pt").nodes["node"].columns) == ["x"]
    assert data.is_node_attr("x")
    torch.save(data, tmp_path / "used.pt")
    with pytest.raises(InputError, match=r"PyG has left notes .*; save Data\.from_dict\(data\.to_dict\(\)\)"):
        load_source(tmp_path / "used.pt")
    torch.save(Data.from_dict(data.to_dict()), tmp_path / "used.pt")
    assert list(load_source(tmp_path / "used.pt").nodes["node"].columns) == ["x"]


def test_pt_of_several_node_types(tmp_path: Path) -> None:
    data = HeteroData()
    data["a"].y = torch.zeros(5, dtype=torch.int64)
    data["a"].num_nodes = 5
    data["b"].x = torch.zeros(2, 3)
    data["a", "to", "b"].edge_index = torch.tensor([[4], [1]])
    torch.save(data, tmp_path / "typed.pt")
    tables = load_source(tmp_path / "typed.pt")
    assert masks_of(tables.nodes["a"].columns) == MASKS
    assert masks_of(tables.nodes["b"].columns) == []


class Trap:
    """Would run code when it is unpickled."""

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        return InputError, ("ran",)


def test_pt_never_runs_code_and_holds_a_graph(tmp_path: Path) -> None:
    torch.save(Trap(), tmp_path / "trap.pt")
    with pytest.raises(InputError, match=r"without running code.*Unsupported global: GLOBAL halohop\.errors\.InputError"):
        load_source(tmp_path / "trap.pt")
    torch.save({"x": torch.zeros(1)}, tmp_path / "dict.pt")
    with pytest.raises(InputError, match="holds a dict"):
        load_source(tmp_path / "dict.pt")
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(InputError, match="cannot be read"):
        load_source(tmp_path / "text.pt")


def test_edges_to_predict_are_split_at_random_unless_they_have_masks_or_times(tmp_path: Path) -> None:
    columns = load_link_graph("synthetic:tiny").edges[EDGE].columns
    assert masks_of(columns) == MASKS
    assert abs(float(columns["train_mask"].float().mean()) - 0.8) < 0.02
    edge_index = torch.stack([torch.arange(20), torch.arange(20).roll(-1)])
    marked = HeteroData({NODE: {"num_nodes": 20}, EDGE: {"edge_index": edge_index, "train_mask": torch.arange(20) < 7}})
    torch.save(marked, tmp_path / "marked.pt")
    assert masks_of(load_link_graph(tmp_path / "marked.pt").edges[EDGE].columns) == ["train_mask"]


@pytest.mark.parametrize("undirected", [False, True])
def test_edges_with_times_are_split_by_them_and_their_reverses_only_carry_messages(tmp_path: Path, undirected: bool) -> None:
    time = torch.arange(20).flip(0)
    data = Data(edge_index=torch.stack([torch.arange(20), torch.arange(20).roll(-1)]), num_nodes=21, time=time)
    torch.save(data, tmp_path / "timed.pt")
    table = load_link_graph(tmp_path / "timed.pt", undirected=undirected, time_attr="time").edges[EDGE]
    assert table.num_edges == (40 if undirected else 20)
    found = {name: table.columns["time"][table.columns[name]].tolist() for name in MASKS}
    assert {name: (min(times), max(times)) for name, times in found.items()} == {
        "train_mask": (0, 13),
        "val_mask": (14, 16),
        "test_mask": (17, 19),
    }
    assert sum(map(len, found.values())) == 20
    rest = ~torch.stack([table.columns[name] for name in MASKS]).any(dim=0)
    assert rest.tolist() == [False] * 20 + [True] * (table.num_edges - 20)
    assert torch.equal(table.src[rest], table.dst[~rest][: int(rest.sum())])


def test_times_that_no_relation_has_are_named() -> None:
    with pytest.raises(SchemaError, match="no relation has a column 'when' of times; columns of edges"):
        load_link_graph("synthetic:tiny", time_attr="when")


def test_what_to_do_with_an_archive_of_arrays_is_said_and_works(tmp_path: Path) -> None:
    matrix = {"indptr": [0, 1, 2], "indices": [1, 0], "data": [1.0, 1.0], "shape": [2, 2]}
    arrays = {f"{name}_{key}": np.array(value) for name in ("adj", "attr") for key, value in matrix.items()}
    np.savez(tmp_path / "graph.npz", labels=np.array([0, 1]), **arrays)
    with pytest.raises(InputError, match=r"unzip .*graph\.npz -d FOLDER; or, .*torch_geometric\.io\.read_npz\('.*graph\.npz'\)"):
        load_source(tmp_path / "graph.npz")
    torch.save(read_npz(str(tmp_path / "graph.npz")), tmp_path / "graph.pt")
    assert load_source(tmp_path / "graph.pt").edges[EDGE].num_edges == 2
    np.savez(tmp_path / "more.npz", edge_index=np.array([[0, 1, 1], [1, 0, 1]]), x=np.ones((2, 3)))
    with zipfile.ZipFile(tmp_path / "more.npz") as archive:
        archive.extractall(tmp_path / "more")
    assert load_source(tmp_path / "more").edges[EDGE].num_edges == 3
