import pytest

from halohop.errors import InputError
from halohop.launch.jobs.engine import engine_of


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InputError, match="unknown engine 'sge'; use one of local, ssh, slurm, k8s, ray"):
        engine_of("sge")
