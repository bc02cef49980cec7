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


def batches(parts: Path, **options: object) -> list[dict[str, torch.Tensor]]:
    """The tensors of an epoch's batches, as the CPU has them."""
    with halohop.open(parts, **options) as graph:
        loader = halohop.NeighborLoader(graph, [10, 5], input_nodes="train", batch_size=64, shuffle=True, seed=0)
        made = list(loader)
        assert all(batch.x.is_cuda == ("device" in options) for batch in made)
        return [
            {name: value.cpu() for name, value in batch.to_dict().items() if isinstance(value, torch.Tensor)} for batch in made
        ]


@pytest.mark.parametrize("mode", ["cpu", "zero_copy", "cuda"])
@pytest.mark.parametrize("feature_cache", [None, "100KB"], ids=str)
def test_batches_are_those_of_the_cpu(parts, mode, feature_cache):
    expected = batches(parts)
    found = batches(parts, device="cuda", mode=mode, feature_cache=feature_cache)
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
