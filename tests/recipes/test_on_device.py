"""Training with a GPU: the losses, scores, checkpoints and states of the CPU, bit for bit. On a GPU that is pretended.

The kernels of layers are the CPU's here (those of a GPU are shown by `tests/ops/test_gpu_segments.py`), and a step may wait for
its loss, as it does on a GPU. What is shown is that nothing takes a tensor of the one for a tensor of the other.
"""

from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import halohop
from halohop.datasets import random_edge_masks, synthetic
from halohop.recipes import compiling, inference, node_task, resume
from halohop.recipes import train as training
from halohop.recipes.checkpoint import load_tensors
from halohop.recipes.config import InferConfig, TrainConfig
from halohop.recipes.loop import Run
from halohop.recipes.train import train
from halohop.tensors.gradients import Gradients
from halohop.world import World
from tests.recipes.test_resume import KilledError
from tests.support import pretend_gpu
from tests.support.pretend_gpu import PretendTensor, home, pretended

GPU = torch.device("cuda", 0)


class OnGpu(TorchFunctionMode):
    """Torch's functions where there is the pretended GPU: they make tensors there and move them there and back."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if isinstance(func, torch._ops.OpOverload) and func.namespace == "halohop":
            there = any(isinstance(one, PretendTensor) for one in args)
            assert all(isinstance(one, PretendTensor) == there for one in args if isinstance(one, Tensor)), func
            found = func(*(home(one) if isinstance(one, Tensor) else one for one in args), **kwargs)
            return _moved(found) if there else found
        if func is torch.device:
            return func(*args, **kwargs)
        device = kwargs.get("device") or next((one for one in args if isinstance(one, torch.device)), None)
        if device is not None and torch.device(device).type == "cuda":
            if getattr(func, "__name__", "") == "to":
                dtype = next((one for one in (*args, *kwargs.values()) if isinstance(one, torch.dtype)), args[0].dtype)
                return args[0].to(dtype) if args[0].is_cuda else pretended(args[0].to(dtype, copy=True))
            kwargs.pop("device", None)
            return _moved(func(*(one for one in args if not isinstance(one, torch.device)), **kwargs))
        return func(*args, **kwargs)


def _moved(found: Any) -> Any:
    return tuple(map(_moved, found)) if isinstance(found, tuple) else pretended(found) if isinstance(found, Tensor) else found


def _home(value: Any) -> Any:
    """As torch reads it from a file with ``map_location="cpu"``."""
    if isinstance(value, dict):
        return {key: _home(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_home, value))
    return home(value) if isinstance(value, Tensor) else value


def _found_there(gradients: Gradients) -> Gradients:
    """Autograd hands out plain tensors; those of rows of a GPU are there."""
    gradients._found = [replace(one, grads=one.grads.as_subclass(PretendTensor)) if one.pool else one for one in gradients._found]
    return gradients


def _module_there(module: nn.Module, device: torch.device) -> nn.Module:
    for part in module.modules() if device.type == "cuda" else ():
        for name, parameter in part._parameters.items():
            if parameter is not None and not parameter.is_cuda:
                part._parameters[name] = nn.Parameter(pretended(parameter.detach().clone()))
    return module


def _gradients_there(run: Run) -> None:
    for parameter in run.model.parameters():
        assert isinstance(parameter, PretendTensor)
        parameter.register_post_accumulate_grad_hook(_gradient_there)


def _gradient_there(parameter: Tensor) -> None:
    assert parameter.grad is not None
    parameter.grad = pretended(parameter.grad)


@pytest.fixture
def gpu(pretended_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (training, inference):
        monkeypatch.setattr(module, "choose_device", lambda name, world: GPU if name == "cuda" else torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.arange(3).byte())
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(pretend_gpu, "WAITS", ())
    monkeypatch.setattr(pretend_gpu, "_waits", lambda name, args, kwargs: False)
    monkeypatch.setattr(pretend_gpu, "_is_mask", lambda index: False)
    monkeypatch.setattr(nn.Module, "to", _module_there)
    monkeypatch.setattr(resume, "write_state", lambda state, stream: torch.save(_home(state), stream))
    brought = Gradients.brought
    monkeypatch.setattr(Gradients, "brought", lambda of, **how: brought(_found_there(of), **how))
    hops = import_module("halohop.nn.hops")
    monkeypatch.setattr(hops, "grouped", lambda edges, *sizes: hops.listed_by_dst(*edges, *sizes))  # which stay where they are
    go = Run.go
    monkeypatch.setattr(Run, "go", lambda run: (_gradients_there(run) if run.device.type == "cuda" else None, go(run))[1])


def config_for(parts: str, out: Path, **values: Any) -> TrainConfig:
    defaults = {"fanout": (3, 3), "hidden": 16, "epochs": 2, "batch_size": 150, "workers": 0, "device": "cpu", "dropout": 0.0}
    return TrainConfig(parts=parts, out=str(out), overwrite=True, **defaults | values)


def run(config: TrainConfig, until: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []

    def on_event(event: dict[str, Any]) -> None:
        events.append(event)
        if until is not None and (event["event"], event.get("epoch"), event.get("step")) == ("step", *until):
            raise KilledError

    with OnGpu() if config.device == "cuda" else nullcontext():
        train(config, world=World(), on_event=on_event)
    return events


def told(events: list[dict[str, Any]]) -> list[Any]:
    names = ("loss", "val_loss", "val_accuracy", "test_accuracy", "sampled_edges")
    return [[event.get(name) for name in names] for event in events if event["event"] in ("epoch", "end")]


FULL = pytest.mark.full
THERE: dict[str, Any] = {"device": "cuda", "mode": "cuda", "feature_cache": "20KB"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "by layers": ("tiny_parts", {"epochs": 1}),
    "in batches": ("tiny_parts", {"model": "gat", "eval_fanout": (2, 2)}),
    "vectors": ("hetero_parts", {"batch_size": 60, "epochs": 1}),
    "HGT": ("hetero_parts", {"model": "hgt", "batch_size": 60, "epochs": 1}),
    "links": ("link_parts", {"task": "link", "batch_size": 2400, "eval_batch_size": 600, "eval_fanout": (2, 2), "epochs": 1}),
}


@pytest.fixture(scope="module")
def link_parts(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("links") / "parts"
    halohop.partition(random_edge_masks(synthetic("tiny")), folder, num_parts=2, method="random")
    return str(folder)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[FULL] * (name != "by layers")) for name in CASES])
def test_a_run_on_a_gpu_is_that_of_the_cpu(name: str, request: pytest.FixtureRequest, tmp_path: Path, gpu: None) -> None:
    """And so is the checkpoint."""
    parts, options = CASES[name]
    here = config_for(request.getfixturevalue(parts), tmp_path / "here", **options)
    expected = run(here)
    there = replace(here, out=str(tmp_path / "there"), **THERE)
    assert told(run(there)) == told(expected)
    one, other = (load_tensors(tmp_path / name / "checkpoint/model.pt")["weights"] for name in ("there", "here"))
    assert one.keys() == other.keys()
    for key, weight in other.items():
        assert type(one[key]) is Tensor
        assert torch.equal(one[key], weight), key


@pytest.mark.full
def test_a_run_on_a_gpu_goes_on_after_an_interruption(tiny_parts: str, tmp_path: Path, gpu: None) -> None:
    """On the GPU, and on the CPU: what is saved says nothing of where it was computed."""
    here = config_for(tiny_parts, tmp_path / "here", save_every=2, log_every=1)
    expected = told(run(here))
    there = replace(here, out=str(tmp_path / "there"), **THERE)
    with pytest.raises(KilledError):
        run(there, until=(1, 3))
    again = replace(there, overwrite=False, resume=True)
    with pytest.raises(KilledError):
        run(again, until=(2, 3))
    assert told(run(replace(again, device="cpu", mode=None, feature_cache=None))) == expected


@pytest.mark.parametrize("fanout", [None, pytest.param((3, 3), marks=FULL)], ids=str)
def test_predictions_of_a_gpu_are_those_of_the_cpu(tiny_parts: str, tmp_path: Path, gpu: None, fanout: Any) -> None:
    run(config_for(tiny_parts, tmp_path / "run", epochs=1))
    for device in ("cpu", "cuda"):
        config = InferConfig(
            parts=tiny_parts,
            checkpoint=str(tmp_path / "run/checkpoint"),
            out=str(tmp_path / device),
            fanout=fanout,
            embeddings=True,
            workers=0,
            device=device,
        )
        with OnGpu() if device == "cuda" else nullcontext():
            inference.infer(config, world=World())
    for name in ("raw_ids", "predictions", "confidence", "embeddings"):
        one, other = (np.load(tmp_path / device / f"{name}.npy") for device in ("cuda", "cpu"))
        assert np.array_equal(one, other), name


def test_steps_to_compile_have_places_that_nobody_waits_for(
    tiny_parts: str, tmp_path: Path, gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a compiler for the pretended GPU, the model runs as it is."""
    monkeypatch.setattr(training, "check_compiler", lambda device: None)
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    padding, made = compiling.padding_of, []
    monkeypatch.setattr(node_task, "padding_of", lambda setting: made.append(padding(setting)) or made[-1])
    here = config_for(tiny_parts, tmp_path / "here", epochs=1)
    expected = [figure for figures in told(run(here)) for figure in figures if figure is not None]
    there = told(run(replace(here, out=str(tmp_path / "there"), compile=True, **THERE)))
    assert [figure for figures in there for figure in figures if figure is not None] == pytest.approx(expected, rel=1e-5)
    assert [one and one.caps for one in made if one] == ["bound"]
