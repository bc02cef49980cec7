import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

import halohop
from halohop.errors import AuthenticationError, DeadlineExceededError, InputError, PeerLostError, TransportError
from halohop.launch.cli import app
from halohop.net.health import ask_health
from halohop.testing.graphs import ring
from halohop.testing.worlds import TOKEN, free_addresses
from halohop.transport import Token
from tests.support.deadlines import within


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("health") / "parts"
    halohop.partition(ring(60), path, num_parts=3, method="random")
    return path


def test_a_server_says_what_it_serves_to_those_with_its_token_only(parts, tmp_path):
    with halohop.serve(parts, partitions=[0, 2], token=TOKEN) as server:
        assert ask_health(server.address, token=TOKEN, seconds=20) == (0, 2)
        for other in (Token("another secret that is long"), None):
            with pytest.raises(AuthenticationError):
                ask_health(server.address, token=other, seconds=20)
        secret = tmp_path / "secret"
        secret.write_bytes(TOKEN.key)
        secret.chmod(0o600)
        done = CliRunner().invoke(app, ["health", server.address, "--token-file", str(secret), "--seconds", "20"])
        assert (done.exit_code, done.output) == (0, f"{server.address} serves partitions 0, 2\n")
        secret.write_text("another secret that is long")
        assert CliRunner().invoke(app, ["health", server.address, "--token-file", str(secret)]).exit_code == 1


def test_a_server_that_takes_no_new_requests_is_not_well(parts):
    with halohop.serve(parts, token=TOKEN) as server:
        assert server.drain(5)
        with pytest.raises(TransportError):
            ask_health(server.address, token=TOKEN, seconds=0.5)


def test_one_that_is_gone_or_silent_is_not_well_within_the_deadline():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "{}:{}".format(*silent.getsockname())
        start = time.monotonic()
        with pytest.raises((PeerLostError, DeadlineExceededError)):
            ask_health(address, token=TOKEN, seconds=0.3)
    with pytest.raises(PeerLostError, match=address):
        ask_health(address, token=TOKEN, seconds=0.3)
    assert time.monotonic() - start < within(3)
    with pytest.raises(InputError, match="'here' is not an address"):
        ask_health("here", token=TOKEN, seconds=0.3)


def test_several_servers_are_waited_for(parts):
    first, second = free_addresses(2)
    with ExitStack() as stack:
        late = threading.Timer(0.3, lambda: stack.enter_context(halohop.serve(parts, listen=second)))
        stack.enter_context(halohop.serve(parts, partitions=[1], listen=first))
        stack.callback(late.join)
        late.start()
        done = CliRunner().invoke(app, ["health", f"{first},{second}", "--seconds", str(within(20))])
        assert (done.exit_code, done.output) == (0, f"{first} serves partitions 1\n{second} serves partitions 0, 1, 2\n")
        missing = CliRunner().invoke(app, ["health", f"{first},{free_addresses(1)[0]}", "--seconds", "0.3"])
        assert missing.exit_code == 1
