import os
from typing import Any

import pytest

from halohop.errors import InputError
from halohop.recipes.config import InferConfig, TrainConfig, from_dict, read_config, to_dict


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fanout": ()}, "fanout"),
        ({"fanout": (5, -2)}, "fanout"),
        ({"eval_fanout": (5,)}, "one layer per hop"),
        ({"model": "gin"}, "gin"),
        ({"model": "gat", "hidden": 30}, "multiple of heads"),
        ({"hidden": 0}, "hidden=0"),
        ({"dropout": 1.0}, "dropout"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"seed": -1}, "seed"),
        ({"workers": -1}, "workers"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"parts": ""}, "parts"),
    ],
)
def test_values_that_cannot_work_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainConfig(**{"parts": "p", "out": "o", **values})


@pytest.mark.parametrize(("values", "message"), [({"form": "csv"}, "csv"), ({"fanout": ()}, "fanout"), ({"batch_size": 0}, "0")])
def test_values_of_inference_are_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        InferConfig(**{"parts": "p", "checkpoint": "c", "out": "o", **values})


def test_json_and_back_is_the_same() -> None:
    train = TrainConfig(parts="p", out="o", fanout=(3, -1), eval_fanout=(2, 2), workers=0, target="paper")
    infer = InferConfig(parts="p", checkpoint="c", out="o", fanout=(1,), split="test")
    assert from_dict(TrainConfig, to_dict(train)) == train
    assert from_dict(InferConfig, to_dict(infer)) == infer


def test_wrong_names_types_and_files_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="'batchsize' is no setting"):
        from_dict(TrainConfig, {"parts": "p", "out": "o", "batchsize": 3})
    with pytest.raises(InputError, match="hidden"):
        from_dict(TrainConfig, {"parts": "p", "out": "o", "hidden": "many"})
    with pytest.raises(InputError, match="out"):
        from_dict(TrainConfig, {"parts": "p"})
    with pytest.raises(InputError, match=r"absent\.json"):
        read_config(TrainConfig, tmp_path / "absent.json")
    (tmp_path / "deep.json").write_text("[" * 200_000)
    with pytest.raises(InputError, match=r"deep\.json cannot be read as JSON: it is nested too deep"):
        read_config(TrainConfig, tmp_path / "deep.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match=r"pipe\.json is no regular file"):
        read_config(TrainConfig, tmp_path / "pipe.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(InputError, match="no JSON object"):
        read_config(TrainConfig, tmp_path / "list.json")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"task": "graph"}, "task='graph' is none of node, link"),
        ({"mode": "gpu"}, "mode='gpu' is none of cpu, zero_copy, cuda"),
        ({"hidden": 0}, "hidden=0 must be at least 1"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0 must be at least 0"),
        ({"lr": 0}, "lr=0 must be over 0"),
        ({"embed_lr": -1.0}, "embed_lr=-1.0 must be over 0"),
        ({"memory": -1}, "memory=-1 must be at least 0"),
        ({"cache": 0}, "cache=0 must be at least 1"),
    ],
)
def test_types_of_fields_are_checked(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        TrainConfig(**{"parts": "p", "out": "o", **values})
    TrainConfig(parts="p", out="o", mode=None, embed_lr=None, lr=1, memory=None, cache=None, save_every=0)
