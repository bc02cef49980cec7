import pytest
from hypothesis import given
from hypothesis import strategies as st

from halohop.errors import AuthenticationError, InputError, ProtocolError
from halohop.transport import security
from halohop.transport.security import (
    ClientHandshake,
    Refusal,
    ServerHandshake,
    Session,
    Step,
    Token,
    load_token,
    refused,
    step_of,
)

TOKEN = Token("0123456789abcdef")
OTHER = Token("0123456789abcdeg")


def meet(client_token, server_token, *, change=lambda step, frame: frame):
    """Plays a handshake, with somebody between who may change what passes; returns both sessions."""
    client = ClientHandshake(client_token, 1000)
    server = ServerHandshake(server_token, 2000, change(Step.HELLO, client.hello()))
    proof = client.step(change(Step.CHALLENGE, server.challenge()))
    accepted = server.accept(change(Step.PROOF, proof))
    if accepted is None:
        return client.step(refused(Refusal.TOKEN)), None
    welcome, session = accepted
    return client.step(change(Step.WELCOME, welcome)), session


@pytest.mark.parametrize("token", [TOKEN, None, Token(b"\xff\0" * 20)])
def test_agreement(token):
    client, server = meet(token, token)
    assert isinstance(client, Session)
    assert (client.peer_max_message_bytes, server.peer_max_message_bytes) == (2000, 1000)


@pytest.mark.parametrize(("client", "server"), [(TOKEN, OTHER), (None, TOKEN), (TOKEN, None)])
def test_other_tokens(client, server):
    with pytest.raises(AuthenticationError, match="HALOHOP_TOKEN"):
        meet(client, server)


@given(st.sampled_from([Step.HELLO, Step.CHALLENGE, Step.PROOF, Step.WELCOME]), st.integers(0, 10_000))
def test_any_bit_that_changes_on_the_way_is_noticed(step, bit):
    def change(at, frame):
        if at is not step:
            return frame
        altered = bytearray(frame)
        altered[bit // 8 % len(frame)] ^= 1 << bit % 8
        return bytes(altered)

    with pytest.raises((AuthenticationError, ProtocolError)):
        meet(TOKEN, TOKEN, change=change)


def test_a_server_that_only_echoes_learns_nothing_it_can_use():
    """Reflection: the client's own proof is not the server's, since the roles differ."""
    client = ClientHandshake(TOKEN, 1000)
    client.hello()
    challenge = security._step(Step.CHALLENGE) + bytes(32)
    proof = client.step(challenge)
    with pytest.raises(AuthenticationError):
        client.step(security._step(Step.WELCOME) + proof[7:])


def test_a_recorded_proof_is_of_no_use():
    seen = {}

    def record(step, frame):
        seen[step] = frame
        return frame

    meet(TOKEN, TOKEN, change=record)
    again = ServerHandshake(TOKEN, 2000, seen[Step.HELLO])
    assert again.accept(seen[Step.PROOF]) is None


def test_the_token_is_never_sent_nor_shown():
    frames = []
    meet(TOKEN, TOKEN, change=lambda step, frame: frames.append(frame) or frame)
    assert TOKEN.key not in b"".join(frames)
    assert "0123" not in repr(TOKEN) + str(TOKEN) + f"{TOKEN}"
    assert "tag" not in repr(meet(TOKEN, TOKEN)[0])


def test_out_of_turn():
    client = ClientHandshake(TOKEN, 1000)
    server = ServerHandshake(TOKEN, 1000, client.hello())
    with pytest.raises(ProtocolError, match="out of turn"):
        client.step(client.hello())
    client.step(server.challenge())
    with pytest.raises(ProtocolError, match="out of turn"):
        client.step(server.challenge())
    with pytest.raises(ProtocolError, match="not a greeting"):
        ServerHandshake(TOKEN, 1000, server.challenge())
    assert server.accept(client.hello()) is None


def test_another_version(monkeypatch):
    hello = ClientHandshake(TOKEN, 1000).hello()
    monkeypatch.setattr(security, "PROTOCOL_VERSION", 2)
    refusal = refused(Refusal.VERSION)
    with pytest.raises(ProtocolError):
        ServerHandshake(TOKEN, 1000, hello)
    monkeypatch.undo()
    with pytest.raises(ProtocolError, match="version 2, this side 1"):
        ClientHandshake(TOKEN, 1000).step(refusal)


@given(st.binary(max_size=200))
def test_garbage(frame):
    assert step_of(frame) is None
    with pytest.raises(ProtocolError):
        ClientHandshake(TOKEN, 1000).step(frame)
    with pytest.raises(ProtocolError):
        ServerHandshake(TOKEN, 1000, frame)
    hello = ClientHandshake(TOKEN, 1000).hello()
    assert ServerHandshake(TOKEN, 1000, hello).accept(frame) is None


@given(st.sampled_from(list(Step)), st.binary(max_size=100))
def test_garbage_behind_a_good_beginning(step, body):
    hello = ClientHandshake(TOKEN, 1000).hello()
    assert ServerHandshake(TOKEN, 1000, hello).accept(hello[:6] + bytes([step]) + body) is None
    client = ClientHandshake(TOKEN, 1000)
    client.step(ServerHandshake(TOKEN, 1000, client.hello()).challenge())
    with pytest.raises((ProtocolError, AuthenticationError)):
        client.step(hello[:6] + bytes([step]) + body)


@pytest.mark.parametrize("secret", ["", "short", b"fifteen bytes!!"])
def test_tokens_that_can_be_guessed(secret):
    with pytest.raises(InputError, match=r"secrets\.token_hex"):
        Token(secret)


def test_load_token(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text("  0123456789abcdef\n")
    assert load_token(file).key == TOKEN.key
    assert load_token(env={"HALOHOP_TOKEN": "0123456789abcdef\n"}).key == TOKEN.key
    assert load_token(file, env={"HALOHOP_TOKEN": "another that is ignored"}).key == TOKEN.key
    assert load_token(env={}) is None
    assert load_token(env={"HALOHOP_TOKEN": " "}) is None
    monkeypatch.setenv("HALOHOP_TOKEN", "0123456789abcdef")
    assert load_token().key == TOKEN.key
    with pytest.raises(InputError, match=r"cannot read the token file .*absent"):
        load_token(tmp_path / "absent")


def test_whether_to_encrypt(tmp_path):
    env = {"HALOHOP_TOKEN": "0123456789abcdef"}
    assert not load_token(env=env).encrypt
    assert load_token(env=env, encrypt=True).encrypt
    for text, on in (("1", True), ("true", True), ("On", True), ("0", False), ("", False), ("no", False)):
        assert load_token(env=env | {"HALOHOP_ENCRYPT": text}).encrypt is on
    assert load_token(env=env | {"HALOHOP_ENCRYPT": "0"}, encrypt=True).encrypt
    file = tmp_path / "token"
    file.write_text("0123456789abcdef")
    assert load_token(file, env={"HALOHOP_ENCRYPT": "1"}).encrypt
    with pytest.raises(InputError, match="'maybe' is neither 1 nor 0"):
        load_token(env=env | {"HALOHOP_ENCRYPT": "maybe"})
    with pytest.raises(InputError, match="needs a token"):
        load_token(env={"HALOHOP_ENCRYPT": "1"})
