"""Compiled steps learn what steps learn without a compiler, and one program is made for all batches."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor

import halohop
from halohop.datasets import random_edge_masks, synthetic, synthetic_hetero
from halohop.errors import InputError
from halohop.recipes import compiling
from halohop.recipes.config import TrainConfig
from halohop.recipes.train import train
from halohop.store.tables import GraphTables
from halohop.world import World
from tests.recipes.test_resume import KilledError

pytestmark = [
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),  # torch hides it by other means than filters
    pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated"),  # by importing torch's compiler
]

TRACED = "aot_eager"
"""Makes programs as the compiler does, and runs torch's own kernels: in seconds, and without g++."""


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    """Without dropout, whose random numbers are a program's own."""
    defaults = {"fanout": (5, 5), "hidden": 32, "epochs": 2, "batch_size": 70, "workers": 1, "device": "cpu", "dropout": 0.0}
    return TrainConfig(parts=parts, out=str(out), overwrite=True, **defaults | values)


def programs() -> int:
    """How many have been made; none may be in pieces."""
    assert not counters["graph_break"], counters["graph_break"]
    return counters["stats"]["unique_graphs"]


def events_of(config: TrainConfig) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    train(config, world=World(), on_event=events.append)
    return events


FIGURES = ("loss", "val_loss", "val_accuracy", "val_micro_f1", "val_mrr", "sampled_edges", "seeds")


def figures(events: list[dict[str, Any]]) -> list[float]:
    epochs = [event for event in events if event["event"] == "epoch"]
    return [epoch[name] for epoch in epochs for name in FIGURES if epoch.get(name) is not None]


@pytest.fixture(scope="module")
def link_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return partitioned(random_edge_masks(synthetic("tiny")), tmp_path_factory.mktemp("links"))


@pytest.fixture(scope="module")
def typed_link_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return partitioned(random_edge_masks(synthetic_hetero(300)), tmp_path_factory.mktemp("typed_links"))


@pytest.fixture(scope="module")
def several_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nodes of several classes: labels that cannot say that there is none."""
    tables = synthetic("tiny")
    node = tables.nodes["node"]
    columns = node.columns | {"y": torch.stack([node.columns["y"] == 1, node.columns["y"] > 1], dim=1)}
    return partitioned(replace(tables, nodes={"node": replace(node, columns=columns)}), tmp_path_factory.mktemp("several"))


def partitioned(tables: GraphTables, folder: Path) -> str:
    halohop.partition(tables, folder / "parts", num_parts=2, method="random")
    return str(folder / "parts")


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    """The compiler's own threads and processes would stay for the next compilation."""
    with inductor.patch(compile_threads=1):
        yield


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    counters.clear()
    monkeypatch.setattr(compiling, "BACKEND", TRACED)


CASES: dict[str, dict[str, Any]] = {
    "sage": {},
    "gcn": {"model": "gcn"},
    "gat": {"model": "gat"},
    "rgcn": {"model": "rgcn"},
    "hgt": {"model": "hgt"},
    "link": {"task": "link", "negatives": 2, "batch_size": 1000, "eval_fanout": (2, 2)},
    "link rgcn": {"task": "link", "relation": ("author", "writes", "paper"), "batch_size": 150, "decoder": "mlp"},
    "several": {},
}


def parts_of(name: str, request: pytest.FixtureRequest) -> str:
    kinds = {"rgcn": "hetero", "hgt": "hetero", "link": "link", "link rgcn": "typed_link", "several": "several"}
    found: str = request.getfixturevalue(f"{kinds.get(name, 'tiny')}_parts")
    return found


@pytest.mark.parametrize(
    "name",
    [
        "several",
        *(pytest.param(name, marks=pytest.mark.full) for name in ("link", "sage", "gcn", "gat", "rgcn", "hgt", "link rgcn")),
    ],
)
def test_a_model_learns_the_same_by_one_program(name: str, request: pytest.FixtureRequest, tmp_path: Path, traced: None) -> None:
    """The last batch of an epoch is smaller, too; of links, it makes another program, as others of its nodes are seeds."""
    config = config_for(parts_of(name, request), tmp_path / "run", **CASES[name])
    expected = figures(events_of(config))
    assert programs() == 0
    exact = 1e-3 if name == "link rgcn" else 1e-5  # of two scores that are nearly equal either may be the greater: MRR moves
    assert figures(events_of(replace(config, compile=True))) == pytest.approx(expected, rel=exact)
    more = {"link": 1, "link rgcn": 2}  # there one batch outgrows its places, too
    assert programs() == 2 + more.get(name, 0)  # the small one that shows that there is a compiler, and the model's


@pytest.mark.full  # a minute each; tests/nn/test_compiled.py compiles layers in every run
@pytest.mark.parametrize("name", ["sage", "gcn", "gat", "rgcn", "hgt", "link"])
def test_what_the_compiler_makes_learns_the_same(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    torch._dynamo.reset()
    config = config_for(parts_of(name, request), tmp_path / "run", epochs=1, **CASES[name])
    expected = figures(events_of(config))
    assert figures(events_of(replace(config, compile=True))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.full
def test_two_trainers_with_compiled_steps(
    tiny_parts: str, tmp_path: Path, run_trainers: Callable[..., list[dict[str, Any]]]
) -> None:
    """By the compiler itself. 600 seeds are 5 steps, and in the last one a rank has fewer."""
    config = config_for(tiny_parts, tmp_path / "run", batch_size=65, eval_every=2)
    expected = run_trainers([config], 2)
    compiled = run_trainers([replace(config, compile=True)], 2)
    assert figures(compiled) == pytest.approx(figures(expected), rel=1e-5)
    assert compiled[-1]["test_accuracy"] == expected[-1]["test_accuracy"]


@pytest.mark.full
def test_a_compiled_run_in_bfloat16_goes_on_after_an_interruption(tiny_parts: str, tmp_path: Path, traced: None) -> None:
    """It was begun without a compiler."""
    config = config_for(tiny_parts, tmp_path / "run", save_every=2, log_every=1, amp=True)
    expected = figures(events_of(config))

    def kill(event: dict[str, Any]) -> None:
        if (event["event"], event.get("epoch"), event.get("step")) == ("step", 2, 5):
            raise KilledError

    with pytest.raises(KilledError):
        train(config, world=World(), on_event=kill)
    again = figures(events_of(replace(config, overwrite=False, resume=True, compile=True)))
    half = len(expected) // 2
    assert again[:half] == expected[:half]
    assert again[half:] == pytest.approx(expected[half:], rel=1e-2)
    assert programs() == 2


def test_without_a_compiler_nothing_begins(tiny_parts: str, tmp_path: Path) -> None:
    torch._dynamo.reset()
    config = config_for(tiny_parts, tmp_path / "run", compile=True)
    with inductor.patch({"cpp.cxx": (None, "/nowhere/g++")}), pytest.raises(InputError) as found:
        events_of(config)
    assert "--compile needs a C++ compiler (g++, or the one that CXX names), which does not work here" in str(found.value)
    assert "/nowhere/g++" in str(found.value)
    assert "\n" not in str(found.value)
    assert not Path(config.out).exists()
