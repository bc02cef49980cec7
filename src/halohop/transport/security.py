"""Who may talk: a shared token, proven by both sides without ever being sent.

Challenge and response (ISO/IEC 9798-4 style): each side sends a random nonce, and proves that it knows the token with an
HMAC-SHA256 over its role, the protocol version and both nonces. The client proves first, so a stranger who knocks learns
nothing.

    client                                   server
    HELLO      version, nonce         ->
                                      <-     CHALLENGE  version, nonce         (or REFUSED: another version)
    PROOF      largest message, mac   ->
                                      <-     WELCOME    largest message, mac   (or REFUSED: another token)

All of these are of fixed size, and until WELCOME nothing else is looked at. This authenticates peers; what they say then is
encrypted only if their token asks for it (`tls`), and below that handshake.
"""

import hmac
import os
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from halohop.errors import AuthenticationError, InputError, ProtocolError

PROTOCOL_VERSION = 1
TOKEN_VARIABLE = "HALOHOP_TOKEN"
ENCRYPT_VARIABLE = "HALOHOP_ENCRYPT"
CERTIFICATE_VARIABLES = ("HALOHOP_CERTIFICATE", "HALOHOP_KEY", "HALOHOP_AUTHORITY")
_NONCE_BYTES = 32
_MIN_TOKEN_BYTES = 16
_REMEDY = f"make one with `python -c 'import secrets; print(secrets.token_hex(32))'` and give it to all hosts as {TOKEN_VARIABLE}"


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
_NONCE = struct.Struct(f">{_NONCE_BYTES}s")
_PROOF = struct.Struct(">Q32s")
_REFUSED = struct.Struct(">B")
_MAGIC = b"HHOP"
MAX_STEP_BYTES = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A key pair of this host's own, for encryption, instead of the one that follows from the token. Files in PEM format.

    Args:
        chain: this host's certificate, and those between it and the authority, if any.
        key: its private key, without a password.
        authority: whose certificates are accepted: those of all peers are from it.

    Example:
        >>> folder = Path("/etc/halohop")
        >>> mine = Certificate(chain=folder / "host7.pem", key=folder / "host7.key", authority=folder / "authority.pem")
        >>> Token("", certificate=mine)  # read when it is used
        Token(...)
    """

    chain: Path
    key: Path
    authority: Path


class Token:
    """What peers show each other: a shared secret of at least 16 bytes (text counts as UTF-8). Its repr does not show it.

    Args:
        secret: the same for all peers.
        encrypt: whether what peers send each other is encrypted (between hosts, not within a process). All say the same: one
            that does not encrypt is an error for one that does, never a reason not to.
        certificate: a key pair per host, besides the secret or, if that is empty, instead of it. It implies `encrypt`.

    Raises:
        InputError: the secret is too short.

    Example:
        >>> Token("correct horse battery staple")
        Token(...)
    """

    __slots__ = ("certificate", "encrypt", "key")

    def __init__(self, secret: str | bytes, *, encrypt: bool = False, certificate: Certificate | None = None) -> None:
        self.key = secret.encode() if isinstance(secret, str) else secret
        self.encrypt = encrypt or certificate is not None
        self.certificate = certificate
        if len(self.key) < _MIN_TOKEN_BYTES and not (certificate is not None and not self.key):
            raise InputError(f"a token of {len(self.key)} bytes can be guessed, it needs {_MIN_TOKEN_BYTES}; {_REMEDY}")

    def __repr__(self) -> str:
        return "Token(...)"


def load_token(path: str | Path | None = None, env: Mapping[str, str] | None = None, *, encrypt: bool = False) -> Token | None:
    """The token in the file `path`, else in the environment variable HALOHOP_TOKEN, else None. White space around it is dropped.

    Key pairs are used where HALOHOP_CERTIFICATE, HALOHOP_KEY and HALOHOP_AUTHORITY name their files; then no token is needed.

    Args:
        encrypt: whether peers shall encrypt; they also do where HALOHOP_ENCRYPT is 1.

    Raises:
        InputError: the file cannot be read, the token is too short, there is none to encrypt with, or only some of the three
            files are named.
    """
    env = os.environ if env is None else env
    encrypt = encrypt or _is_on(env.get(ENCRYPT_VARIABLE, ""))
    certificate = _certificate(env)
    text = env.get(TOKEN_VARIABLE, "").strip().encode()
    if path is not None:
        try:
            text = Path(path).read_bytes().strip()
        except OSError as error:
            raise InputError(f"cannot read the token file {path}: {error.strerror}") from error
    elif not text and certificate is None:
        if encrypt:
            raise InputError(f"encryption ({ENCRYPT_VARIABLE}) needs a token; {_REMEDY}")
        return None
    return Token(text, encrypt=encrypt, certificate=certificate)


def _certificate(env: Mapping[str, str]) -> Certificate | None:
    files = [env.get(name, "").strip() for name in CERTIFICATE_VARIABLES]
    if not any(files):
        return None
    if not all(files):
        missing = next(name for name, file in zip(CERTIFICATE_VARIABLES, files, strict=True) if not file)
        raise InputError(f"{missing} is not set; a key pair needs all of {', '.join(CERTIFICATE_VARIABLES)}, or none")
    chain, key, authority = map(Path, files)
    return Certificate(chain=chain, key=key, authority=authority)


def _is_on(text: str) -> bool:
    choices = {"": False, "0": False, "false": False, "no": False, "off": False, "1": True, "true": True, "yes": True, "on": True}
    try:
        return choices[text.strip().lower()]
    except KeyError:
        raise InputError(f"{ENCRYPT_VARIABLE}={text!r} is neither 1 nor 0") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What an authenticated pair agreed on.

    Args:
        peer_max_message_bytes: the largest message that the other side takes.
    """

    peer_max_message_bytes: int


