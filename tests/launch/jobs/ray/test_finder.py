"""The finder of a service without Ray, and with a registry that has forgotten; with servers it is part of test_batches.py."""

import pickle
from typing import Any

import pytest

from halohop.launch.jobs.ray.finder import RegistryFinder
from halohop.launch.jobs.ray.registry import Registry, RegistryClient
from halohop.net.finders import Announcer
from halohop.transport import Token

SECRET = "correct horse battery staple"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry that every client asks, without Ray."""
    registry = Registry(Token(SECRET))

    def ask(self: RegistryClient, method: str, *arguments: Any) -> Any:
        return getattr(registry, method)(*arguments)

    monkeypatch.setattr(RegistryClient, "is_reachable", True)
    monkeypatch.setattr(RegistryClient, "ask", ask)
    return registry


def test_a_server_is_found_under_its_own_name_wherever_it_is(registry: Registry) -> None:
    finder = RegistryFinder("graph")
    for address in ("10.0.0.7:1", "10.0.0.8:2"):
        server = RegistryFinder("graph", announces="server-0")
        assert isinstance(server, Announcer)
        server.announce("a name of this process", address)
        assert finder() == (address,)


def test_a_registry_that_was_started_again_makes_no_server_unknown(registry: Registry) -> None:
    finder = RegistryFinder("graph")
    registry.announce("server-0", "10.0.0.7:1")
    assert finder() == ("10.0.0.7:1",)
    registry.withdraw("server-0", "10.0.0.7:1")
    assert finder() == ("10.0.0.7:1",)


def test_elsewhere_a_finder_knows_what_it_found_last_and_no_token(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HALOHOP_TOKEN", raising=False)
    finder = RegistryFinder("graph")
    registry.announce("server-0", "10.0.0.7:1")
    finder()
    token = finder.token()
    assert token is not None
    assert token.key == SECRET.encode()
    sent = pickle.dumps(finder)
    assert b"horse" not in sent
    monkeypatch.setattr(RegistryClient, "is_reachable", False)
    arrived: RegistryFinder = pickle.loads(sent)
    assert arrived() == ("10.0.0.7:1",)
    assert arrived.token() is None
    monkeypatch.setenv("HALOHOP_TOKEN", SECRET)
    assert arrived.token() is not None


def test_a_service_that_has_ended_is_named() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'halohop[ray]'")
    client = RegistryClient("papers")
    assert not client.is_reachable
