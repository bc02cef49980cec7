"""Small helpers of GLT's scripts."""

import random
import socket
from pathlib import Path

import numpy as np
import pytest
import torch

from halohop.errors import CorruptDatasetError, InputError
from halohop.glt import utils


def test_folders_and_dicts(tmp_path: Path) -> None:
    for _ in range(2):
        utils.ensure_dir(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    merged: dict[str, list[int]] = {"a": [1]}
    utils.merge_dict({"a": 2, "b": 3}, merged)
    assert merged == {"a": [1, 2], "b": [3]}
    counts: dict[str, list[int]] = {"a": [1]}
    utils.count_dict({"a": [7, 7], "b": [7]}, counts, 3)
    assert counts == {"a": [1, 0, 2], "b": [0, 0, 1]}


def test_rows_of_nested_data() -> None:
    data = {"x": torch.arange(4), "more": [torch.arange(4) + 10, None]}
    assert utils.index_select(data, (1, 3))["x"].tolist() == [1, 2]
    assert utils.index_select(data, torch.tensor([3, 0]))["more"][0].tolist() == [13, 10]
    assert utils.index_select(data, (1, 3))["more"][1] is None
    assert utils.default_id_select(torch.tensor([4, 5]), torch.tensor([False, True])).tolist() == [5]
    assert utils.default_id_filter(torch.tensor([0, 1, 0]), 0).tolist() == [0, 2]


def test_a_seed_is_of_all_generators() -> None:
    drawn = []
    for _ in range(2):
        utils.seed_everything(3)
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert drawn[0] == drawn[1]


def test_a_port_is_free() -> None:
    with socket.create_server(("localhost", utils.get_free_port())):
        pass


def test_one_object_of_a_class() -> None:
    @utils.singleton
    class Counter:
        def __init__(self, number: int) -> None:
            self.number = number

    assert Counter(1) is Counter(2)
    assert Counter(3).number == 1
    assert utils.python_exit_status is False


def test_checkpoints(tmp_path: Path) -> None:
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3)).sum().backward()
    optimizer.step()
    folder = str(tmp_path / "ckpt")
    assert utils.load_ckpt(4, folder, other) == -1
    utils.save_ckpt(4, folder, model, optimizer, epoch=2.5)
    restored = torch.optim.Adam(other.parameters())
    assert utils.load_ckpt(4, folder, other, restored) == 2.5
    assert other.weight.equal(model.weight)
    assert restored.state_dict()["state"][0]["exp_avg"].equal(optimizer.state_dict()["state"][0]["exp_avg"])
    utils.save_ckpt(5, folder, model)
    with pytest.raises(CorruptDatasetError, match=r"model_seq_5.ckpt is no checkpoint .*: 'optimizer_state_dict'"):
        utils.load_ckpt(5, folder, other, restored)


class _Evil:
    """Pickled, it would run code when it is read."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("run",)


def test_files_that_hold_other_objects_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"epoch": 1, "model_state_dict": _Evil()}, tmp_path / "model_seq_0.ckpt")
    (tmp_path / "model_seq_1.ckpt").write_bytes(b"no tensor")
    torch.save({"epoch": 1, "model_state_dict": torch.nn.Linear(2, 2).state_dict()}, tmp_path / "model_seq_2.ckpt")
    for number in range(3):
        with pytest.raises(CorruptDatasetError, match=rf"model_seq_{number}.ckpt is no checkpoint"):
            utils.load_ckpt(number, str(tmp_path), torch.nn.Linear(1, 1))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MB", 64 << 20), ("1gb", 1 << 30), ("16K", 16 << 10), ("1.5 GB", 3 << 29), (7, 7), (7.9, 7), ("2GiB", 2 << 30)],
)
def test_sizes(text: str | float, size: int) -> None:
    assert utils.parse_size(text) == size


@pytest.mark.parametrize("text", ["1 G", "", "much", "-1", -1, "1XB"])
def test_what_is_no_size(text: str | int) -> None:
    with pytest.raises(InputError, match=f"'?{text}'? is no size; write a number and a unit"):
        utils.parse_size(text)
