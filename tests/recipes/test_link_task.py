"""Link prediction in one process and in several; above all, that nothing tells the answers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import halohop
from halohop.cluster.graph import Graph, in_memory
from halohop.datasets import random_edge_masks, synthetic, synthetic_hetero
from halohop.errors import InputError, SchemaError
from halohop.recipes.build import build_model
from halohop.recipes.checkpoint import load_checkpoint
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.inference import infer
from halohop.recipes.link_edges import find_relation, split_edges
from halohop.recipes.link_model import LinkPredictor
from halohop.recipes.link_task import LinkTask
from halohop.recipes.task import Setting
from halohop.recipes.train import train
from halohop.store.tables import EdgeTable, GraphTables, NodeTable
from halohop.testing.leaks import assert_no_future, assert_trees_apart
from halohop.world import World
from tests.support.learned import give_vectors

EDGE = ("node", "to", "node")


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    defaults = {"fanout": (5, 5), "hidden": 16, "epochs": 3, "batch_size": 1000, "workers": 1, "device": "cpu", "task": "link"}
    return TrainConfig(parts=parts, out=str(out), **defaults | values)


def task_on(graph: Graph, **values: Any) -> LinkTask:
    config = config_for("parts", Path("out"), **{"batch_size": 50, "eval_batch_size": 50, **values})
    return LinkTask(Setting(config=config, graph=graph, world=World(), device=torch.device("cpu")))


def ring(num_nodes: int = 60, **columns: torch.Tensor) -> GraphTables:
    """Edges both ways between each node and the next three; those of one pair have the same number in `columns`."""
    src = torch.arange(num_nodes).repeat(3)
    dst = (src + torch.arange(1, 4).repeat_interleave(num_nodes)) % num_nodes
    both = {name: column.repeat(2) for name, column in columns.items()}
    table = EdgeTable(src=torch.cat([src, dst]), dst=torch.cat([dst, src]), columns=both)
    return GraphTables(nodes={"node": NodeTable(num_nodes=num_nodes, raw_id=torch.arange(num_nodes) + 7)}, edges={EDGE: table})


@pytest.fixture(scope="session")
def link_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """1,000 nodes with features in two partitions, and masks of edges."""
    folder = tmp_path_factory.mktemp("links") / "parts"
    halohop.partition(random_edge_masks(synthetic("tiny")), folder, num_parts=2, method="random")
    return str(folder)


@pytest.mark.parametrize("time_attr", [None, "when"])
def test_validation_edges_are_found_by_any_name_of_their_split(time_attr: str | None) -> None:
    fold = torch.arange(180) % 4
    masks = {"train_mask": fold < 2, "validation_mask": fold == 2, "test_mask": fold == 3}
    found = split_edges(in_memory(ring(when=torch.arange(180), **masks)), EDGE, time_attr)
    assert {name: edges.index.shape[1] for name, edges in found.items()} == {"train": 180, "val": 90, "test": 90}


def test_learns_writes_down_what_happened_and_gives_vectors(link_parts: str, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    end = train(config_for(link_parts, tmp_path, epochs=5, lr=0.02), world=World(), on_event=events.append)
    assert (events[0]["task"], events[0]["figure"], events[0]["splits"]) == (
        "link",
        "mrr",
        {"train": 9600, "val": 1200, "test": 1200},
    )
    assert [event["split"] for event in events if event["event"] == "evaluation"] == ["val"] * 5 + ["test"]
    assert end["test_auc"] > 0.67  # chance: 0.5, and 0.17 for the mean reciprocal rank
    assert end["test_mrr"] > 0.3
    assert end["best_val_mrr"] == max(event["val_mrr"] for event in events if event["event"] == "epoch")
    with halohop.open(link_parts, world=World()) as graph:
        model, info = load_checkpoint(tmp_path / "checkpoint", graph.schema)
        task = LinkTask(Setting(config=info.train, graph=graph, world=World(), device=torch.device("cpu")))
        assert task.score(model, task.loader("test")).main == end["test_mrr"]
        index = task._edges["test"].index
        (batch,) = halohop.LinkNeighborLoader(
            graph, [-1, -1], index, neg_sampling="triplet", batch_size=5000, num_workers=0, edge_columns=[]
        )
        assert isinstance(model, LinkPredictor)
        scores = model(batch)[0].detach().numpy()
        bias = model.decoder.state_dict()["bias"].item()
    ids, vectors = (
        np.load(file) for file in infer(InferConfig(parts=link_parts, checkpoint=str(tmp_path / "checkpoint"), out=str(tmp_path)))
    )
    assert ids.tolist() == list(range(1000))
    src, dst = index  # vectors are made of all edges, so the batch was, too
    np.testing.assert_allclose(
        (vectors[src] * vectors[dst]).sum(axis=1) / vectors.shape[1] ** 0.5 + bias, scores, rtol=1e-3, atol=1e-4
    )


@pytest.mark.full
def test_several_trainers_on_several_hosts(
    link_parts: str, tmp_path: Path, run_trainers: Callable[..., Any], own_folders: Callable[[str], list[str]]
) -> None:
    """Steps are not full (1,001 edges a rank do not divide 9,600), and hosts change nothing but rounding: of losses the eighth
    digit, and of what counts greater scores the pairs that are all but equal. Another seed changes the third digit."""
    found = {}
    for name, parts, per_host in (("one", [link_parts], 2), ("two", own_folders(link_parts), 1)):
        configs = [config_for(folder, tmp_path / name, epochs=2, batch_size=1001, eval_batch_size=77) for folder in parts]
        events = run_trainers(configs, per_host)
        assert [event["seeds"] for event in events if event["event"] == "epoch"] == [9600, 9600]
        losses = [event["loss"] for event in events if event["event"] in ("epoch", "evaluation")]
        assert len(losses) == 5
        found[name] = (losses, [events[-1][figure] for figure in ("test_mrr", "test_auc", "test_ap")])
    assert found["one"][0] == pytest.approx(found["two"][0], rel=1e-5)
    assert found["one"][1] == pytest.approx(found["two"][1], abs=1e-3)


def forbidden(graph: Graph, split: str) -> set[tuple[int, int]]:
    """The pairs of a split's edges, either way."""
    src, dst = split_edges(graph, EDGE, None)[split].index.tolist()
    return {*zip(src, dst, strict=True), *zip(dst, src, strict=True)}


