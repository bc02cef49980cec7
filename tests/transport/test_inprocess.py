import pytest

from halohop.errors import TransportError
from halohop.transport import Codec, InProcessNetwork
from tests.support.contracts import TransportContract
from tests.support.messages import MESSAGE_TYPES


class TestInProcess(TransportContract):
    @pytest.fixture
    def network(self):
        return InProcessNetwork()


def test_a_name_is_taken_until_its_listener_is_closed():
    network, codec = InProcessNetwork(), Codec(MESSAGE_TYPES)
    with network.serve(lambda request: request, codec=codec, bind="shard") as listener:
        assert listener.address == "inprocess://shard"
        with pytest.raises(TransportError, match="choose another name"):
            network.serve(lambda request: request, codec=codec, bind="shard")
    network.serve(lambda request: request, codec=codec, bind="shard").close()
