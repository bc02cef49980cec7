"""How the connections of a graph end: in which order, and what others hear of it."""

from unittest.mock import Mock, call

import pytest

from halohop.errors import ClusterError
from halohop.net.connections import Connections


def parts(**of_rendezvous):
    """Connections of stand-ins, and the calls that these get."""
    calls = Mock()
    calls.rendezvous.configure_mock(**of_rendezvous)
    connections = Connections(directory=calls.directory, peers=(), rendezvous=calls.rendezvous, server=calls.server)
    return connections, calls


def test_a_host_says_goodbye_after_all_have_left():
    connections, calls = parts()
    connections.close(wait=True)
    expected = [
        *(call.directory.rest(), call.rendezvous.leave(), call.directory.close()),
        *(call.server.drain(1.0), call.server.close()),
    ]
    assert calls.mock_calls == expected


def test_after_an_error_it_is_gone_at_once():
    connections, calls = parts()
    connections.close(wait=False)
    assert calls.mock_calls == [call.directory.rest(), call.directory.close(), call.server.close()]


def test_others_that_do_not_come_keep_nothing_open():
    connections, calls = parts(**{"leave.side_effect": ClusterError("rank 1 did not finish")})
    with pytest.raises(ClusterError):
        connections.close(wait=True)
    assert calls.mock_calls[-2:] == [call.directory.close(), call.server.close()]
