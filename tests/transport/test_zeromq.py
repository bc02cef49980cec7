import pytest

from halohop.testing.contracts import TransportContract
from halohop.transport import zeromq


class TestZeroMQ(TransportContract):
    @pytest.fixture
    def network(self):
        return zeromq
