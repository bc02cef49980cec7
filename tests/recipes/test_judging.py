"""Figures of node models against the textbook, and a model of several labels from training to results."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import halohop
from halohop.datasets import synthetic
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.inference import infer
from halohop.recipes.judging import Judge
from halohop.recipes.train import train
from halohop.store.tables import GraphTables
from halohop.world import World
from tests.support.result_files import check_described

CPU = torch.device("cpu")


def figures(judge: Judge, *found: tuple[Tensor, Tensor]) -> dict[str, float]:
    return judge.judge(found, CPU, World())[0]


def f1(predicted: list[bool], true: list[bool]) -> float:
    """The harmonic mean of precision and recall."""
    right = sum(p and t for p, t in zip(predicted, true, strict=True))
    if not right:
        return 0.0
    precision, recall = right / sum(predicted), right / sum(true)
    return 2 * precision * recall / (precision + recall)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), min_size=1, max_size=20), st.integers(0, 20))
def test_one_class_per_node(pairs: list[tuple[int, int]], split: int) -> None:
    predicted, y = torch.tensor(pairs).T
    logits = torch.nn.functional.one_hot(predicted, 4).float()
    found = figures(Judge(num_classes=4, several=False), (logits[:split], y[:split]), (logits[split:], y[split:]))
    known = [(p, t) for p, t in pairs if t >= 0]
    assert list(found) == ["accuracy", "macro_f1"]
    if not known:
        assert np.isnan(list(found.values())).all()
        return
    occurring = {number for pair in known for number in pair}
    wanted = [f1([p == k for p, _ in known], [t == k for _, t in known]) for k in sorted(occurring)]
    assert found["accuracy"] == pytest.approx(sum(p == t for p, t in known) / len(known))
    assert found["macro_f1"] == pytest.approx(sum(wanted) / len(wanted))


def test_two_classes_have_an_auc() -> None:
    logits = torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    found = figures(Judge(num_classes=2, several=False), (logits, torch.tensor([1, 0, 0, -1])))
    assert found["auc"] == 1.0
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert figures(Judge(num_classes=2, several=False), (logits, torch.tensor([0, 1, 1, -1])))["auc"] == 0.0


def test_several_classes_per_node() -> None:
    nan = float("nan")
    logits = torch.tensor([[1.0, -1.0, 1.0], [2.0, 1.0, -1.0], [-1.0, 3.0, nan], [0.5, 0.5, 0.5]])
    y = torch.tensor([[1, 0, 1], [0, 1, 1], [0, 1, nan], [nan, nan, nan]])
    judge = Judge(num_classes=3, several=True)
    found, loss, count = judge.judge([(logits, y)], CPU, World())
    assert count == 3
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 + 2 / 3) / 3)
    assert found["micro_f1"] == pytest.approx(2 * 4 / (2 * 4 + 1 + 1))
    assert found["auc"] == pytest.approx((0.5 + 1) / 2)  # nobody is known not to be of the third class
    known = ~y.isnan()
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits[known], y[known])
    assert loss == pytest.approx(float(wanted))
    assert judge.figure == "micro_f1"


@pytest.mark.parametrize("several", [False, True], ids=["two classes", "several labels"])
@pytest.mark.parametrize("sizes", [[3, 2], [0, 5], [2, 0, 3], [5, 0]], ids=str)
def test_pieces_without_a_label_change_no_figure(several: bool, sizes: list[int]) -> None:
    """A batch, or all that a rank has, in which no node has a label, or in which there is no node."""
    logits, nan = torch.linspace(-2, 2, 10).view(5, 2)[[3, 0, 4, 1, 2]], float("nan")
    y = torch.tensor([[1.0, 0], [0, 1], [1, nan], [0, 1], [1, 1]]) if several else torch.tensor([1, 0, 1, 1, 0])
    unknown = torch.full_like(y[:2], nan) if several else torch.full_like(y[:2], -1)
    judge = Judge(num_classes=2, several=several)
    parts = list(zip(logits.split(sizes), y.split(sizes), strict=True))
    whole = judge.judge([(logits, y)], CPU, World())
    for pieces in (parts, [(logits[:2], unknown), *parts], [*parts, (logits[:2], unknown)]):
        figures, loss, count = judge.judge(pieces, CPU, World())
        assert (figures, count) == (pytest.approx(whole[0]), whole[2])
        assert loss == pytest.approx(whole[1])
    nothing = judge.judge([(logits[:2], unknown)], CPU, World())
    assert nothing[2] == 0
    assert np.isnan([nothing[1], *nothing[0].values()]).all()


@pytest.mark.parametrize("several", [False, True])
def test_rows_without_a_label_have_no_gradient_whatever_they_hold(several: bool) -> None:
    logits = torch.tensor([[1.0, 2.0], [float("nan"), float("inf")], [0.5, -1.0]], requires_grad=True)
    y = torch.tensor([[1.0, 0.0], [float("nan")] * 2, [0.0, 1.0]]) if several else torch.tensor([1, -1, 0])
    loss, known = Judge(num_classes=2, several=several).loss(logits, y)
    loss.backward()
    alone = logits.detach()[[0, 2]].requires_grad_()
    wanted, _ = Judge(num_classes=2, several=several).loss(alone, y[[0, 2]])
    wanted.backward()
    assert (float(loss.detach()), int(known)) == (pytest.approx(float(wanted.detach())), 4 if several else 2)
    assert logits.grad is not None
    assert torch.equal(logits.grad[1], torch.zeros(2))
    assert torch.equal(logits.grad[[0, 2]], alone.grad)


def test_no_figure_is_made_of_nothing() -> None:
    found, loss, count = Judge(num_classes=3, several=True).judge([], CPU, World())
    assert (count, np.isnan([loss, *found.values()]).all()) == (0, True)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_several_labels_from_training_to_results(tmp_path: Path, dtype: torch.dtype) -> None:
    tables = synthetic("tiny", num_classes=4, noise=0.5)
    nodes = tables.nodes["node"]
    y = torch.stack([nodes.columns["y"] == 0, nodes.columns["y"] % 2 == 0, nodes.columns["y"] == 3], dim=1).to(dtype)
    nodes = replace(nodes, columns=nodes.columns | {"y": y}, names={"y": ("zero", "even", "three")})
    halohop.partition(GraphTables(nodes={"node": nodes}, edges=tables.edges), tmp_path / "parts", num_parts=2, method="random")
    options = {"epochs": 5, "batch_size": 64, "fanout": (5, 5), "hidden": 32, "device": "cpu", "workers": 1}
    end = train(TrainConfig(parts=str(tmp_path / "parts"), out=str(tmp_path / "run"), **options), world=World())
    assert end["test_micro_f1"] > 0.8
    assert end["test_auc"] > 0.9
    assert end["test_macro_f1"] > 0.7
    for fanout in (None, (-1, -1)):
        config = InferConfig(
            parts=str(tmp_path / "parts"), checkpoint=str(tmp_path / "run/checkpoint"), out=str(tmp_path / f"found-{fanout}"),
            split="test", fanout=fanout, device="cpu", workers=1,
        )  # fmt: skip
        files = {file.stem: np.load(file) for file in infer(config, world=World())}
        assert files["predictions"].shape == files["confidence"].shape == (200, 3)
        assert (files["predictions"] == (files["confidence"] > 0.5)).all()
        assert (files["predictions"] == y.numpy()[files["raw_ids"]]).mean() > 0.85
        check_described(files, {"n": 200, "k": 3}, several=True)
        assert files["classes"].tolist() == ["zero", "even", "three"]
