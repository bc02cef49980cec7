"""Ray is asked for where it is used, and an error names the extra."""

import sys

import pytest

from halohop.errors import InputError
from halohop.launch.jobs.ray import GraphService
from halohop.launch.jobs.ray.library import ray_library


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"needs ray: pip install 'halohop\[ray\]'"):
        ray_library()
    with pytest.raises(InputError, match=r"pip install 'halohop\[ray\]'"):
        GraphService("parts")
