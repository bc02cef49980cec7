"""The secret that peers share, and where it comes from. How they prove it to each other: `handshake`."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from halohop.errors import InputError
from halohop.flags import checks_flags

TOKEN_VARIABLE = "HALOHOP_TOKEN"
ENCRYPT_VARIABLE = "HALOHOP_ENCRYPT"
CERTIFICATE_VARIABLES = ("HALOHOP_CERTIFICATE", "HALOHOP_KEY", "HALOHOP_AUTHORITY")
TOKEN_REMEDY = (
    f"make one with `python -c 'import secrets; print(secrets.token_hex(32))'` and give it to all hosts as {TOKEN_VARIABLE}"
)
_MIN_TOKEN_BYTES = 16


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

    @checks_flags
    def __init__(self, secret: str | bytes, *, encrypt: bool = False, certificate: Certificate | None = None) -> None:
        self.key = secret.encode() if isinstance(secret, str) else secret
        self.encrypt = encrypt or certificate is not None
        self.certificate = certificate
        if len(self.key) < _MIN_TOKEN_BYTES and not (certificate is not None and not self.key):
            raise InputError(f"a token of {len(self.key)} bytes can be guessed, it needs {_MIN_TOKEN_BYTES}; {TOKEN_REMEDY}")

    def __repr__(self) -> str:
        return "Token(...)"


@checks_flags
def load_token(path: str | Path | None = None, env: Mapping[str, str] | None = None, *, encrypt: bool = False) -> Token | None:
    """The token in the file `path`, else in the environment variable HALOHOP_TOKEN, else None. White space around it is dropped.

    Key pairs are used where HALOHOP_CERTIFICATE, HALOHOP_KEY and HALOHOP_AUTHORITY name their files; then no token is needed.

    Args:
        encrypt: whether peers shall encrypt; they also do where HALOHOP_ENCRYPT is 1.

    Raises:
        InputError: the file cannot be read, others can read or write it or the private key, the token is too short, there is none
            to encrypt with, or only some of the three files are named.
    """
    env = os.environ if env is None else env
    encrypt = encrypt or _is_on(env.get(ENCRYPT_VARIABLE, ""))
    certificate = _certificate(env)
    text = env.get(TOKEN_VARIABLE, "").strip().encode()
    if path is not None:
        text = _read_token(Path(path))
    elif not text and certificate is None:
        if encrypt:
            raise InputError(f"encryption ({ENCRYPT_VARIABLE}) needs a token; {TOKEN_REMEDY}")
        return None
    return Token(text, encrypt=encrypt, certificate=certificate)


def _read_token(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            status, text = os.fstat(file.fileno()), file.read().strip()
    except OSError as error:
        raise InputError(f"cannot read the token file {path}: {error.strerror}") from error
    _refuse_shared(path, status, "token")
    try:
        return Token(text).key
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _refuse_shared(path: Path, status: os.stat_result, secret: str) -> None:
    mode, from_root = status.st_mode & 0o777, status.st_uid == 0 != os.geteuid()
    if others := mode & (0o026 if from_root else 0o066):  # root gives a file to a group on purpose: a mounted Secret
        verb = "read" if others & 0o044 else "write"
        raise InputError(f"others can {verb} the {secret} in {path} (mode {mode:o}); make a new one, and chmod 600 {path}")


def _certificate(env: Mapping[str, str]) -> Certificate | None:
    files = [env.get(name, "").strip() for name in CERTIFICATE_VARIABLES]
    if not any(files):
        return None
    if not all(files):
        missing = next(name for name, file in zip(CERTIFICATE_VARIABLES, files, strict=True) if not file)
        raise InputError(f"{missing} is not set; a key pair needs all of {', '.join(CERTIFICATE_VARIABLES)}, or none")
    chain, key, authority = map(Path, files)
    with suppress(OSError):  # TLS says that it cannot be read
        _refuse_shared(key, key.stat(), "private key")
    return Certificate(chain=chain, key=key, authority=authority)


def _is_on(text: str) -> bool:
    choices = {"": False, "0": False, "false": False, "no": False, "off": False, "1": True, "true": True, "yes": True, "on": True}
    try:
        return choices[text.strip().lower()]
    except KeyError:
        raise InputError(f"{ENCRYPT_VARIABLE}={text!r} is neither 1 nor 0") from None
