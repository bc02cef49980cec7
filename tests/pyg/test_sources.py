from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

import halohop
from halohop.errors import InputError
from halohop.pyg.sources import load_link_graph, load_links, load_source

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


def write_npz(path: Path) -> Path:
    dense = np.array([[1, 1, 0], [0, 0, 0], [2, 0, 2], [0, 5, 0]], dtype=np.float32)
    np.savez(
        path,
        adj_data=np.ones(3),
        adj_indices=np.array([1, 2, 3]),
        adj_indptr=np.array([0, 1, 2, 3, 3]),
        adj_shape=np.array([4, 4]),
        attr_matrix=dense,
        labels=np.array([0, 1, 0, 1]),
    )
    return path


def test_features_of_every_source_are_as_stored_unless_asked_otherwise(tmp_path: Path) -> None:
    write_npz(tmp_path / "graph.npz")
    x = load_source(tmp_path / "graph.npz").nodes["node"].columns["x"]
    torch.save(Data(x=x, edge_index=torch.tensor([[0], [1]])), tmp_path / "graph.pt")
    rows = "".join(f"{number},{','.join(map(str, row))}\n" for number, row in enumerate(x.tolist()))
    (tmp_path / "nodes.csv").write_text("id,a,b,c\n" + rows)
    spec = '[nodes.node]\nfile = "nodes.csv"\nid = "id"\nfeatures = ["a", "b", "c"]\n'
    (tmp_path / "graph.toml").write_text(spec)
    for name in ("graph.npz", "graph.pt", "graph.toml"):
        assert load_source(tmp_path / name).nodes["node"].columns["x"].sum(dim=1).tolist() == [2, 0, 4, 5], name
        assert load_source(tmp_path / name, normalize=True).nodes["node"].columns["x"].sum(dim=1).tolist() == [1, 0, 1, 1], name
    (tmp_path / "graph.toml").write_text(spec + "normalize = true\n")
    assert load_source(tmp_path / "graph.toml").nodes["node"].columns["x"].sum(dim=1).tolist() == [1, 0, 1, 1]


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


def write_links(folder: Path) -> dict[str, Path]:
    """A source of each kind that holds edges to predict."""
    triples, messages = folder / "triples", folder / "messages"
    for part in (triples, messages):
        part.mkdir()
    for name, triple in {"train": "a r b", "valid": "b r c", "test": "c r a"}.items():
        (triples / f"{name}.txt").write_text(triple.replace(" ", "\t"))
    (messages / "CollegeMsg.txt").write_text("".join(f"1 {number} {number}\n" for number in range(2, 22)))
    return {"triples": triples, "folder": messages, "file": messages / "CollegeMsg.txt"}


@pytest.mark.parametrize(("kind", "held_out"), [("triples", 2), ("folder", 6), ("file", 6)])
def test_held_out_edges_stay_out_of_the_graph_and_are_at_hand(tmp_path: Path, kind: str, held_out: int) -> None:
    source = write_links(tmp_path)[kind]
    tables, links = load_source(source), load_links(source)
    first = next(iter(tables.edges))
    assert torch.equal(tables.edges[first].src, links.splits["train"].src)
    assert sum(len(links.splits[name]) for name in ("val", "test")) == held_out
    halohop.partition(tables, tmp_path / "parts", num_parts=2, method="random")
    with halohop.open(tmp_path / "parts") as graph:
        assert graph.schema.edges[first].count == len(links.splits["train"])


def test_graphs_to_predict_links_on_have_all_edges_and_masks(tmp_path: Path) -> None:
    sources = write_links(tmp_path)
    for name, source in sources.items():
        links, tables = load_links(source), load_link_graph(source, undirected=name != "triples")
        relation = links.relations[0]
        table = tables.edges[relation]
        for split, edges in links.splits.items():
            mask, mine = table.columns[f"{split}_mask"], edges.relation == 0
            assert torch.equal(table.src[mask], edges.src[mine]), name
            assert torch.equal(table.dst[mask], edges.dst[mine]), name
        rest = ~torch.stack([table.columns[column] for column in MASKS]).any(dim=0)
        if links.splits["train"].time is None:
            inverse = tables.edges[relation[0], f"{relation[1]}_inv", relation[2]]
            assert not rest.any()
            assert inverse.columns["train_mask"].all()
            assert torch.equal(inverse.dst, table.src[table.columns["train_mask"]])
        else:  # the reverses of all edges, for messages only
            assert torch.equal(table.src[rest], table.dst[~rest])
            assert torch.equal(table.columns["time"][rest], table.columns["time"][~rest])
    assert masks_of(load_link_graph("synthetic:tiny").edges["node", "to", "node"].columns) == MASKS


def test_a_graph_toml_is_read_before_what_else_lies_there(tmp_path: Path) -> None:
    folder = write_links(tmp_path)["triples"]
    (folder / "edges.csv").write_text("a,b\n1,2\n")
    (folder / "graph.toml").write_text('[edges.node__to__node]\nfile = "edges.csv"\nsrc = "a"\ndst = "b"\n')
    assert list(load_source(folder).nodes) == ["node"]


def test_sources_without_edges_to_predict_are_refused(tmp_path: Path) -> None:
    for source in ("synthetic:tiny", tmp_path):
        with pytest.raises(InputError, match="has no edges to predict; known"):
            load_links(source)


@pytest.mark.data
def test_real_folders_are_known_by_their_files(shared_data: Path) -> None:
    tables = load_source(shared_data / "aifb")
    assert len(tables.edges) == 90
    assert masks_of(tables.nodes["entity"].columns) == MASKS
    assert len(load_source(shared_data / "wn18rr").edges) == 22
    assert load_source(shared_data / "collegemsg").nodes["node"].num_nodes == 1_899
