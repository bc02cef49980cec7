import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import encode as msgpack

from halohop.errors import AuthenticationError, InputError, ProtocolError
from halohop.transport import handshake
from halohop.transport.handshake import (
    ClientHandshake,
    Identity,
    Refusal,
    ServerHandshake,
    Session,
    Step,
    Terms,
    refused,
    step_of,
)
from halohop.transport.security import Token

TOKEN = Token("0123456789abcdef")
OTHER = Token("0123456789abcdeg")
MESSAGES = bytes(range(16))
MINE, THEIRS = (Terms(max_message_bytes=size, messages=MESSAGES) for size in (1000, 2000))
IDENTITY = Identity(dataset="0f" * 16, parts=(0, 3))


def meet(client_token, server_token, *, change=lambda step, frame: frame, identity=IDENTITY):
    """Plays a handshake, with somebody between who may change what passes; returns both sessions."""
    client = ClientHandshake(client_token, MINE)
    server = ServerHandshake(server_token, THEIRS, identity, change(Step.HELLO, client.hello()))
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
    assert (client.terms, server.terms) == (THEIRS, MINE)
    assert client.identity == IDENTITY


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
    client = ClientHandshake(TOKEN, MINE)
    client.hello()
    challenge = handshake._step(Step.CHALLENGE) + bytes(32)
    proof = client.step(challenge)
    with pytest.raises(AuthenticationError):
        client.step(handshake._step(Step.WELCOME) + proof[7:])


def test_a_recorded_proof_is_of_no_use():
    seen = {}

    def record(step, frame):
        seen[step] = frame
        return frame

    meet(TOKEN, TOKEN, change=record)
    again = ServerHandshake(TOKEN, THEIRS, IDENTITY, seen[Step.HELLO])
    assert again.accept(seen[Step.PROOF]) is None


def test_the_token_is_never_sent_nor_shown():
    frames = []
    meet(TOKEN, TOKEN, change=lambda step, frame: frames.append(frame) or frame)
    assert TOKEN.key not in b"".join(frames)
    assert "0123" not in repr(TOKEN) + str(TOKEN) + f"{TOKEN}"
    assert "tag" not in repr(meet(TOKEN, TOKEN)[0])


def test_out_of_turn():
    client = ClientHandshake(TOKEN, MINE)
    server = ServerHandshake(TOKEN, THEIRS, IDENTITY, client.hello())
    with pytest.raises(ProtocolError, match="out of turn"):
        client.step(client.hello())
    client.step(server.challenge())
    with pytest.raises(ProtocolError, match="out of turn"):
        client.step(server.challenge())
    with pytest.raises(ProtocolError, match="not a greeting"):
        ServerHandshake(TOKEN, THEIRS, IDENTITY, server.challenge())
    assert server.accept(client.hello()) is None


def test_another_version(monkeypatch):
    hello = ClientHandshake(TOKEN, MINE).hello()
    monkeypatch.setattr(handshake, "PROTOCOL_VERSION", 9)
    refusal = refused(Refusal.VERSION)
    with pytest.raises(ProtocolError):
        ServerHandshake(TOKEN, THEIRS, IDENTITY, hello)
    monkeypatch.undo()
    with pytest.raises(ProtocolError, match="version 9, this side 4"):
        ClientHandshake(TOKEN, MINE).step(refusal)


@given(st.binary(max_size=200))
def test_garbage(frame):
    assert step_of(frame) is None
    with pytest.raises(ProtocolError):
        ClientHandshake(TOKEN, MINE).step(frame)
    with pytest.raises(ProtocolError):
        ServerHandshake(TOKEN, THEIRS, IDENTITY, frame)
    hello = ClientHandshake(TOKEN, MINE).hello()
    assert ServerHandshake(TOKEN, THEIRS, IDENTITY, hello).accept(frame) is None


@given(st.sampled_from(list(Step)), st.binary(max_size=100))
def test_garbage_behind_a_good_beginning(step, body):
    hello = ClientHandshake(TOKEN, MINE).hello()
    assert ServerHandshake(TOKEN, THEIRS, IDENTITY, hello).accept(hello[:6] + bytes([step]) + body) is None
    client = ClientHandshake(TOKEN, MINE)
    client.step(ServerHandshake(TOKEN, THEIRS, IDENTITY, client.hello()).challenge())
    with pytest.raises((ProtocolError, AuthenticationError)):
        client.step(hello[:6] + bytes([step]) + body)


# ---- what a server serves


def parts_of(count: int) -> tuple[int, ...]:
    return tuple(range(70_000, 70_000 + count))


@pytest.mark.parametrize("identity", [Identity(), Identity(dataset="a"), Identity(dataset="0f" * 16, parts=parts_of(9_000))])
def test_a_client_reads_what_the_server_serves(identity):
    assert meet(TOKEN, TOKEN, identity=identity)[0].identity == identity
    assert meet(None, None, identity=identity)[0].identity == identity


def test_more_partitions_than_fit_are_refused_where_they_are_served():
    with pytest.raises(InputError, match="20000 partitions are too many for one server"):
        Identity(dataset="0f" * 16, parts=parts_of(20_000))


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_an_identity_that_is_truncated_or_lengthened_or_exchanged(cut):
    """By somebody between who does not know the token."""
    for change in (lambda frame: frame[:-cut], lambda frame: frame + bytes(cut), lambda frame: frame[:-1] + b"\7"):
        with pytest.raises(AuthenticationError, match="could not prove"):
            meet(TOKEN, TOKEN, change=lambda step, frame, change=change: change(frame) if step is Step.WELCOME else frame)


@pytest.mark.parametrize(
    "text", [b"", b"\xc1", b"\x81", b"\x80\x80", msgpack({"parts": ["0"]}), msgpack({"dataset": 1}), msgpack([])]
)
def test_an_identity_that_cannot_be_read(text):
    """From a server that knows the token, and has gone mad."""
    client = ClientHandshake(TOKEN, MINE)
    server = ServerHandshake(TOKEN, THEIRS, IDENTITY, client.hello())
    client.step(server.challenge())
    signed = handshake._signed(TOKEN.key, "server", server._nonces, handshake._packed(THEIRS) + text)
    with pytest.raises(ProtocolError, match="what it serves cannot be read"):
        client.step(handshake._step(Step.WELCOME) + signed)


def test_what_stands_in_for_what():
    served = Identity(dataset="a", parts=(0, 2))
    for expected in (served, Identity(dataset="a"), Identity(dataset="a", parts=(2,))):
        assert served.covers(expected)
    for expected in (Identity(), Identity(dataset="b", parts=(0, 2)), Identity(dataset="a", parts=(0, 1)), Identity(dataset="b")):
        assert not served.covers(expected)
    assert str(served) == "a server of data set a with partitions [0, 2]"
    assert "[0, 1, 2, 3" in str(Identity(dataset="a", parts=tuple(range(9999))))
    assert len(str(Identity(dataset="a", parts=tuple(range(9999))))) < 200


def test_other_message_types_are_refused_with_the_remedy():
    with pytest.raises(ProtocolError, match=r"other message types .*00010203.*11111111.*install the same halohop"):
        Terms(max_message_bytes=1, messages=b"\x11" * 16).check_messages(MINE)
    THEIRS.check_messages(MINE)
