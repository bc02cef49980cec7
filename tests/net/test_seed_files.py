"""Nothing outside of the folder that a server names can be read."""

from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.errors import InputError, SchemaError
from halohop.net.seed_files import SeedFiles, SeedsRequest
from halohop.store.schema import Schema, TableSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "seeds"
    (inside / "papers").mkdir(parents=True)
    np.save(inside / "papers" / "train.npy", np.array([5, 3, 9], np.int32))
    np.save(inside / "links.npy", np.array([[0, 1, 2], [3, 4, 5]]))
    np.save(tmp_path / "secret.npy", np.array([1, 2]))
    (tmp_path / "seeds-of-others").mkdir()
    np.save(tmp_path / "seeds-of-others" / "train.npy", np.array([1, 2]))
    return inside


def refusal(folder: Path | None, name: str) -> str:
    reply = SeedFiles(folder).answer(SeedsRequest(file=name))
    assert reply.ids.numel() == 0
    return reply.refusal


def test_ids_of_nodes_and_of_edges(folder):
    files = SeedFiles(folder)
    nodes = files.answer(SeedsRequest(file="papers/train.npy"))
    assert (nodes.ids.tolist(), nodes.ids.dtype, nodes.refusal) == ([5, 3, 9], torch.int64, "")
    assert files.answer(SeedsRequest(file="links.npy")).ids.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_links_within_the_folder_are_followed(folder):
    (folder / "alias.npy").symlink_to("papers/train.npy")
    (folder / "far.npy").symlink_to(folder / "papers" / "train.npy")
    for name in ("alias.npy", "far.npy", "./papers/train.npy"):
        assert SeedFiles(folder).answer(SeedsRequest(file=name)).ids.tolist() == [5, 3, 9]


@pytest.mark.parametrize("name", ["../secret.npy", "papers/../../secret.npy", "../seeds-of-others/train.npy", "", "a\0b"])
def test_paths_out_of_the_folder(folder, name):
    assert refusal(folder, name) == (f"seed file {name!r} lies outside the folder that the server names; give a path below it")


def test_where_an_absolute_path_leads_counts(folder):
    inside = folder / "papers" / ".." / ".." / folder.name / "links.npy"
    assert SeedFiles(folder).answer(SeedsRequest(file=str(inside))).ids.tolist() == [[0, 1, 2], [3, 4, 5]]
    for outside in (folder.parent / "secret.npy", folder / ".." / "secret.npy", Path("/etc/passwd"), Path("/none.npy")):
        assert "lies outside the folder" in refusal(folder, str(outside))


def test_tensors_that_torch_has_saved(folder):
    torch.save(torch.tensor([7, 2], dtype=torch.int32), folder / "train.pt")
    reply = SeedFiles(folder).answer(SeedsRequest(file="train.pt"))
    assert (reply.ids.tolist(), reply.ids.dtype) == ([7, 2], torch.int64)


@pytest.mark.parametrize(
    ("saved", "why"),
    [
        (torch.tensor([0.5]), "holds no signed integers, but torch.float32"),
        (torch.zeros(3, 4, dtype=torch.int64), "has shape (3, 4), expected [n] ids of nodes, or [2, n]"),
        ({"train": torch.tensor([1])}, "holds no signed integers, but an archive"),
        (Path("a"), "cannot be read as .pt: "),  # an object that only a pickle can make
        (b"no tensor", "cannot be read as .pt: "),
    ],
)
def test_pt_files_of_something_else(folder, saved, why):
    path = folder / "bad.pt"
    if isinstance(saved, bytes):
        path.write_bytes(saved)
    else:
        torch.save(saved, path)
    assert why in refusal(folder, "bad.pt")


def test_splits_by_name_and_type():
    schema = Schema(nodes={"user": TableSpec(count=9, columns={}), "item": TableSpec(count=9, columns={})}, edges={})
    splits = {"train": {"user": torch.tensor([3, 1]), "item": torch.tensor([2])}, "test": {"item": torch.tensor([5])}}
    files = SeedFiles(None, splits, schema)
    assert files.answer(SeedsRequest(split="train", node_type="user")).ids.tolist() == [3, 1]
    assert files.answer(SeedsRequest(split="test")).ids.tolist() == [5]
    assert "split 'valid': this server was given ['test', 'train']" in files.answer(SeedsRequest(split="valid")).refusal
    assert "has nodes of ['item', 'user'], not of ''; name one" in files.answer(SeedsRequest(split="train")).refusal
    with pytest.raises(SchemaError, match="author"):
        SeedFiles(None, {"train": {"author": torch.tensor([1])}}, schema)
    with pytest.raises(InputError, match=r"splits\['train'\] holds no signed integers, but torch.bool"):
        SeedFiles(None, {"train": {"user": torch.ones(9, dtype=torch.bool)}}, schema)


def test_links_out_of_the_folder(folder):
    (folder / "link.npy").symlink_to(folder.parent / "secret.npy")
    (folder / "up").symlink_to(folder.parent)
    (folder / "deep").mkdir()
    (folder / "deep" / "again.npy").symlink_to("../up/secret.npy")
    for name in ("link.npy", "up/secret.npy", "deep/again.npy"):
        assert "lies outside the folder" in refusal(folder, name)


def test_a_link_that_changes_between_the_look_and_the_opening(folder, monkeypatch):
    """Whoever may write to the folder, but not read the other file."""
    from halohop.net import seed_files

    def opened_elsewhere(file: Path):
        return (folder.parent / "secret.npy").open("rb")

    monkeypatch.setattr(seed_files, "open_regular", opened_elsewhere)
    assert "lies outside the folder" in refusal(folder, "links.npy")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (np.array([0.5]), "holds no signed integers, but float64"),
        (np.array([1, 2], np.uint64), "holds no signed integers, but uint64"),
        (np.zeros((3, 4), int), r"has shape (3, 4), expected [n] ids of nodes, or [2, n]"),
        (np.array([{}], object), "cannot be read as .npy"),
        (b"no array", "cannot be read as .npy"),
        (b"", "cannot be read as .npy"),
    ],
)
def test_files_of_something_else(folder, content, why):
    path = folder / "bad.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    assert why in refusal(folder, "bad.npy")
    assert str(folder) not in refusal(folder, "bad.npy")


def test_what_is_not_there(folder):
    assert "there is no seed file 'none.npy' below the folder" in refusal(folder, "none.npy")
    assert "is no regular file" in refusal(folder, "papers")
    assert str(folder) not in refusal(folder, "papers")
    assert "this server has no folder of them; start it with one (seeds=, --seeds FOLDER)" in refusal(None, "links.npy")
    with pytest.raises(InputError, match="is no folder here"):
        SeedFiles(folder / "links.npy")


def test_a_link_to_itself(folder):
    (folder / "loop.npy").symlink_to("loop.npy")
    assert refusal(folder, "loop.npy").startswith("seed file 'loop.npy' ")
    assert str(folder) not in refusal(folder, "loop.npy")


def test_a_header_that_names_more_than_there_is(folder):
    with (folder / "huge.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (10**15,)})
    assert refusal(folder, "huge.npy").startswith("seed file 'huge.npy' cannot be read as .npy")
