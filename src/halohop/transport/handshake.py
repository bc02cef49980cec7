"""How two peers meet: both prove that they know the token, and the server shows what it serves.

Challenge and response (ISO/IEC 9798-4 style): each side sends a random nonce, and proves that it knows the token with an
HMAC-SHA256 over its role, the protocol version, both nonces and all else that it says. The client proves first, so a stranger
who knocks learns nothing.

    client                                    server
    HELLO      version, nonce          ->
                                       <-     CHALLENGE  version, nonce              (or REFUSED: another version)
    PROOF      mac, terms              ->
                                       <-     WELCOME    mac, terms, identity        (or REFUSED: another token)

The terms are the largest message that a side takes, and a digest of the message types that it knows. Where the digests differ,
both sides end the connection. The identity says which data set the server has, and which partitions of it; a client that looks
for others does not stay. Until WELCOME nothing larger than these messages is taken, and nothing is decoded whose MAC is not
right. What peers say afterwards is protected only if their token asks for encryption (`tls`).
"""

import hmac
import secrets
import struct
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from halohop.errors import AuthenticationError, InputError, ProtocolError
from halohop.transport.security import TOKEN_REMEDY, Token

PROTOCOL_VERSION = 4
DIGEST_BYTES = 16
MAX_STEP_BYTES = 128
"""The largest message of a client."""
MAX_WELCOME_BYTES = 2**16
"""The largest message of a server: it may list thousands of partitions."""
_NONCE_BYTES = 32
_MAC_BYTES = 32
_MAX_SHOWN = 20  # partitions in an error


class Step(IntEnum):
    """The messages of the handshake."""

    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    WELCOME = 4
    REFUSED = 5


class Refusal(IntEnum):
    """Why a server turns a client away."""

    VERSION = 1
    TOKEN = 2


