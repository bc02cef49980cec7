"""The loop in one process; several are in test_trainer.py."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import halohop
from halohop.datasets import synthetic
from halohop.datasets.sources import load_link_graph
from halohop.errors import DatasetError, InputError, NotFiniteError, TransportError
from halohop.loading.metrics import scrape
from halohop.recipes import loop
from halohop.recipes.checkpoint import load_checkpoint
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.inference import infer
from halohop.recipes.link_task import LinkTask
from halohop.recipes.loop import Run
from halohop.recipes.node_task import NodeTask
from halohop.recipes.task import Setting
from halohop.recipes.train import train
from halohop.store.tables import GraphTables
from halohop.testing.worlds import free_addresses
from halohop.world import World


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    defaults = {"fanout": (5, 5), "hidden": 32, "epochs": 4, "batch_size": 100, "workers": 1, "device": "cpu"}
    return TrainConfig(parts=parts, out=str(out), **defaults | values)


def run(config: TrainConfig) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    end = train(config, world=World(), on_event=events.append)
    assert end == events[-1]
    return events


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


def repartitioned(tables: GraphTables, folder: Path) -> str:
    halohop.partition(tables, folder, num_parts=1, method="random")
    return str(folder)


def with_columns(columns: dict[str, torch.Tensor], *, without: tuple[str, ...] = ()) -> GraphTables:
    tables = synthetic("tiny")
    node = tables.nodes["node"]
    kept = {name: column for name, column in (node.columns | columns).items() if name not in without}
    return replace(tables, nodes={"node": replace(node, columns=kept)})


def test_learns_and_writes_down_what_happened(tiny_parts: str, tmp_path: Path) -> None:
    events = run(config_for(tiny_parts, tmp_path / "run", epochs=6, log_every=2))
    assert [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()] == json.loads(
        json.dumps(events)
    )
    assert events[0]["event"] == "start"
    assert (events[0]["model"], events[0]["classes"], events[0]["steps"]) == ("sage", 5, 6)
    epochs = of_kind(events, "epoch")
    assert epochs[-1]["loss"] < epochs[0]["loss"] / 1.5
    for epoch in epochs:
        assert epoch["seeds"] == 600
        assert epoch["sampled_edges"] > 600
        assert epoch["remote_share"] == 0
        assert epoch["local_rows"] > 0
    assert [step["step"] for step in of_kind(events, "step")[:3]] == [2, 4, 6]
    assert events[-1]["test_accuracy"] > 0.7
    assert [event["split"] for event in of_kind(events, "evaluation")] == ["val"] * 6 + ["test"]


def losses(events: list[dict[str, Any]]) -> list[float]:
    return [event["loss"] for event in of_kind(events, "epoch")]


def test_locality_is_of_the_training_seeds(tiny_parts: str, tmp_path: Path) -> None:
    """What is evaluated is the same, whatever the batches."""
    config = config_for(tiny_parts, tmp_path, epochs=1, overwrite=True)
    by_owner, whole = run(replace(config, locality="owner")), run(config)
    assert losses(by_owner) != losses(whole)
    for events in (by_owner, whole):
        assert of_kind(events, "epoch")[0]["seeds"] == 600
    with pytest.raises(InputError, match=r"locality='blocks', but this graph has no blocks: partition it with --method metis"):
        run(replace(config, locality="blocks"))
    with pytest.raises(InputError, match="locality='near'"):
        replace(config, locality="near")


@pytest.mark.parametrize("workers", [0, 3])
def test_same_seed_same_curve_whatever_the_threads(tiny_parts: str, tmp_path: Path, workers: int) -> None:
    config = config_for(tiny_parts, tmp_path, epochs=2, overwrite=True)
    assert losses(run(config)) == losses(run(replace(config, workers=workers)))
    assert losses(run(config)) != losses(run(replace(config, seed=1)))


def test_checkpoint_is_the_best_epoch_and_scores_what_was_reported(tiny_parts: str, tmp_path: Path) -> None:
    events = run(config_for(tiny_parts, tmp_path, epochs=5, lr=0.05))
    scores = [(event["accuracy"], -event["loss"]) for event in of_kind(events, "evaluation") if event["split"] == "val"]
    end = events[-1]
    assert end["best_epoch"] == 1 + scores.index(max(scores))
    with halohop.open(tiny_parts, world=World()) as graph:
        model, info = load_checkpoint(tmp_path / "checkpoint", graph.schema)
        assert (info.epoch, info.val_score) == (end["best_epoch"], end["best_val_accuracy"])
        task = NodeTask(Setting(config=info.train, graph=graph, world=World(), device=torch.device("cpu")))
        score = task.score(model, task.loader("test"))
    assert score.main == end["test_accuracy"]
    assert score.count == 200


def test_patience_stops_the_run(tiny_parts: str, tmp_path: Path) -> None:
    end = run(config_for(tiny_parts, tmp_path, epochs=50, lr=1e-12, patience=2, batch_size=600))[-1]
    assert end["epochs"] < 25


def test_validation_every_few_epochs_and_at_the_end(tiny_parts: str, tmp_path: Path) -> None:
    events = run(config_for(tiny_parts, tmp_path, epochs=5, eval_every=2, batch_size=600))
    assert [event["epoch"] for event in of_kind(events, "evaluation") if event["split"] == "val"] == [2, 4, 5]
    assert [event["val_accuracy"] is None for event in of_kind(events, "epoch")] == [True, False, True, False, False]


def test_nodes_without_a_label_teach_nothing(tmp_path: Path) -> None:
    """Were -1 a class, or counted in the mean, the loss would differ from that of the graph whose split leaves them out."""
    node = synthetic("tiny").nodes["node"]
    blank = node.columns["train_mask"] & (torch.arange(1000) % 2 == 0)
    y = node.columns["y"].masked_fill(blank, -1)
    with_blanks = repartitioned(with_columns({"y": y}), tmp_path / "blank")
    without = repartitioned(with_columns({"train_mask": node.columns["train_mask"] & ~blank}), tmp_path / "less")
    options = {"epochs": 2, "batch_size": 1000, "fanout": (-1, -1), "dropout": 0.0, "overwrite": True}
    first, second = (run(config_for(parts, tmp_path / "run", **options)) for parts in (with_blanks, without))
    assert losses(first) == pytest.approx(losses(second), rel=1e-3)
    assert losses(first)[0] != losses(first)[1]


def test_no_validation_and_no_test_is_fine(tmp_path: Path) -> None:
    parts = repartitioned(with_columns({}, without=("val_mask", "test_mask")), tmp_path / "parts")
    end = run(config_for(parts, tmp_path / "run", epochs=2))[-1]
    assert (end["best_epoch"], end["best_val_accuracy"], end["test_accuracy"]) == (2, None, None)
    assert (tmp_path / "run/checkpoint/model.pt").is_file()


def test_nodes_without_features_learn_vectors(tmp_path: Path) -> None:
    parts = repartitioned(with_columns({}, without=("x",)), tmp_path / "parts")
    events = run(config_for(parts, tmp_path / "run", epochs=8))
    assert losses(events)[-1] < losses(events)[0] / 1.5


def test_relational_model_learns(hetero_parts: str, tmp_path: Path) -> None:
    events = run(config_for(hetero_parts, tmp_path, epochs=12, batch_size=60))
    assert events[0]["model"] == "rgcn"
    assert events[0]["target"] == "paper"
    assert events[-1]["test_accuracy"] > 0.5


@pytest.mark.parametrize("options", [{"model": "sage"}, {"model": "gcn"}, {"model": "gat"}, {"task": "link"}])
def test_other_names_of_the_only_type_and_relation_change_no_loss(tmp_path: Path, options: dict[str, Any]) -> None:
    """All neighbors and no dropout, so that no random number depends on a name."""
    tables = load_link_graph("synthetic:tiny", seed=0) if options.get("task") == "link" else synthetic("tiny")
    named = GraphTables(
        nodes={"page": tables.nodes["node"]}, edges={("page", "likes", "page"): next(iter(tables.edges.values()))}
    )
    common = {"epochs": 2, "fanout": (-1, -1), "dropout": 0.0, "batch_size": 5000, "overwrite": True, **options}
    plain, other = (
        run(config_for(repartitioned(t, tmp_path / name), tmp_path / "run", **common))
        for name, t in (("a", tables), ("b", named))
    )
    assert other[0]["model"] == plain[0]["model"] != "rgcn"
    if "task" not in options:  # negatives are drawn by the relation
        assert losses(other) == pytest.approx(losses(plain), rel=1e-4)
    if options.get("model") == "gat":
        for fanout in (None, (5, 5)):
            infer(
                InferConfig(
                    parts=str(tmp_path / "b"),
                    checkpoint=str(tmp_path / "run/checkpoint"),
                    out=str(tmp_path / str(fanout)),
                    fanout=fanout,
                ),
                world=World(),
            )
            assert len(np.load(tmp_path / str(fanout) / "predictions.npy")) == 1000


def test_errors_leave_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no folder"):
        train(config_for(str(tmp_path / "absent"), tmp_path / "run"), world=World())


def test_metrics_can_be_read_while_it_trains(tiny_parts: str, tmp_path: Path) -> None:
    port = free_addresses(1)[0].split(":")[1]
    seen: list[float] = []

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "step":
            seen.append(scrape(f":{port}").sums["batches"])

    train(config_for(tiny_parts, tmp_path, epochs=1, log_every=1, metrics=f":{port}"), world=World(), on_event=on_event)
    assert len(seen) == 6
    assert seen == sorted(seen)
    assert seen[-1] == 6
    with pytest.raises(TransportError, match="no metrics at"):
        scrape(f":{port}")


def test_a_run_that_diverges_saves_no_model(tiny_parts: str, tmp_path: Path) -> None:
    config = config_for(tiny_parts, tmp_path / "run", lr=1e30, eval_every=4)
    with pytest.raises(NotFiniteError, match=r"the loss of training is (nan|inf): .*; check the features `x`, or .*--lr"):
        run(config)
    assert not (tmp_path / "run/checkpoint").exists()


@pytest.mark.parametrize("without", [(), ("val_mask", "test_mask")])
def test_a_model_that_diverges_in_the_last_step_is_not_saved(tmp_path: Path, without: tuple[str, ...]) -> None:
    """The loss of the only step is a good number, the weights after it are not."""
    parts = repartitioned(with_columns({}, without=without), tmp_path / "parts")
    with pytest.raises(NotFiniteError, match=r"is (nan|inf|-inf): the model has diverged"):
        run(config_for(parts, tmp_path / "run", epochs=1, lr=1e39, batch_size=1000))
    assert not (tmp_path / "run/checkpoint").exists()


def test_features_of_validation_that_are_too_large(tmp_path: Path) -> None:
    """Training never reads them."""
    node = synthetic("tiny").nodes["node"]
    x = node.columns["x"].masked_fill(node.columns["val_mask"][:, None], 3e38)
    tables = with_columns({"x": x})
    no_edges = {
        relation: replace(table, src=table.src[:0], dst=table.dst[:0], columns={}) for relation, table in tables.edges.items()
    }
    parts = repartitioned(replace(tables, edges=no_edges), tmp_path / "parts")
    with pytest.raises(NotFiniteError, match="the loss of an evaluation is nan"):
        run(config_for(parts, tmp_path / "run"))
    assert not (tmp_path / "run/checkpoint").exists()


@pytest.mark.parametrize("labels", ["none marked", "none known", "several, none known"])
def test_a_training_split_without_a_label_is_refused(tmp_path: Path, labels: str) -> None:
    node = synthetic("tiny").nodes["node"]
    train_mask, y = node.columns["train_mask"], node.columns["y"]
    several = torch.nn.functional.one_hot(y).float().masked_fill(train_mask[:, None], float("nan"))
    columns = {
        "none marked": {"train_mask": torch.zeros_like(train_mask)},
        "none known": {"y": y.masked_fill(train_mask, -1)},
        "several, none known": {"y": several},
    }[labels]
    parts = repartitioned(with_columns(columns), tmp_path / "parts")
    with pytest.raises(InputError, match="no node of 'node' in the split 'train' has a label"):
        run(config_for(parts, tmp_path / "run"))


def test_a_validation_split_without_a_label_does_not_choose_the_model(tmp_path: Path) -> None:
    """As without validation, the last model is saved; that of the first epoch would be the best of scores that are all NaN."""
    node = synthetic("tiny").nodes["node"]
    parts = repartitioned(with_columns({"y": node.columns["y"].masked_fill(node.columns["val_mask"], -1)}), tmp_path / "parts")
    end = run(config_for(parts, tmp_path / "run", epochs=2))[-1]
    assert (end["best_epoch"], end["best_val_accuracy"]) == (2, None)


class Reads(TorchDispatchMode):
    """Notes the operations whose result the host must know to go on: on a GPU it waits there for all that was asked before."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name.removeprefix("aten::")
        by_mask = name == "index" and any(index is not None and index.dtype == torch.bool for index in args[1])
        if by_mask or name in ("_local_scalar_dense", "nonzero", "masked_select"):
            self.found.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("task", ["node", "several labels", "link", "padded link"])
