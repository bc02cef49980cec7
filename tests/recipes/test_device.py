"""Training on a device: what is computed in bfloat16, and where batches are made."""

import pytest
import torch

from halohop.errors import InputError
from halohop.recipes.config import TrainConfig
from halohop.recipes.opening import opened
from halohop.recipes.train import train
from halohop.world import World


def config_for(parts: str, out: str, **options) -> TrainConfig:
    return TrainConfig(
        parts=parts, out=out, fanout=(5, 5), epochs=2, batch_size=100, dropout=0.0, workers=0, device="cpu", **options
    )


def test_losses_in_bfloat16_are_near_those_in_float32(tiny_parts, tmp_path):
    losses = {}
    for amp in (False, True):
        events = []
        train(config_for(str(tiny_parts), str(tmp_path / f"run{amp}"), amp=amp), world=World(), on_event=events.append)
        losses[amp] = [event["loss"] for event in events if event["event"] == "epoch"]
    assert losses[True] == pytest.approx(losses[False], rel=0.05)
    assert losses[True] != losses[False]


def test_a_mode_without_a_gpu_is_refused(tiny_parts, tmp_path):
    config = config_for(str(tiny_parts), str(tmp_path / "run"), mode="cuda")
    with pytest.raises(InputError, match="mode='cuda' is for GPUs; give device='cuda'"):
        opened(config.parts, config, World())
    with pytest.raises(InputError, match="'gpu' is none of cpu, zero_copy, cuda"):
        config_for(str(tiny_parts), str(tmp_path / "run"), mode="gpu")
    far = config_for("127.0.0.1:1", str(tmp_path / "run"), feature_cache="1GB")
    with pytest.raises(InputError, match="are for graphs in a folder"):
        opened(far.parts, far, World())


def test_a_trainers_graph_has_its_gpu(tiny_parts, tmp_path, pretended_gpu):
    config = config_for(str(tiny_parts), str(tmp_path / "run"), mode="cuda", feature_cache="1MB")
    with opened(config.parts, config, World(), torch.device("cuda", 0)) as graph:
        assert graph.on_device is not None
        assert graph.on_device.options.mode == "cuda"
        assert graph.on_device.options.cache_bytes(10**9) == 10**6
