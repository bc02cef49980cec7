import logging

import pytest
import torch

from halohop.errors import PeerLostError
from halohop.store.requests import LocateReply, LocateRequest
from halohop.transport import Codec, Limits, connect
from halohop.transport.dialling import Dialling


def test_a_peer_that_is_lost_and_found_is_a_warning_and_one_that_starts_late_is_not(caplog: pytest.LogCaptureFixture) -> None:
    dialling = Dialling()
    with caplog.at_level(logging.INFO, "halohop"):
        dialling.failed("a:1", "refused")
        dialling.connected("a:1")
        assert caplog.records == []
        dialling.failed("a:1", "the connection broke")
        dialling.failed("a:1", "refused")
        dialling.connected("b:2")
        dialling.connected("b:2")
    assert [record.getMessage() for record in caplog.records] == [
        "lost the connection to a:1: the connection broke; connecting again",
        "connected again, to b:2",
    ]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_a_name_that_has_no_address_is_called_that():
    limits = Limits(call_seconds=0.5, attempt_seconds=0.2, connect_seconds=0.5)
    with (
        connect("no-such-host.invalid:5510", codec=Codec([LocateRequest, LocateReply]), limits=limits) as channel,
        pytest.raises(PeerLostError, match=r"the name 'no-such-host.invalid' has no address"),
    ):
        channel.call(LocateRequest(node_type="node", raw=torch.tensor([1])))
