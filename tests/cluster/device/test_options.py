"""What a user says about a GPU."""

import pytest

from halohop.cluster.device import DeviceOptions
from halohop.errors import InputError


def test_without_a_device_nothing_may_be_said():
    assert DeviceOptions.of(None) is None
    for said in ({"mode": "cuda"}, {"feature_cache": "1GB"}, {"feature_cache": 0}, {"cache_devices": ["cuda:0"]}):
        with pytest.raises(InputError, match=f"{next(iter(said))}=.* is for GPUs; give device='cuda', or leave"):
            DeviceOptions.of(None, **said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"mode": "gpu"}, "mode='gpu' is none of"),
        ({"feature_cache": 1.5}, "feature_cache=1.5 is no share"),
        ({"feature_cache": "1.5"}, "feature_cache=1.5 is no share"),
        ({"feature_cache": "much"}, "'much' is no size"),
        ({"feature_cache": -1}, "'?-1'? is no size"),
        ({"cache_devices": ["cuda:0"]}, r"cache_devices=\['cuda:0'\] divide a cache; say its size"),
        ({"cache_devices": ["cuda:0"], "feature_cache": 0.0}, "say its size"),
        ({"cache_devices": ["cuda:1", "cuda:1"], "feature_cache": 5}, "names a GPU twice"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(said, words):
    with pytest.raises(InputError, match=words):
        DeviceOptions.of("cuda", **said)


def test_a_share_is_of_what_is_free():
    assert DeviceOptions(device="cuda:0", feature_cache=0.5).cache_bytes(1000) == 500
    assert DeviceOptions(device="cuda:0", feature_cache="0.5").cache_bytes(1000) == 500
    assert DeviceOptions(device="cuda:0", feature_cache="1KB").cache_bytes(5000) == 1000
    assert DeviceOptions(device="cuda:0", feature_cache=0.5, cache_devices=("cuda:0", "cuda:1")).cache_bytes(1000, 600) == 600


def test_more_than_is_free_is_refused_with_both_sizes():
    with pytest.raises(InputError, match="feature_cache='4GB' is 4000000000 bytes, but cuda:0 has 1000 free; give less"):
        DeviceOptions(device="cuda:0", feature_cache="4GB").cache_bytes(1000)
    divided = DeviceOptions(device="cuda:0", feature_cache=3000, cache_devices=("cuda:0", "cuda:1"))
    with pytest.raises(InputError, match="is 3000 bytes, 1500 on each of 2, but cuda:1 has 1400 free"):
        divided.cache_bytes(5000, 1400)
    assert divided.cache_bytes(5000, 1500) == 3000


def test_whether_there_is_a_cache():
    for size, expected in ((0, False), (0.0, False), ("0", False), (1, True), (0.1, True), ("0.1", True), ("1MB", True)):
        assert DeviceOptions(device="cuda", feature_cache=size).caches is expected