def shown(batch: Any) -> set[tuple[int, int]]:
    src, dst = batch.n_id[batch.edge_index].tolist()
    return set(zip(src, dst, strict=True))


@pytest.mark.parametrize("split", ["val", "test"])
def test_no_held_out_edge_is_shown(split: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = in_memory(random_edge_masks(ring()))
    held_out = forbidden(graph, "val") | forbidden(graph, "test")
    assert len(held_out) > 60
    for name in ("train", split):
        assert all(not shown(batch) & held_out for batch in task_on(graph, fanout=(-1, -1)).loader(name))
    # What it is that keeps them away, and that this test would notice.
    monkeypatch.setattr("halohop.recipes.link_task.TRAIN_MASK", None)
    assert any(shown(batch) & held_out for batch in task_on(graph, fanout=(-1, -1)).loader(split))


def test_edges_to_learn_from_are_not_shown_unless_wanted() -> None:
    graph = in_memory(random_edge_masks(ring()))
    for exclude in (True, False):
        for batch in task_on(graph, exclude_seed_edges=exclude, fanout=(-1, -1)).loader("train"):
            src, dst = batch.n_id[batch.src_index].tolist(), batch.n_id[batch.dst_pos_index].tolist()
            asked = {*zip(src, dst, strict=True), *zip(dst, src, strict=True)}
            assert bool(shown(batch) & asked) != exclude


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_only_the_past_is_shown(dtype: torch.dtype, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    time = torch.randint(40, (180,), generator=torch.Generator().manual_seed(0))
    graph = in_memory(ring(time=time.to(dtype)))
    edges = split_edges(graph, EDGE, "time")
    assert float(edges["train"].seen_until.max()) < float(edges["val"].seen_until.min())
    assert float(edges["val"].seen_until.max()) < float(edges["test"].seen_until.min())

    def look(split: str) -> int:
        found = 0
        for batch in task_on(graph, time_attr="time", temporal_strategy=strategy).loader(split):
            own = batch.seed_time
            moment = own + 1 if dtype == torch.int64 else own.nextafter(torch.tensor(torch.inf, dtype=dtype))
            src, dst = batch.edge_index
            assert_no_future(time.to(dtype).repeat(2)[batch.e_id], batch.batch[dst], moment, strict=True)
            assert_trees_apart(batch.batch[src], batch.batch[dst])
            found += len(src)
        return found

    assert all(look(split) > 100 for split in ("train", "val", "test"))
    # With the edge's own moment the edge itself is among what is shown: the detector must see it.
    monkeypatch.setattr("halohop.recipes.link_edges._just_before", lambda time: time)
    edges = split_edges(graph, EDGE, "time")
    (batch, *_) = halohop.LinkNeighborLoader(
        graph, [5], edges["test"].index, edge_label_time=edges["test"].seen_until, time_attr="time", batch_size=50, num_workers=0
    )
    with pytest.raises(AssertionError, match="edges leak"):
        assert_no_future(batch.time, batch.batch[batch.edge_index[1]], batch.edge_label_time, strict=True)


def test_the_negatives_of_validation_stay_the_same() -> None:
    loader = task_on(in_memory(random_edge_masks(ring())), eval_negatives=4).loader("val")
    drawn = []
    for _ in range(2):
        loader.set_epoch(0)
        drawn.append(torch.cat([batch.n_id[batch.dst_neg_index] for batch in loader]))
    assert drawn[0].shape == (36, 4)  # a tenth of the pairs, both ways
    assert torch.equal(*drawn)


@pytest.mark.parametrize(
    ("model", "decoder"),
    [
        ("rgcn", "distmult"),
        ("hgt", "mlp"),
        ("rgcn", "mlp"),
        ("hgt", "distmult"),
    ],
)
@pytest.mark.full
def test_a_relation_among_several(model: str, decoder: str, tmp_path: Path) -> None:
    tables = random_edge_masks(synthetic_hetero(100))
    relation = next(name for name in tables.edges if name[0] != name[2])
    halohop.partition(tables, tmp_path / "parts", num_parts=2, method="random")
    config = config_for(
        str(tmp_path / "parts"), tmp_path, relation=relation, model=model, decoder=decoder, epochs=5, heads=2, batch_size=50
    )
    events: list[dict[str, Any]] = []
    train(config, world=World(), on_event=events.append)
    losses = [event["loss"] for event in events if event["event"] == "epoch"]
    assert losses[-1] < losses[0]
    for target in (None, relation[0]):
        options = {"parts": config.parts, "checkpoint": str(tmp_path / "checkpoint"), "out": str(tmp_path / f"vectors {target}")}
        ids, vectors = map(np.load, infer(InferConfig(target=target, **options)))
        assert vectors.shape == (len(ids), 16)
        assert len(ids) == tables.nodes[target or relation[2]].num_nodes
    with pytest.raises(InputError, match="link model's vectors"):
        infer(InferConfig(fanout=(2, 2), overwrite=True, **options))


def test_what_has_no_splits_or_tells_the_answers_is_refused() -> None:
    plain = in_memory(ring())
    with pytest.raises(InputError, match="time_attr"):
        split_edges(plain, EDGE, None)
    with pytest.raises(SchemaError, match="no column 'when'"):
        split_edges(plain, EDGE, "when")
    several = synthetic_hetero(50)
    with pytest.raises(SchemaError, match="several relations"):
        find_relation(in_memory(several).schema, None)
    with pytest.raises(InputError, match="in the split 'train'"):
        split_edges(in_memory(ring(train_mask=torch.zeros(180, dtype=torch.bool))), EDGE, None)
    table = random_edge_masks(ring()).edges[EDGE]
    names = {"there": ("node", "to", "node"), "back": ("node", "rev_to", "node")}
    both = {names["there"]: table, names["back"]: replace(table, src=table.dst, dst=table.src, columns={})}
    with pytest.raises(InputError, match=r"reverses of .* the model would see the edges of val and test"):
        split_edges(in_memory(replace(ring(), edges=both)), names["there"], None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task": "edge"}, "task='edge' is none of node, link"),
        ({"decoder": "cosine"}, "decoder"),
        ({"task": "link", "relation": ("a", "b")}, "three names"),
        ({"task": "link", "target": "paper"}, "target='paper' means nothing"),
        ({"time_attr": "time"}, "time_attr='time' means nothing with task='node'"),
        ({"task": "link", "temporal_strategy": "first"}, "temporal_strategy='first' is none of uniform, last"),
        ({"negatives": 0}, "negatives=0"),
        ({"eval_negatives": 0}, "eval_negatives=0"),
    ],
)
def test_values_that_cannot_work_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainConfig(**{"parts": "p", "out": "o", **values})


@pytest.mark.parametrize("model", ["sage", "rgcn", "hgt"])
@pytest.mark.parametrize("decoder", ["dot", "mlp", "distmult"])
def test_a_rank_without_edges_takes_part(model: str, decoder: str) -> None:
    """Otherwise the others would wait for its gradients for ever."""
    tables = random_edge_masks(synthetic("tiny") if model == "sage" else synthetic_hetero(50))
    task = task_on(in_memory(tables), model=model, decoder=decoder, heads=2, relation=list(tables.edges)[-1], eval_negatives=3)
    predictor = build_model(task.spec)
    give_vectors(predictor)
    nothing = torch.empty(0, dtype=torch.int64)
    loss, count = task.loss(predictor, task.loader("train")(nothing))
    loss.backward()
    assert (loss.item(), count) == (0.0, 0)
    assert [name for name, weight in predictor.named_parameters() if weight.grad is None or weight.grad.any()] == []
    loader = task.loader("val")
    some = loader(torch.arange(5))
    scores = [task.score(predictor, batches).figures for batches in ([some], [loader(nothing), some, loader(nothing)])]  # type: ignore[arg-type]
    assert scores[0] == scores[1]
