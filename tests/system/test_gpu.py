"""What only a GPU shows: `make test-gpu`. Elsewhere the same is shown on one that is pretended, but for streams and speed."""

from pathlib import Path

import pytest
import torch

import halohop
from halohop.datasets import synthetic

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not torch.cuda.is_available():
        pytest.skip(f"no GPU: torch {torch.__version__} reaches none")
    folder = tmp_path_factory.mktemp("gpu") / "parts"
    halohop.partition(synthetic("tiny"), folder, num_parts=2)
    return folder


def batches(parts: Path, num_workers: int | None = None, **options: object) -> list[dict[str, torch.Tensor]]:
    """The tensors of an epoch's batches, as the CPU has them."""
    with halohop.open(parts, **options) as graph:
        how = {"batch_size": 64, "shuffle": True, "seed": 0, "num_workers": num_workers}
        loader = halohop.NeighborLoader(graph, [10, 5], input_nodes="train", **how)
        made = list(loader)
        assert all(batch.x.is_cuda == ("device" in options) for batch in made)
        return [
            {name: value.cpu() for name, value in batch.to_dict().items() if isinstance(value, torch.Tensor)} for batch in made
        ]


@pytest.mark.parametrize("mode", ["cpu", "zero_copy", "cuda"])
@pytest.mark.parametrize("feature_cache", [None, "100KB"], ids=str)
def test_batches_are_those_of_the_cpu(parts, mode, feature_cache):
    check(batches(parts, device="cuda", mode=mode, feature_cache=feature_cache), batches(parts))


@pytest.mark.parametrize("mode", ["cpu", "cuda"])
def test_threads_make_them_at_the_same_time(parts, mode):
    """Each on a stream of its own, while the first batches still wait for kernels to be compiled."""
    check(batches(parts, device="cuda", mode=mode, feature_cache="100KB", num_workers=4), batches(parts))


def test_two_gpus_divide_a_cache(parts):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    devices = ["cuda:0", "cuda:1"]
    check(batches(parts, device="cuda:0", feature_cache="100KB", cache_devices=devices), batches(parts))


def test_a_graph_may_be_closed_while_its_batches_are_made(parts):
    with halohop.open(parts, device="cuda", mode="cuda", feature_cache="100KB") as graph:
        loader = halohop.NeighborLoader(graph, [10, 5], input_nodes="train", batch_size=64, num_workers=4)
        first = next(iter(loader))
    assert first.x.isfinite().all()
    torch.cuda.synchronize()  # says what kernels have read that they may not


def check(found: list[dict[str, torch.Tensor]], expected: list[dict[str, torch.Tensor]]) -> None:
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