def test_the_host_reads_nothing_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    tables = load_link_graph("synthetic:tiny", seed=0) if "link" in task else synthetic("tiny")
    if task == "several labels":
        y = torch.nn.functional.one_hot(synthetic("tiny").nodes["node"].columns["y"]).float()
        tables = with_columns({"y": y.masked_fill(torch.arange(1000)[:, None] % 3 == 0, float("nan"))})
    elif task == "node":
        tables = with_columns({"y": synthetic("tiny").nodes["node"].columns["y"].masked_fill(torch.arange(1000) % 3 == 0, -1)})
    parts, found, batch_losses = repartitioned(tables, tmp_path / "parts"), [], []
    of_task = LinkTask if "link" in task else NodeTask
    before = of_task.loss

    def loss(self: Any, model: Any, batch: Any) -> Any:
        made = model(batch)  # kernels of the CPU read what they compute with
        if task == "padded link":
            batch.seed_mask = torch.arange(len(made[0])) % 4 > 0
        with Reads() as reads:
            total, count = before(self, lambda _: made, batch)
        found.extend(reads.found)
        batch_losses.append((float(total.detach()), int(count), made, batch))
        return total, count

    monkeypatch.setattr(of_task, "loss", loss)
    kind = "link" if "link" in task else "node"
    run(config_for(parts, tmp_path / "run", epochs=1, task=kind, batch_size=500, dropout=0.0))
    assert found == []
    for total, count, made, batch in batch_losses:
        if kind == "link":
            chosen = batch.seed_mask if task == "padded link" else slice(None)
            scores = torch.cat([made[0][chosen], made[1][chosen].flatten()])
            target = torch.cat([torch.ones(len(made[0][chosen])), torch.zeros(made[1][chosen].numel())])
            wanted = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="sum")
        elif task == "node":
            target, scores = batch.y[: len(made)], made[batch.y[: len(made)] >= 0]
            wanted = torch.nn.functional.cross_entropy(scores, target[target >= 0], reduction="sum")
            target = target[target >= 0]
        else:
            target = batch.y[: len(made)]
            wanted = torch.nn.functional.binary_cross_entropy_with_logits(
                made[target == target], target[target == target], reduction="sum"
            )
            target = target[target == target]
        assert count == target.numel() > 0
        assert total == pytest.approx(float(wanted.detach()), rel=1e-5)


def test_on_a_gpu_the_host_looks_at_the_sums_after_some_steps(
    tiny_parts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which steps it looks at changes nothing of what is told."""
    config = config_for(tiny_parts, tmp_path / "run", epochs=2, batch_size=30, overwrite=True, log_every=9)
    each, looked = run(config), []
    read = Run._read
    monkeypatch.setattr(loop, "_READ_EVERY", {"cpu": 8})
    monkeypatch.setattr(Run, "_read", lambda self, part, step, sums: (looked.append(step), read(self, part, step, sums))[1])
    some = run(config)
    assert looked == [8, 9, 16, 18, 20] * 2
    told = [[event.get("loss") for event in events] for events in (each, some)]
    assert told[0] == told[1]
