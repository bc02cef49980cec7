import logging

import pytest

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


def test_a_peer_that_has_said_that_it_ends_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    dialling = Dialling()
    with caplog.at_level(logging.INFO, "halohop"):
        dialling.connected("a:1")
        dialling.failed("a:1", "it ends, and has answered what it was sent", announced=True)
        dialling.failed("a:1", "refused")
        dialling.connected("b:2")
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert not caplog.records[0].getMessage().startswith("connected")