_PREFIX = struct.Struct(">4sHB")  # magic, version, step: the same in every version to come
_TERMS = struct.Struct(f">Q{DIGEST_BYTES}s")
_PROOF_BYTES = _MAC_BYTES + _TERMS.size
_REFUSED = struct.Struct(">B")
_MAGIC = b"HHOP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a server serves.

    Args:
        dataset: the fingerprint of the data set; empty for a server without one.
        parts: the partitions that it holds.

    Raises:
        InputError: more partitions than fit into a handshake.

    Example:
        >>> found = Identity(dataset="3f2a", parts=(0, 2))
        >>> found.covers(Identity(dataset="3f2a", parts=(2,))), found.covers(Identity(dataset="77b1"))
        (True, False)
    """

    dataset: str = ""
    parts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        room = MAX_WELCOME_BYTES - _PREFIX.size - _PROOF_BYTES
        if len(msgspec.msgpack.encode(self)) > room:
            raise InputError(f"{len(self.parts)} partitions are too many for one server; serve fewer of them from each")

    def covers(self, expected: "Identity") -> bool:
        """Whether a server that shows this can answer for what is expected: the same data set, and at least these partitions."""
        return self.dataset == expected.dataset and set(expected.parts) <= set(self.parts)

    def __str__(self) -> str:
        if not self.dataset:
            return "a server without a data set"
        shown = ", ".join(map(str, self.parts[:_MAX_SHOWN])) + ", ..." * (len(self.parts) > _MAX_SHOWN)
        return f"a server of data set {self.dataset}" + (f" with partitions [{shown}]" if self.parts else "")


NO_IDENTITY = Identity()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a side says of itself in a handshake.

    Args:
        max_message_bytes: the largest message that it takes.
        messages: the digest of the message types that it knows, `DIGEST_BYTES` long.
    """

    max_message_bytes: int
    messages: bytes

    def check_messages(self, other: "Terms") -> None:
        """
        Raises:
            ProtocolError: the other side knows other message types.
        """
        if self.messages != other.messages:
            there, here = other.messages.hex()[:8], self.messages.hex()[:8]
            raise ProtocolError(
                f"it knows other message types than this side (digest {there}, here {here}), so it runs another halohop, "
                "or serves for another purpose; install the same halohop on both sides"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An authenticated pair.

    Args:
        terms: those of the other side.
        identity: what the server serves.
    """

    terms: Terms
    identity: Identity


class ClientHandshake:
    """The client's side: send `hello`, then answer what arrives with `step` until it returns a session."""

    def __init__(self, token: Token | None, terms: Terms) -> None:
        self._key = token.key if token else b""
        self._terms = terms
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._server_nonce: bytes | None = None

    def hello(self) -> bytes:
        return _step(Step.HELLO) + self._nonce

    def step(self, frame: bytes) -> bytes | Session:
        """What to send next, or the session.

        Raises:
            AuthenticationError: refused, or the server does not know the token.
            ProtocolError: not our protocol, another version, out of turn, or an identity that cannot be read.
        """
        version, step, body = _parse(frame, MAX_WELCOME_BYTES)
        if step is Step.REFUSED and len(body) == _REFUSED.size and body[0] != Refusal.VERSION:
            raise AuthenticationError("it knows another token (or one side has none); " + TOKEN_REMEDY)
        if step is Step.REFUSED or version != PROTOCOL_VERSION:
            raise ProtocolError(f"it speaks protocol version {version}, this side {PROTOCOL_VERSION}; install the same halohop")
        if step is Step.CHALLENGE and self._server_nonce is None and len(body) == _NONCE_BYTES:
            self._server_nonce = body
            return _step(Step.PROOF) + _signed(self._key, "client", self._nonce + body, _packed(self._terms))
        if step is Step.WELCOME and self._server_nonce is not None and len(body) >= _PROOF_BYTES:
            text = _verified(self._key, "server", self._nonce + self._server_nonce, body)
            if text is None:
                raise AuthenticationError("it could not prove that it knows the token; " + TOKEN_REMEDY)
            return Session(terms=_terms(text), identity=_identity(text[_TERMS.size :]))
        raise ProtocolError("its handshake is out of turn")


class ServerHandshake:
    """The server's side, begun by a HELLO.

    Raises:
        ProtocolError: that was no HELLO of this version.
    """

    def __init__(self, token: Token | None, terms: Terms, identity: Identity, hello: bytes) -> None:
        self._key = token.key if token else b""
        self._terms = terms
        self._identity = identity
        version, step, body = _parse(hello, MAX_STEP_BYTES)
        if step is not Step.HELLO or version != PROTOCOL_VERSION or len(body) != _NONCE_BYTES:
            raise ProtocolError("not a greeting of this version")
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._nonces = body + self._nonce

    def challenge(self) -> bytes:
        return _step(Step.CHALLENGE) + self._nonce

    def accept(self, proof: bytes) -> tuple[bytes, Session] | None:
        """The WELCOME to send and the session; None where the proof is wrong."""
        if step_of(proof) is not Step.PROOF:
            return None
        version, _, body = _parse(proof, MAX_STEP_BYTES)
        if version != PROTOCOL_VERSION or len(body) != _PROOF_BYTES:
            return None
        text = _verified(self._key, "client", self._nonces, body)
        if text is None:
            return None
        shown = _packed(self._terms) + msgspec.msgpack.encode(self._identity)
        welcome = _step(Step.WELCOME) + _signed(self._key, "server", self._nonces, shown)
        return welcome, Session(terms=_terms(text), identity=self._identity)


def step_of(frame: bytes, max_bytes: int = MAX_STEP_BYTES) -> Step | None:
    """Which step of a handshake a frame is, in any version; None if it is none."""
    if not _PREFIX.size <= len(frame) <= max_bytes:
        return None
    magic, _, step = _PREFIX.unpack_from(frame)
    return Step(step) if magic == _MAGIC and Step.HELLO <= step <= Step.REFUSED else None


def version_of(frame: bytes) -> int:
    """The protocol version that a step of a handshake names."""
    version: int = _PREFIX.unpack_from(frame)[1]
    return version


def refused(reason: Refusal) -> bytes:
    """The frame that turns a client away."""
    return _step(Step.REFUSED) + _REFUSED.pack(reason)


def _step(step: Step) -> bytes:
    return _PREFIX.pack(_MAGIC, PROTOCOL_VERSION, step)


def _parse(frame: bytes, max_bytes: int) -> tuple[int, Step, bytes]:
    step = step_of(frame, max_bytes)
    if step is None:
        raise ProtocolError("it does not speak halohop's protocol")
    return version_of(frame), step, frame[_PREFIX.size :]


def _packed(terms: Terms) -> bytes:
    return _TERMS.pack(terms.max_message_bytes, terms.messages)


def _terms(text: bytes) -> Terms:
    max_message_bytes, messages = _TERMS.unpack_from(text)
    return Terms(max_message_bytes=max_message_bytes, messages=messages)


def _identity(text: bytes) -> Identity:
    try:
        return msgspec.msgpack.decode(text, type=Identity)
    except msgspec.MsgspecError as error:
        raise ProtocolError(f"what it serves cannot be read: {error}") from error


def _mac(key: bytes, role: str, nonces: bytes, text: bytes) -> bytes:
    head = struct.pack(f">8sH{2 * _NONCE_BYTES}s", role.encode(), PROTOCOL_VERSION, nonces)
    return hmac.digest(key, head + text, "sha256")


def _signed(key: bytes, role: str, nonces: bytes, text: bytes) -> bytes:
    return _mac(key, role, nonces, text) + text


def _verified(key: bytes, role: str, nonces: bytes, body: bytes) -> bytes | None:
    mac, text = body[:_MAC_BYTES], body[_MAC_BYTES:]
    return text if hmac.compare_digest(mac, _mac(key, role, nonces, text)) else None
