"""How a run opens its graph."""

from pathlib import Path

import torch

import halohop
from halohop import World
from halohop.datasets import synthetic
from halohop.recipes.config import TrainConfig
from halohop.recipes.opening import opened


def test_a_run_says_how_much_of_its_graph_is_in_memory(tmp_path: Path) -> None:
    halohop.partition(synthetic("tiny"), tmp_path / "parts", num_parts=2, method="random")
    seen = {}
    for memory, hot_memory in ((None, None), (0, None), (0, 10_000)):
        config = TrainConfig(parts=str(tmp_path / "parts"), out=tmp_path / "out", memory=memory, hot_memory=hot_memory)
        with opened(config.parts, config, World.from_env()) as graph:
            graph.rows("x", torch.arange(1000))
            counted = graph.statistics()
            seen[memory, hot_memory] = counted.get("disk_rows", 0), counted.get("hot_rows", 0) > 0
    assert seen == {(None, None): (0, False), (0, None): (1000, False), (0, 10_000): (1000, True)}