class ClientHandshake:
    """The client's side: send `hello`, then answer what arrives with `step` until it returns a session."""

    def __init__(self, token: Token | None, max_message_bytes: int) -> None:
        self._key = token.key if token else b""
        self._limit = max_message_bytes
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._server_nonce: bytes | None = None

    def hello(self) -> bytes:
        return _step(Step.HELLO) + self._nonce

    def step(self, frame: bytes) -> bytes | Session:
        """What to send next, or the session.

        Raises:
            AuthenticationError: refused, or the server does not know the token.
            ProtocolError: not our protocol, another version, or out of turn.
        """
        version, step, body = _parse(frame)
        if step is Step.REFUSED and len(body) == _REFUSED.size:
            if body[0] == Refusal.VERSION:
                raise ProtocolError(
                    f"it speaks protocol version {version}, this side {PROTOCOL_VERSION}; install the same halohop"
                )
            raise AuthenticationError("it knows another token (or one side has none); " + _REMEDY)
        if version != PROTOCOL_VERSION:
            raise ProtocolError(f"it speaks protocol version {version}, this side {PROTOCOL_VERSION}; install the same halohop")
        if step is Step.CHALLENGE and self._server_nonce is None and len(body) == _NONCE.size:
            self._server_nonce = body
            return _step(Step.PROOF) + _prove(self._key, "client", self._nonce, body, self._limit)
        if step is Step.WELCOME and self._server_nonce is not None and len(body) == _PROOF.size:
            limit = _verify(self._key, "server", self._nonce, self._server_nonce, body)
            if limit is None:
                raise AuthenticationError("it could not prove that it knows the token; " + _REMEDY)
            return Session(peer_max_message_bytes=limit)
        raise ProtocolError("its handshake is out of turn")


class ServerHandshake:
    """The server's side, begun by a HELLO.

    Raises:
        ProtocolError: that was no HELLO of this version.
    """

    def __init__(self, token: Token | None, max_message_bytes: int, hello: bytes) -> None:
        self._key = token.key if token else b""
        self._limit = max_message_bytes
        version, step, body = _parse(hello)
        if step is not Step.HELLO or version != PROTOCOL_VERSION or len(body) != _NONCE.size:
            raise ProtocolError("not a greeting of this version")
        self._client_nonce = body
        self._nonce = secrets.token_bytes(_NONCE_BYTES)

    def challenge(self) -> bytes:
        return _step(Step.CHALLENGE) + self._nonce

    def accept(self, proof: bytes) -> tuple[bytes, Session] | None:
        """The WELCOME to send and the session; None where the proof is wrong."""
        if step_of(proof) is not Step.PROOF:
            return None
        version, _, body = _parse(proof)
        if version != PROTOCOL_VERSION or len(body) != _PROOF.size:
            return None
        limit = _verify(self._key, "client", self._client_nonce, self._nonce, body)
        if limit is None:
            return None
        welcome = _step(Step.WELCOME) + _prove(self._key, "server", self._client_nonce, self._nonce, self._limit)
        return welcome, Session(peer_max_message_bytes=limit)


def step_of(frame: bytes) -> Step | None:
    """Which step of a handshake a frame is, in any version; None if it is none."""
    if not _PREFIX.size <= len(frame) <= MAX_STEP_BYTES:
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


def _parse(frame: bytes) -> tuple[int, Step, bytes]:
    step = step_of(frame)
    if step is None:
        raise ProtocolError("it does not speak halohop's protocol")
    return version_of(frame), step, frame[_PREFIX.size :]


def _mac(key: bytes, role: str, client_nonce: bytes, server_nonce: bytes, limit: int) -> bytes:
    text = struct.pack(f">8sH{_NONCE_BYTES}s{_NONCE_BYTES}sQ", role.encode(), PROTOCOL_VERSION, client_nonce, server_nonce, limit)
    return hmac.digest(key, text, "sha256")


def _prove(key: bytes, role: str, client_nonce: bytes, server_nonce: bytes, limit: int) -> bytes:
    return _PROOF.pack(limit, _mac(key, role, client_nonce, server_nonce, limit))


def _verify(key: bytes, role: str, client_nonce: bytes, server_nonce: bytes, body: bytes) -> int | None:
    limit, mac = _PROOF.unpack(body)
    return limit if hmac.compare_digest(mac, _mac(key, role, client_nonce, server_nonce, limit)) else None
