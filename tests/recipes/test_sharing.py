"""Which device each trainer of a run gets."""

import pytest
import torch

from halohop import World
from halohop.errors import InputError
from halohop.recipes.sharing import choose_device

SECOND = World(rank=1, size=4, local_rank=1, local_size=4)


@pytest.fixture
def gpus(monkeypatch):
    """Makes torch see so many GPUs."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    return lambda number: monkeypatch.setattr(torch.cuda, "device_count", lambda: number)


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_each_trainer_of_a_host_has_a_gpu_of_its_own(gpus, name):
    gpus(4)
    worlds = [World(rank=rank, size=8, host=1, num_hosts=2, local_rank=rank - 4, local_size=4) for rank in range(4, 8)]
    assert [choose_device(name, world).index for world in worlds] == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["auto", "cuda", "cuda:0"])
def test_a_gpu_that_a_launcher_made_the_only_one(gpus, name, monkeypatch):
    gpus(1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert choose_device(name, SECOND) == torch.device("cuda", 0)


def test_auto_takes_the_cpu_where_gpus_are_too_few(gpus):
    gpus(3)
    assert choose_device("auto", SECOND) == torch.device("cpu")
    gpus(0)
    assert choose_device("auto", World()) == torch.device("cpu")


@pytest.mark.parametrize(
    ("number", "name", "world", "message"),
    [
        (3, "cuda", SECOND, "this host has 4 trainers and 3 GPUs, and each needs its own; start 3 trainers, or use device='cpu'"),
        (4, "cuda:1", SECOND, "device='cuda:1' is one GPU for 4 trainers of this host; device='cuda' gives each its own"),
        (4, "cuda:7", World(), "device='cuda:7' is not here: torch sees 4 GPUs"),
        (0, "cuda", World(), "device='cuda' is not here: torch sees 0 GPUs; use device='cpu'"),
        (1, "tpu", World(), "device='tpu' is no device of torch"),
        (1, "meta", World(), "device='meta' is not here"),
    ],
)
def test_refused_by_name(gpus, number, name, world, message):
    gpus(number)
    with pytest.raises(InputError) as refused:
        choose_device(name, world)
    assert message in str(refused.value)


def test_ranks_whose_hosts_are_not_known_may_have_gpus_elsewhere(gpus):
    gpus(2)
    assert choose_device("cuda", World(rank=3, size=4)) == torch.device("cuda", 1)
