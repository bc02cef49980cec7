"""The engine for ssh keeps the contract of engines, with real ssh servers."""

import pytest

from tests.support.contracts.engine import AttachedContract

pytestmark = [pytest.mark.timeout(240), pytest.mark.full]


class TestSsh(AttachedContract):
    pass
